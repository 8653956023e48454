"""Where sentences end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# A row of stops is looked at once, from its beginning: if it were looked at from each of them on, a row of a hundred
# thousand would take minutes.
# Full stops of Latin and its neighbours need a space after them; those of Chinese and Japanese do not, nor do the ends
# of lines that Markdown keeps (two spaces or a backslash before them).
_END: Final = re.compile(
    "(?<![.!?\u2026\u061f\u06d4\u0964\u1362])[.!?\u2026\u061f\u06d4\u0964\u1362]++[\"'\u201d\u2019\u00bb)\\]*_]*+\\s+"
    "|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09\u201d\u2019]*\\s*"
    "|(?: {2}|\\\\)(?:\r\n?|\n)"
)
_ABBREVIATION: Final = re.compile(
    r"(?<![^\s(\[\"'])(?:[^\W\d_]|[A-Z]\.(?:[A-Z]\.)*[A-Z]|e\.g|i\.e|cf|vs|etc|al|approx|resp|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr"
    r"|Inc|Ltd|Co|Corp|No|Nos|Vol|Fig|Figs|Tab|Eq|Eqs|Sec|Ch|pp|ed|eds|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
    r"|z\.B|d\.h|u\.a|bzw|usw|ca|Nr|Abs|Art|p\.ex|núm|pág|Sra?)\.\Z"
)
_REACH: Final = 12
"""Characters before a full stop that may belong to an abbreviation."""


def sentence_ends(text: str, start: int = 0, end: int | None = None) -> Iterator[int]:
    """Places in the text at which a sentence has ended and the next begins; the end itself is none."""
    end = len(text) if end is None else end
    last, looked_at, has_letters = start, start, False
    for found in _END.finditer(text, start, end):
        # A number, or a row of dots before the page number in a table of contents, is no sentence by itself.
        has_letters = has_letters or any(map(str.isalpha, text[looked_at : found.start()]))
        looked_at = found.end()
        if has_letters and found.end() < end and not _goes_on(text, last, found):
            last, has_letters = found.end(), False
            yield last


def _goes_on(text: str, start: int, found: re.Match[str]) -> bool:
    """Whether the sentence that begins at `start` goes on after what looks like its end."""
    if not found[0].startswith("."):
        return False
    stop = found.start() + 1
    if text[max(start, stop - 4) : stop - 1].rstrip().endswith("."):  # a row of dots
        return True
    if _ABBREVIATION.search(text, max(start, stop - _REACH), stop):
        return True
    # In scripts that have capitals no sentence begins with a small letter, and in none with a full stop.
    following = text[found.end()]
    return following.islower() or following == "."
