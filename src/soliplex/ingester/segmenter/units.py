"""Units: what is never cut, and how well may be cut before each.

A heading is one unit with what comes first below it. A paragraph that is long is as many units as it has sentences.
Nothing else is ever taken apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from soliplex.ingester.segmenter.markdown_blocks import Block, BlockKind, blocks_of
from soliplex.ingester.segmenter.sentences import sentence_ends
from soliplex.ingester.segmenter.sizes import Sizes, size_of

_PARTS_OF_TARGET: Final = 64
"""Neighbouring list items shorter than this part of the target are one unit: a list of 100,000 words stays cheap."""
_MOST_HEADINGS: Final = 6
"""Most headings that go with the block below them: pages of nothing but headings are cut between headings."""
_LONG_PARAGRAPH: Final = 0.5
"""The share of the target from which on a paragraph is long. Shorter ones stay whole."""


_COLONS: Final = (":", "\uff1a")


class Before(IntEnum):
    """What a cut before a unit would be a cut between."""

    SENTENCES = 0
    ITEMS = 1
    """Between items of a list, or within a quotation."""
    BLOCKS = 2
    SECTIONS = 3


@dataclass(frozen=True, slots=True)
class Unit:
    """The least that articles are made of."""

    start: int
    end: int
    size: int
    before: Before
    path: tuple[str, ...] = ()
    """The headings that it stands below, the one it begins with among them."""
    level: int = 0
    """The level of the heading that it begins with; 0 where it begins with none."""
    heading: str = ""
    """What that heading says."""
    kind: BlockKind = BlockKind.PARAGRAPH
    """The kind of what it holds besides headings."""
    announces: bool = False
    """Whether it ends in a colon: what comes next belongs to it."""


@dataclass(frozen=True, slots=True)
class _Headed:
    """A block with the headings right before it."""

    headings: tuple[Block, ...]
    block: Block
    path: tuple[str, ...]
    """The headings that the block stands below."""
    first_path: tuple[str, ...]
    """The headings that all of it stands below: the first of its own, and those above that."""

    @property
    def start(self) -> int:
        return self.headings[0].start if self.headings else self.block.start


def units_of(markdown: str, sizes: Sizes) -> list[Unit]:
    """The units of the text; they follow each other without gaps."""
    least = max(sizes.target // _PARTS_OF_TARGET, 1)
    units = list[Unit]()
    before: BlockKind | None = None
    for headed in _headed(blocks_of(markdown)):
        for unit in _units_of_block(markdown, headed, before, sizes):
            if units and unit.before is Before.ITEMS and max(unit.size, units[-1].size) < least:
                size = units[-1].size + unit.size
                units[-1] = replace(units[-1], end=unit.end, size=size, announces=unit.announces)
            else:
                units.append(unit)
        before = headed.block.kind
    return _with_front_matter(units)


def _with_front_matter(units: list[Unit]) -> list[Unit]:
    """Facts about the document are no article of their own: they go with what comes first."""
    if len(units) < 2 or units[0].kind is not BlockKind.FRONT_MATTER:  # noqa: PLR2004
        return units
    matter, first, *rest = units
    return [replace(first, start=matter.start, size=matter.size + first.size), *rest]


def _headed(blocks: Sequence[Block]) -> Iterator[_Headed]:
    """Every block that is no heading, with the headings before it. Headings that nothing follows come as blocks."""
    path = list[Block]()
    waiting = list[tuple[Block, tuple[str, ...]]]()
    for block in blocks:
        if block.kind is not BlockKind.HEADING:
            headings = tuple(heading for heading, _ in waiting)
            yield _Headed(headings, block, _texts(path), waiting[0][1] if waiting else _texts(path))
            waiting.clear()
            continue
        # A heading goes with the next, unless that ends the section around it: parsers of pages often know no levels.
        if waiting and (waiting[0][0].level > block.level or len(waiting) == _MOST_HEADINGS):
            yield _bare(waiting)
            waiting.clear()
        while path and path[-1].level >= block.level:
            path.pop()
        path.append(block)
        waiting.append((block, _texts(path)))
    if waiting:
        yield _bare(waiting)


def _bare(waiting: Sequence[tuple[Block, tuple[str, ...]]]) -> _Headed:
    return _Headed(tuple(heading for heading, _ in waiting[:-1]), waiting[-1][0], waiting[-1][1], waiting[0][1])


def _texts(headings: Sequence[Block]) -> tuple[str, ...]:
    return tuple(heading.heading for heading in headings)


def _units_of_block(markdown: str, headed: _Headed, before: BlockKind | None, sizes: Sizes) -> Iterator[Unit]:
    block = headed.block
    first = headed.headings[0] if headed.headings else block
    heading = first if first.kind is BlockKind.HEADING else None
    boundary = _boundary(before, block.kind) if heading is None else Before.SECTIONS
    start = headed.start
    for end in _ends(markdown, block, sizes):
        text = markdown[start:end]
        announces = text.rstrip().endswith(_COLONS)
        unit = Unit(start, end, size_of(text), boundary, headed.path, kind=block.kind, announces=announces)
        if heading is not None:
            unit = replace(unit, path=headed.first_path, level=heading.level, heading=heading.heading)
        yield unit
        start, boundary, heading = end, Before.SENTENCES, None


def _boundary(before: BlockKind | None, kind: BlockKind) -> Before:
    same = before is kind and kind in {BlockKind.LIST_ITEM, BlockKind.QUOTE}
    return Before.ITEMS if same else Before.BLOCKS


def _ends(markdown: str, block: Block, sizes: Sizes) -> Iterator[int]:
    if block.kind is BlockKind.PARAGRAPH and block.end - block.start > sizes.target * _LONG_PARAGRAPH:
        yield from sentence_ends(markdown, block.start, block.end)
    yield block.end
