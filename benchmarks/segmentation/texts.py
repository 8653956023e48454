"""Texts of which is known where they should be cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from soliplex.ingester.segmenter.cues import Passage
from soliplex.ingester.segmenter.markdown_blocks import BlockKind, blocks_of

PAGES: Final = ("segmentation", "mdn.jsonl")
"""Where the pages are, below the folder of data."""
_CHOI_LINE: Final = "=========="
_CHOI_FILES: Final = (".ref", ".txt", "")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, below its heading; the first has none."""

    title: str
    paragraphs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of documentation in its sections."""

    title: str
    sections: Sequence[Section]

    @property
    def paragraphs(self) -> list[str]:
        return [text for section in self.sections for text in section.paragraphs]

    @property
    def starts(self) -> list[int]:
        """The numbers of the paragraphs that sections begin with."""
        return [0, *accumulate(len(section.paragraphs) for section in self.sections[:-1])]


def pages(path: Path) -> list[Page]:
    """The pages in a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [_page(json.loads(line)) for line in lines]


def _page(row: dict[str, object]) -> Page:
    found: Sequence[dict[str, object]] = row["segments"]  # pyright: ignore[reportAssignmentType]  as the file has it
    sections = [Section(str(each["title"]), list[str](each["paras"])) for each in found]  # pyright: ignore[reportArgumentType]
    return Page(str(row["title"]), sections)


def fitted_to(all_pages: Sequence[Page]) -> Sequence[Page]:
    """The half that weights are fitted to: every other page, from the first."""
    return all_pages[::2]


def held_out(all_pages: Sequence[Page]) -> Sequence[Page]:
    """The half that nothing was fitted to."""
    return all_pages[1::2]


def passages_of(page: Page) -> list[Passage]:
    """The paragraphs as the segmenter sees them, without any heading."""
    return [Passage(text, _kind(text)) for text in page.paragraphs]


def _kind(text: str) -> BlockKind:
    blocks = blocks_of(text)
    return blocks[0].kind if blocks else BlockKind.PARAGRAPH


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences of several texts, one after the other."""

    sentences: Sequence[str]
    starts: Sequence[int]


def choi_sets(folder: Path) -> dict[str, list[Sentences]]:
    """The texts of each folder that holds some in Choi's form: a sentence a line, equals signs between two texts."""
    found = dict[str, list[Sentences]]()
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.suffix in _CHOI_FILES):
        text = path.read_text("utf-8", "replace")
        if _CHOI_LINE in text:
            found.setdefault(str(path.parent.relative_to(folder)), []).append(_sentences(text.splitlines()))
    return found


def _sentences(lines: Sequence[str]) -> Sentences:
    parts = [part for part in _parts(lines) if part]
    starts = [0, *accumulate(map(len, parts[:-1]))]
    return Sentences([line for part in parts for line in part], starts)


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    part = list[str]()
    for line in lines:
        if line.startswith(_CHOI_LINE):
            yield part
            part = []
        elif line.strip():
            part.append(line.strip())
    yield part
