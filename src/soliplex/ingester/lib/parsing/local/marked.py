"""Headings that the PDF itself tells, put in the place of what the layout model takes their lines for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final

from docling.datamodel.base_models import Cluster, Page
from docling_core.types.doc.base import BoundingBox, Size
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.items.text import SectionHeaderItem
from docling_core.types.doc.labels import DocItemLabel

from soliplex.ingester.lib.parsing.local.lines import (
    CONFIDENCE,
    Line,
    around,
    flat,
    left_out,
    lines_of,
    rows_of,
    with_headings,
    without_heads_of_columns,
)
from soliplex.ingester.lib.parsing.page_lines import Box
from soliplex.ingester.lib.parsing.pdf_marks import Mark, Marks, PageMarks

MOST_ROWS: Final = 4
MOST_OF_LINE: Final = 0.6
"""A line is a heading if this share of it is tagged as one. A line that goes on after its heading has a smaller share.
"""
MOST_OF_PAGE: Final = 0.5
"""If tags make more than this share of a page's letters headings, they are not believed."""
SOME_LINES: Final = 8
"""Pages of fewer lines are not judged by MOST_OF_PAGE: a slide may hold a title and little else."""
NEXT_ROW: Final = 1.5
WHOLE_PAGE: Final = 0.98
"""An outline entry that points higher than this share of its page points to the page as a whole."""
_NUMBER: Final = re.compile(r"[a-z]?\d[a-z\d]*|[ivxlc]+|[a-z]")
_NOT_BESIDE_HEADINGS: Final = frozenset(
    {DocItemLabel.SECTION_HEADER, DocItemLabel.PAGE_HEADER, DocItemLabel.PAGE_FOOTER}
)
"""The kinds of clusters that hold a heading alone. If the model takes a heading and more for one of these, it is text.
"""
_LABELS_OF_ROWS: Final = frozenset({DocItemLabel.TABLE, DocItemLabel.DOCUMENT_INDEX})

_KEPT: dict[PurePath, Marks] = {}


@contextmanager
def kept(path: Path, marks: Marks) -> Generator[None]:
    """Keep the marks of a file for the time of its conversion: docling tells its models which file they look at."""
    name = path.resolve()
    _KEPT[name] = marks
    try:
        yield
    finally:
        del _KEPT[name]


def marks_on(file: PurePath, page: int) -> PageMarks:
    return _KEPT.get(Path(file).resolve(), {}).get(page, PageMarks())


def set_levels(document: DoclingDocument, marks: Marks) -> None:
    """Give headings the levels that their tags have; docling itself takes those of an outline."""
    for item in document.texts:
        if isinstance(item, SectionHeaderItem) and len(item.prov) == 1:
            number = item.prov[0].page_no
            size = document.pages[number].size
            box = item.prov[0].bbox.to_bottom_left_origin(size.height)
            place = Box(box.l, box.b, box.r, box.t)
            for mark in marks.get(number, PageMarks()).headings:
                if mark.level and any(_width_within(each, place) for each in mark.boxes):
                    item.level = mark.level


def refined(clusters: Sequence[Cluster], page: Page, size: Size, marks: Sequence[Mark] = ()) -> list[Cluster]:
    """What the model found, corrected by what the lines tell, and by what the document says itself."""
    lines = lines_of(page, size)
    headed = with_marked(without_heads_of_columns(with_headings(clusters, lines), lines), lines, marks, size)
    clusters = [*headed, *left_out(headed, lines, size)]
    return [cluster.model_copy(update={"id": number}) for number, cluster in enumerate(clusters)]


def with_marked(clusters: Sequence[Cluster], lines: Sequence[Line], marks: Sequence[Mark], size: Size) -> list[Cluster]:
    """The clusters, with those headings made of the lines that are marked as such, and taken out of all others."""
    found = list(clusters)
    for heading in _headings(lines, marks, size):
        if all(_is_alone(heading, cluster, lines) for cluster in found):
            found = [part for cluster in found for part in _without(heading, cluster, lines)]
            box = around(heading)
            found.append(Cluster(id=0, label=DocItemLabel.SECTION_HEADER, confidence=CONFIDENCE, bbox=box))
    return found


def _headings(lines: Sequence[Line], marks: Sequence[Mark], size: Size) -> Iterator[list[Line]]:
    tagged = [[line for line in lines if _is_tagged(line, mark.boxes, size)] for mark in marks if mark.boxes]
    if len(lines) < SOME_LINES or sum(map(_length, tagged)) <= MOST_OF_PAGE * _length(lines):
        yield from filter(None, tagged)
    known = {id(line) for heading in tagged for line in heading}
    rows = rows_of(lines)
    for mark in marks:
        if mark.title and (heading := _named(mark, rows, size)) and not any(id(line) in known for line in heading):
            known |= {id(line) for line in heading}
            yield heading


def _length(lines: Sequence[Line]) -> int:
    return sum(len(line.text) for line in lines)


def _is_tagged(line: Line, boxes: Sequence[Box], size: Size) -> bool:
    """Whether most of the line is covered by what is tagged."""
    place = Box(line.box.l, size.height - line.box.b, line.box.r, size.height - line.box.t)
    covered = sum(_width_within(box, place) for box in boxes)
    return covered > MOST_OF_LINE * (place.right - place.left)


def _width_within(box: Box, place: Box) -> float:
    """How much of the line is what is tagged. Half the height must agree: two readers see letters of two heights."""
    is_same_line = min(place.top, box.top) - max(place.bottom, box.bottom) >= min(place.height, box.height) / 2
    return max(0.0, min(box.right, place.right) - max(box.left, place.left)) if is_same_line else 0.0


def _named(mark: Mark, rows: Sequence[Sequence[Line]], size: Size) -> list[Line] | None:
    """The lines that say the title: where it points, or else the largest."""
    title = _letters(mark.title)
    found = [lines for first in range(len(rows)) if (lines := _saying(title, first, rows))]
    if mark.top is not None and mark.top < WHOLE_PAGE * size.height:
        top = size.height - mark.top
        # What says the same far above is the header of the page.
        below = [lines for lines in found if around(lines).t > top - NEXT_ROW * lines[0].height]
        return min(below, key=lambda lines: abs(around(lines).t - top), default=None)
    return max(found, key=lambda lines: lines[0].style.size, default=None)


def _saying(title: str, first: int, rows: Sequence[Sequence[Line]]) -> list[Line]:
    """This row, and those that go on below it, if they say the title and no more; else nothing."""
    block: list[Sequence[Line]] = []
    text = ""
    for row in rows[first:]:
        if block and not _goes_on(block[-1], row):
            continue
        block.append(row)
        text += _letters_of(row)
        if _is_same(title, text):
            return flat(block)
        if len(block) == MOST_ROWS or len(text) > len(title):
            break
    return []


def _goes_on(above: Sequence[Line], row: Sequence[Line]) -> bool:
    one, other = around(above), around(row)
    return other.t - one.t >= 0 and other.t - one.b < NEXT_ROW * above[0].height and one.l < other.r and other.l < one.r


def _is_same(title: str, text: str) -> bool:
    """Whether they are the same, but for a number that one of them begins with."""
    shorter, longer = sorted((title, text), key=len)
    if len(shorter) < 2 or not longer.endswith(shorter):  # noqa: PLR2004  a letter is no title
        return False
    before = longer.removesuffix(shorter)
    return not before or bool(_NUMBER.fullmatch(before))


def _letters_of(row: Sequence[Line]) -> str:
    return _letters("".join(line.text for line in row))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _is_alone(heading: Sequence[Line], cluster: Cluster, lines: Sequence[Line]) -> bool:
    """Whether nothing else of the cluster stands beside the heading: a cell of a table is left where it is."""
    inside = [line for line in heading if line.is_inside(cluster.bbox)]
    box = around(heading)
    return not inside or not any(
        line not in heading and line.is_inside(cluster.bbox) and box.t < line.middle[1] < box.b for line in lines
    )


def _without(heading: Sequence[Line], cluster: Cluster, lines: Sequence[Line]) -> list[Cluster]:
    """What is left of a cluster: what stands above the heading, and what stands below it."""
    if not any(line.is_inside(cluster.bbox) for line in heading):
        return [cluster]
    if cluster.label is DocItemLabel.PICTURE:
        return []  # its text stays in the body, where it is read as a heading
    box = around(heading)
    others = [line for line in lines if line not in heading and line.is_inside(cluster.bbox)]
    halves = [
        [line for line in others if line.middle[1] < box.t],
        [line for line in others if line.middle[1] > box.b],
    ]
    return [_part(cluster, half, box) for half in halves if half]


def _part(cluster: Cluster, lines: Sequence[Line], heading: BoundingBox) -> Cluster:
    box, inner = cluster.bbox, around(lines)
    is_above = inner.t < heading.t
    part = BoundingBox(
        l=box.l, t=box.t if is_above else inner.t, r=box.r, b=min(box.b, heading.t) if is_above else box.b
    )
    is_row = cluster.label in _LABELS_OF_ROWS and len(rows_of(lines)) == 1
    is_text = is_row or cluster.label in _NOT_BESIDE_HEADINGS
    return cluster.model_copy(update={"bbox": part, **({"label": DocItemLabel.TEXT} if is_text else {})})
