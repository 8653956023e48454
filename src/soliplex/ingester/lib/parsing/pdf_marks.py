"""What a PDF says itself about its headings and tables: the entries of its outline, and the tags of its structure.

Programs that export documents write down what was typed as a heading, or as the cell of a table. Where they do, nobody
needs to guess it from what a page looks like. An outline names titles and pages, sometimes with a height; tags mark the
letters themselves.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing.page_lines import Box, as_shown

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

MOST_ENTRIES: Final = 5_000
MOST_ELEMENTS: Final = 20_000
"""Most elements of a page's tree of tags: strangers wrote it, and it may go round in circles."""
MOST_OBJECTS: Final = 50_000
"""Most objects of a page whose tags are read; a page with more is a drawing, and has no tags of interest."""
MOST_SPANNED: Final = 200
"""Most rows or columns of one cell."""
DEEPEST: Final = 40
"""Most levels of tags in tags, and of outline entries in entries."""
_HEADING: Final = re.compile(r"H[1-6]?|Title")


class Mark(NamedTuple):
    """A heading on a page: by its title, and maybe the height at which it stands, or by its places."""

    title: str
    top: float | None
    boxes: Sequence[Box]
    level: int | None


class TaggedCell(NamedTuple):
    """A cell of a table: where it begins, counted from 0, how far it goes, and the places of its letters."""

    row: int
    column: int
    rows: int
    columns: int
    boxes: Sequence[Box]


type TaggedTable = Sequence[TaggedCell]


class PageMarks(NamedTuple):
    """What is marked on a page. Heights and places are in points from the bottom left of what is shown."""

    headings: Sequence[Mark] = ()
    tables: Sequence[TaggedTable] = ()


type Marks = Mapping[int, PageMarks]
"""By the number of the page, from 1."""


def marks_of(path: Path, pages: Sequence[int]) -> Marks:
    """The marks on these pages; none where PDFium cannot read them."""
    from pypdfium2 import PdfiumError  # noqa: PLC0415  loads a library of its own

    outlined: dict[int, list[Mark]] = {}
    tagged: dict[int, PageMarks] = {}
    wanted = set(pages)
    with pdfium.opened(path) as document:
        with suppress(PdfiumError):
            for number, mark in _outline(document):
                if number in wanted:
                    outlined.setdefault(number, []).append(mark)
        for number in pages:
            with suppress(PdfiumError):
                tagged[number] = _tagged(document[number - 1])
    return {
        number: PageMarks([*tagged[number].headings, *outlined.get(number, ())], tagged[number].tables)
        if number in tagged
        else PageMarks(outlined.get(number, ()))
        for number in pages
    }


def _outline(document: PdfDocument) -> Iterator[tuple[int, Mark]]:
    for count, entry in enumerate(document.get_toc(max_depth=DEEPEST)):
        if count == MOST_ENTRIES:
            return
        target = entry.get_dest()
        number = target.get_index() if target else None
        title = (entry.get_title() or "").strip()
        if target and title and number is not None and 0 <= number < len(document):
            yield number + 1, Mark(title, _height(document[number], target), (), entry.level + 1)


def _height(page: PdfPage, target: Any) -> float | None:
    """How high on the shown page an entry points; None where it points to the page as a whole."""
    from pypdfium2 import raw  # noqa: PLC0415  as above

    mode, where = target.get_view()
    match mode, where:
        case raw.PDFDEST_VIEW_XYZ, [_, float() | int() as top, *_]:
            pass
        case ((raw.PDFDEST_VIEW_FITH | raw.PDFDEST_VIEW_FITBH), [float() | int() as top]):
            pass
        case _:
            return None
    return _shown(page, Box(0, top, 0, top)).top if page.get_rotation() == 0 and top else None


def _shown(page: PdfPage, box: Box) -> Box:
    return as_shown(box, Box(*page.get_bbox()), page.get_rotation())


def _tagged(page: PdfPage) -> PageMarks:
    from pypdfium2 import raw  # noqa: PLC0415  as above

    tree: Any = raw.FPDF_StructTree_GetForPage(page.raw)
    if not tree:
        return PageMarks()
    try:
        children = [
            raw.FPDF_StructTree_GetChildAtIndex(tree, n) for n in range(raw.FPDF_StructTree_CountChildren(tree))
        ]
        headings = [heading for child in children if child for heading in _headings(child)]
        tables = [table for child in children if child for table in _tables(child)]
    finally:
        raw.FPDF_StructTree_Close(tree)
    if not headings and not tables:
        return PageMarks()
    places = _places(page)
    marks = [
        Mark("", None, boxes, level)
        for level, ids in headings
        if (boxes := [box for number in ids for box in places.get(number, ())])
    ]
    return PageMarks(marks, [placed for table in tables if (placed := _placed(table, places))])


def _placed(table: Sequence[_Cell], places: Mapping[int, Sequence[Box]]) -> TaggedTable:
    """The cells that hold letters, if there are several rows and columns of these; else nothing."""
    cells = [
        TaggedCell(*where, boxes)
        for where, ids in table
        if (boxes := [box for number in ids for box in places.get(number, ())])
    ]
    is_table = len({cell.row for cell in cells}) > 1 and len({cell.column for cell in cells}) > 1
    return cells if is_table else []


type _Cell = tuple[tuple[int, int, int, int], list[int]]
"""The row and column that it begins in, how many it takes, and the numbers that its letters are marked with."""


def _tables(element: Any, deepest: int = DEEPEST) -> Iterator[list[_Cell]]:
    """The cells of each table; of one that holds others, those of these."""
    for depth, each in _below(element, deepest, lambda one: _kind(one) != "Table"):
        if _kind(each) == "Table":
            left = deepest - depth - 1
            inner = [table for child in _children(each) for table in _tables(child, left)] if left > 0 else []
            yield from inner or [list(_cells(each, left))]


def _children(element: Any) -> list[Any]:
    from pypdfium2 import raw  # noqa: PLC0415  as above

    children = range(raw.FPDF_StructElement_CountChildren(element))
    found = [raw.FPDF_StructElement_GetChildAtIndex(element, number) for number in children]
    return [child for child in found if child]


def _cells(table: Any, deepest: int) -> Iterator[_Cell]:
    rows = [each for _, each in _below(table, deepest, lambda one: _kind(one) != "TR") if _kind(each) == "TR"]
    taken: set[tuple[int, int]] = set()
    for row, each in enumerate(rows):
        column = 0
        for cell in _children(each):
            if _kind(cell) not in {"TD", "TH"}:
                continue
            while (row, column) in taken:
                column += 1
            is_whole = len(taken) < MOST_ELEMENTS
            down, across = (_span(cell, b"RowSpan"), _span(cell, b"ColSpan")) if is_whole else (1, 1)
            taken |= {(row + below, column + beside) for below in range(down) for beside in range(across)}
            ids = [number for _, part in _below(cell, deepest) for number in _numbers(part)]
            yield (row, column, down, across), ids
            column += across


def _span(cell: Any, name: bytes) -> int:
    from pypdfium2 import raw  # noqa: PLC0415  as above

    number = ctypes.c_float()
    for place in range(raw.FPDF_StructElement_GetAttributeCount(cell)):
        attribute = raw.FPDF_StructElement_GetAttributeAtIndex(cell, place)
        value = raw.FPDF_StructElement_Attr_GetValue(attribute, name) if attribute else None
        if value and raw.FPDF_StructElement_Attr_GetNumberValue(value, ctypes.byref(number)):
            return max(1, min(int(number.value), MOST_SPANNED))
    return 1


def _headings(element: Any) -> Iterator[tuple[int | None, list[int]]]:
    """The level of each heading below, and the numbers that its letters are marked with."""
    for depth, each in _below(element, DEEPEST, _is_no_heading):
        kind = _kind(each)
        if _HEADING.fullmatch(kind):
            level = int(kind[1:]) if kind[1:].isdecimal() else None
            yield level, [number for _, part in _below(each, DEEPEST - depth) for number in _numbers(part)]


def _is_no_heading(element: Any) -> bool:
    return _HEADING.fullmatch(_kind(element)) is None


def _below(element: Any, deepest: int, goes_on: Callable[[Any], bool] = lambda _: True) -> Iterator[tuple[int, Any]]:
    """The element and those below it in their order, but for those below one at which it does not go on."""
    waiting = [(0, element)]
    for _ in range(MOST_ELEMENTS):
        if not waiting:
            return
        depth, each = waiting.pop()
        yield depth, each
        if depth < deepest and goes_on(each):
            waiting += [(depth + 1, child) for child in reversed(_children(each))]


def _kind(element: Any) -> str:
    from pypdfium2 import raw  # noqa: PLC0415  as above

    size = raw.FPDF_StructElement_GetType(element, None, 0)
    text = ctypes.create_string_buffer(size)
    raw.FPDF_StructElement_GetType(element, text, size)
    return text.raw.decode("utf-16-le", "replace").rstrip("\0")


def _numbers(element: Any) -> Iterator[int]:
    from pypdfium2 import raw  # noqa: PLC0415  as above

    for child in range(raw.FPDF_StructElement_CountChildren(element)):
        if (number := raw.FPDF_StructElement_GetChildMarkedContentID(element, child)) >= 0:
            yield number


def _places(page: PdfPage) -> dict[int, list[Box]]:
    from pypdfium2 import raw  # noqa: PLC0415  as above

    found: dict[int, list[Box]] = {}
    edges = [ctypes.c_float() for _ in range(4)]
    for n in range(min(raw.FPDFPage_CountObjects(page.raw), MOST_OBJECTS)):
        thing = raw.FPDFPage_GetObject(page.raw, n)
        number = raw.FPDFPageObj_GetMarkedContentID(thing)
        if (
            number >= 0
            and raw.FPDFPageObj_GetType(thing) == raw.FPDF_PAGEOBJ_TEXT
            and raw.FPDFPageObj_GetBounds(thing, *map(ctypes.byref, edges))
        ):
            left, bottom, right, top = (edge.value for edge in edges)
            found.setdefault(number, []).append(_shown(page, Box(left, bottom, right, top)))
    return found
