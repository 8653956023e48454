"""Characters that nobody sees and that part a word in two, for whoever looks for it.

A soft hyphen says where a word may be divided. Pages of HTML, text documents, and the PDFs that are printed of them
hold it in the middle of words, and an index of words takes it for their end. Between digits a PDF means a hyphen by it:
there it is drawn, as in `2024-05-01`.
"""

from __future__ import annotations

import re
from typing import Final

_SOFT_HYPHEN: Final = "\u00ad"
_PLACES_TO_BREAK: Final = "\u200b\u2060\ufeff"
"""Zero width space, word joiner, byte order mark. In scripts without spaces they stand between words, and stay."""
_HYPHEN_OF_NUMBERS: Final = re.compile(f"(?<=\\d){_SOFT_HYPHEN}(?=\\d)")
_INSIDE_A_WORD: Final = re.compile(f"(?<=[0-9A-Za-z])[{_PLACES_TO_BREAK}]+(?=[0-9A-Za-z])")


def without_invisible(text: str) -> str:
    """The text with its words whole."""
    if _SOFT_HYPHEN in text:
        text = _HYPHEN_OF_NUMBERS.sub("-", text).replace(_SOFT_HYPHEN, "")
    if any(each in text for each in _PLACES_TO_BREAK):
        text = _INSIDE_A_WORD.sub("", text)
    return text
