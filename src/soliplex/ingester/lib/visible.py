"""Text from elsewhere, as a terminal may have it: what would steer the terminal becomes visible instead.

File names, titles, reasons and passages are chosen by strangers. A terminal obeys what is in them: an escape sequence
clears the screen or renames the window, a carriage return writes over a line, and a bidirectional control shows a name
in another order than it has.
"""

from __future__ import annotations

import re
from typing import Final

_STEERING: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    r"\u2028\u2029"  # separators of lines and paragraphs
    r"\ud800-\udfff"  # halves of surrogate pairs, which no output can encode
)
_IN_LINES: Final = re.compile(f"[{_STEERING}]")
_IN_A_LINE: Final = re.compile(rf"[\t\n{_STEERING}]")
_NAMES: Final = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_A_BYTE: Final = 0x100


def visible(text: str) -> str:
    """The text in one line, with each control character as its escape: `\\x1b`."""
    if text.isprintable():  # whatever is steering is not printable; most text is, and this is quick to see
        return text
    return _IN_A_LINE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """As `visible`, for text of several lines: newlines and tabs stay."""
    return _IN_LINES.sub(_escape, text)


def visible_json(text: str) -> str:
    """A JSON text that says the same, with the control characters escaped that JSON lets stand as they are."""
    return _IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _NAMES.get(found[0]) or (f"\\x{code:02x}" if code < _A_BYTE else f"\\u{code:04x}")
