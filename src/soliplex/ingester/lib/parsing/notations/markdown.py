"""Pieces of Markdown that all converters write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

DEEPEST: Final = 6
"""The lowest level that Markdown has headings for."""
_TICKS: Final = re.compile(r"`{3,}")
_MEANT_AS_TEXT: Final = re.compile(r"^(\s*)(#|[-+>]\s|\d+[.)]\s)", re.MULTILINE)
_BREAKS: Final = re.compile(r"\s*\n\s*")


def heading(level: int, text: str) -> str:
    return f"{'#' * max(1, min(level, DEEPEST))} {one_line(text)}"


def fenced(text: str, language: str = "") -> str:
    """Code, in a fence that is longer than any in it."""
    fence = "`" * max([3, *(len(found) + 1 for found in _TICKS.findall(text))])
    return f"{fence}{language}\n{text.strip('\n')}\n{fence}"


def escaped(text: str) -> str:
    """Text that is to be read as it stands: no tag, and no heading or list at the beginning of a line."""
    return _MEANT_AS_TEXT.sub(r"\1\\\2", text.replace("&", "&amp;").replace("<", "&lt;"))


def one_line(text: str) -> str:
    return _BREAKS.sub(" ", text.strip())


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table, the first as its header."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [_row([*row, *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], _row(["---"] * width), *lines[1:]])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(one_line(cell).replace('|', '\\|') for cell in cells)} |"


def page(blocks: Iterable[str]) -> str:
    return "\n\n".join(block for block in blocks if block.strip()) + "\n"
