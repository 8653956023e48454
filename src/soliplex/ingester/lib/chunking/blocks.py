"""Blocks: what readers find in a document, before anybody thinks of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

LONGEST: Final = 50_000
"""Characters of the longest block. A file without a single line break must not be measured in one piece."""


class Kind(Enum):
    """What a block is, as far as that decides where it may be cut."""

    TEXT = auto()
    LIST_ITEM = auto()
    CODE = auto()
    """Text between two fences; each piece gets its own."""
    TABLE = auto()
    """Lines of a Markdown table; each piece begins with the header."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The item of a DoclingDocument that a text was found in."""

    ref: str
    label: str
    pages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list item, a table: the least that is kept together if it fits."""

    text: str
    kind: Kind = Kind.TEXT
    origins: tuple[Origin, ...] = ()
    joiner: str = "\n\n"
    """What stands between the block and the one before it, when both are in one chunk."""
    header_lines: int = 0
    """Lines at a table's beginning that every piece of it repeats."""
    headings: tuple[str, ...] = ()
    section: int = 0
    """Tells sections apart whose headings say the same."""


def bounded(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks, with those cut that are longer than LONGEST; at a line's end or a space, where there is one."""
    for block in blocks:
        if len(block.text) <= LONGEST or block.kind in {Kind.TABLE, Kind.CODE}:
            yield block
            continue
        start = 0
        while start < len(block.text):
            end = _end_of_part(block.text, start)
            yield replace(block, text=block.text[start:end])
            start = end


def _end_of_part(text: str, start: int) -> int:
    end = start + LONGEST
    if end >= len(text):
        return len(text)
    for mark in ("\n", " "):
        found = text.rfind(mark, start + LONGEST // 2, end)
        if found > 0:
            return found + 1
    return end
