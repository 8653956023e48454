"""The tables of a page: where they are, beside those that the layout model sees, and what their cells hold.

A PDF may say itself which letters make a cell, by tags. Elsewhere `table_grids` tells rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Final, NamedTuple, override

from docling.datamodel.base_models import Cluster, Page, Table, TableStructurePrediction
from docling.datamodel.document import ConversionResult
from docling.datamodel.pipeline_options import BaseTableStructureOptions
from docling.models.base_table_model import BaseTableStructureModel
from docling_core.types.doc.base import BoundingBox
from docling_core.types.doc.items.table.table_data import TableCell
from docling_core.types.doc.labels import DocItemLabel

from soliplex.ingester.lib.parsing.line_ends import DIVIDED, with_mark
from soliplex.ingester.lib.parsing.local.marked import marks_on
from soliplex.ingester.lib.parsing.local.table_grids import (
    THIN,
    Grid,
    Word,
    Words,
    grid_in,
    is_drawn,
    lines_of,
    segments_of,
)
from soliplex.ingester.lib.parsing.page_lines import Box
from soliplex.ingester.lib.parsing.pdf_marks import TaggedTable
from soliplex.ingester.lib.parsing.right_to_left import as_read_word, runs_left

NEAR: Final = 8.0
"""Points beyond a table within which its outermost lines are."""
TOUCHING: Final = 1.0
MOST_SHAPES: Final = 3_000
"""Of a page; a drawing has more."""
MOST_FILLED: Final = 0.5
"""Share of the cells of a grid that hold words, if it is a table; that of a chart has few."""
MOST_OF_TABLE: Final = 0.5
"""Share of a tagged table that a region has in it, if it is that table."""
MOST_OF_PAGE: Final = 0.9
"""Share of a page above which a rectangle is its ground."""
SAME_PLACE: Final = 0.5
MOST_COMPARED: Final = 4_000_000
"""Words of a table times pieces of tagged text: a page of a thousand words has a million."""
AROUND_LETTERS: Final = 1.5
"""Points by which two readers of a page differ on where a letter ends."""


class Shapes(NamedTuple):
    """Lines and rectangles that are drawn on a page, from its top left."""

    rules: Sequence[BoundingBox] = ()
    shades: Sequence[BoundingBox] = ()

    def near(self, box: BoundingBox) -> Shapes:
        """Those inside the box or at its edge."""
        return Shapes(
            [shape for shape in self.rules if _is_near(shape, box)],
            [shape for shape in self.shades if _is_near(shape, box)],
        )


def _is_near(shape: BoundingBox, box: BoundingBox) -> bool:
    across, down = (shape.l + shape.r) / 2, (shape.t + shape.b) / 2
    return box.l - NEAR <= across <= box.r + NEAR and box.t - NEAR <= down <= box.b + NEAR


class WordTableModel(BaseTableStructureModel):
    """Finds the structure of the tables that the layout found."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled

    @classmethod
    @override
    def get_options_type(cls) -> type[BaseTableStructureOptions]:
        return BaseTableStructureOptions

    @override
    def predict_tables(self, conv_res: ConversionResult, pages: Sequence[Page]) -> Sequence[TableStructurePrediction]:
        return [_tables_of(page, marks_on(conv_res.input.file, page.page_no).tables) for page in pages]


def _tables_of(page: Page, tagged: Sequence[TaggedTable]) -> TableStructurePrediction:
    layout = page.predictions.layout
    clusters = [cluster for cluster in layout.clusters if cluster.label is DocItemLabel.TABLE] if layout else []
    shapes = shapes_on(page) if clusters else Shapes()
    return TableStructurePrediction(
        table_map={cluster.id: _table(cluster, page, shapes, tagged) for cluster in clusters}
    )


def _table(cluster: Cluster, page: Page, shapes: Shapes, tagged: Sequence[TaggedTable]) -> Table:
    words = _words_in(cluster, page)
    height = page.size.height if page.size else 0.0
    known = next((table for table in tagged if _is_of(table, cluster.bbox, height)), None)
    if known is not None and len(words) * sum(len(cell.boxes) for cell in known) > MOST_COMPARED:
        known = None
    if known is not None:
        grid = tagged_grid(words, known, height)
    else:
        grid = grid_in(words, *shapes.near(cluster.bbox))
        grid = [row[::-1] for row in grid] if _runs_left(words) else grid
    cells = [_cell(words, row, column) for row, columns in enumerate(grid) for column, words in enumerate(columns)]
    return Table(
        otsl_seq=[],
        table_cells=cells,
        num_rows=len(grid),
        num_cols=max(map(len, grid), default=0),
        id=cluster.id,
        page_no=page.page_no,
        cluster=cluster,
        label=cluster.label,
    )


def _is_of(table: TaggedTable, box: BoundingBox, height: float) -> bool:
    return place_of(table, height).intersection_over_self(box) > MOST_OF_TABLE


def place_of(table: TaggedTable, height: float) -> BoundingBox:
    """Where a tagged table is, from the top left of a page of that height."""
    boxes = [box for cell in table for box in cell.boxes]
    return BoundingBox(
        l=min(box.left for box in boxes) - AROUND_LETTERS,
        t=height - max(box.top for box in boxes) - AROUND_LETTERS,
        r=max(box.right for box in boxes) + AROUND_LETTERS,
        b=height - min(box.bottom for box in boxes) + AROUND_LETTERS,
    )


def tagged_grid(words: Sequence[Word], table: TaggedTable, height: float) -> Grid:
    """The words of each tagged cell. A line that is in none, as a repeated head is, becomes a row of its own."""
    rows = {row: number for number, row in enumerate(sorted({cell.row for cell in table}))}
    columns = {column: number for number, column in enumerate(sorted({cell.column for cell in table}))}
    grid: Grid = [[[] for _ in columns] for _ in rows]
    others: Words = []
    for word in words:
        cell = next((cell for cell in table if any(_covers(box, word, height) for box in cell.boxes)), None)
        if cell is None:
            others.append(word)
        else:
            grid[rows[cell.row]][columns[cell.column]].append(word)
    sides = [
        [box for cell in table if (cell.column, cell.columns) == (column, 1) for box in cell.boxes]
        for column in columns
    ]
    grid += [_by_sides(line, sides) for line in lines_of(others)] if others else []
    placed = sorted((row for row in grid if any(row)), key=lambda row: min(word.top for cell in row for word in cell))
    return [[_in_reading_order(cell) for cell in row] for row in placed]


def _covers(box: Box, word: Word, height: float) -> bool:
    across, down = (word.left + word.right) / 2, height - word.middle
    return (
        box.left - AROUND_LETTERS <= across <= box.right + AROUND_LETTERS
        and box.bottom - AROUND_LETTERS <= down <= box.top + AROUND_LETTERS
    )


def _by_sides(line: Sequence[Word], sides: Sequence[Sequence[Box]]) -> list[Words]:
    """The texts of a line in the columns that they are nearest to."""
    middles = [
        (min(box.left for box in boxes) + max(box.right for box in boxes)) / 2 if boxes else 0.0 for boxes in sides
    ]
    row: list[Words] = [[] for _ in sides]
    for segment in segments_of(line, median(word.height for word in line)):
        middle = (segment[0].left + segment[-1].right) / 2
        row[min(range(len(sides)), key=lambda column: abs(middles[column] - middle))].extend(segment)
    return row


def _in_reading_order(words: Sequence[Word]) -> Words:
    return [word for line in lines_of(words) for word in line] if words else []


def _cell(words: Sequence[Word], row: int, column: int) -> TableCell:
    return TableCell(
        text=_text_of(list(_read_leftwards(words)) if _runs_left(words) else words),
        start_row_offset_idx=row,
        end_row_offset_idx=row + 1,
        start_col_offset_idx=column,
        end_col_offset_idx=column + 1,
        column_header=row == 0,
        bbox=_around(words) if words else None,
    )


def _text_of(words: Sequence[Word]) -> str:
    """The words with spaces between them, and a mark where a line of the cell ended with a hyphen."""
    marked = [
        with_mark(word.text, after.text) if after.top > word.middle else word.text for word, after in pairwise(words)
    ]
    return " ".join([*marked, *(word.text for word in words[-1:])]).replace(f"{DIVIDED} ", DIVIDED)


def _runs_left(words: Sequence[Word]) -> bool:
    return runs_left("".join(word.text for word in words))


def _read_leftwards(words: Sequence[Word]) -> Iterator[Word]:
    """The words of each line from right to left, but for numbers and what joins them."""
    for row in lines_of(words):
        runs = [list(run) for _, run in groupby(row, key=lambda word: _runs_left([word]))]
        for run in reversed(runs):
            for word in reversed(run) if _runs_left(run) else run:
                yield replace(word, text=as_read_word(word.text))


def _around(words: Sequence[Word]) -> BoundingBox:
    return BoundingBox(
        l=min(word.left for word in words),
        t=min(word.top for word in words),
        r=max(word.right for word in words),
        b=max(word.bottom for word in words),
    )


def _words_in(cluster: Cluster, page: Page) -> list[Word]:
    """The words of the page inside the table; where the page has only lines, or OCR read it, those of the cluster."""
    words = [word for word in words_on(page) if word.is_inside(cluster.bbox)]
    return words or _as_words(cluster.cells, page.size.height if page.size else 0.0)


def _as_words(cells: Iterable[Any], height: float) -> list[Word]:
    boxes = ((cell.text.strip(), cell.rect.to_bounding_box().to_top_left_origin(height)) for cell in cells)
    return [Word(text, box.l, box.t, box.r, box.b) for text, box in boxes if text]


def words_on(page: Page) -> list[Word]:
    """The words of the page, as far as they are in its text layer."""
    return _as_words(page.parsed_page.word_cells if page.parsed_page else [], page.size.height if page.size else 0.0)


def shapes_on(page: Page) -> Shapes:
    """Lines and rectangles on the page; none where the reader of the PDF tells no shapes, or there are too many."""
    result: Any = getattr(page._backend, "_result", None)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  docling tells lines alone
    if result is None or page.size is None:
        return Shapes()
    paper = page.size.width * page.size.height
    rules, shades = list[BoundingBox](), list[BoundingBox]()
    for number, shape in enumerate(result._require_page_decoder().get_page_shapes()):  # noqa: SLF001  as above
        xs, ys = list(shape.get_x()), list(shape.get_y())
        if number == MOST_SHAPES:
            return Shapes()
        if not xs or not ys:
            continue
        box = BoundingBox(l=min(xs), t=page.size.height - max(ys), r=max(xs), b=page.size.height - min(ys))
        if min(box.width, box.b - box.t) <= THIN:
            rules.append(box)
        elif _is_rectangle(xs, ys, box, page.size.height) and box.area() < MOST_OF_PAGE * paper:
            shades.append(box)
    return Shapes(rules, shades)


def _is_rectangle(xs: Sequence[float], ys: Sequence[float], box: BoundingBox, height: float) -> bool:
    """Whether all corners of the path are corners of the box around it."""
    return len(xs) in {4, 5} and all(
        min(abs(x - box.l), abs(x - box.r)) < SAME_PLACE
        and min(abs(height - y - box.t), abs(height - y - box.b)) < SAME_PLACE
        for x, y in zip(xs, ys, strict=True)
    )


def ruled_tables(page: Page, shapes: Shapes) -> list[BoundingBox]:
    """Where ruling lines that touch each other make rows and columns, and most of these hold words."""
    words = words_on(page)
    found: list[BoundingBox] = []
    for group in _touching(shapes.rules):
        if not is_drawn(group):
            continue
        box = BoundingBox.enclosing_bbox(group)
        grid = grid_in([word for word in words if word.is_inside(box)], group)
        cells = [cell for row in grid for cell in row]
        if len(grid) > 1 and len(cells) > len(grid) and sum(map(bool, cells)) > MOST_FILLED * len(cells):
            found.append(box)
    return found


def _touching(rules: Sequence[BoundingBox]) -> list[list[BoundingBox]]:
    """The lines in groups: from each line of a group all others are reached over lines that touch."""
    left = list(rules)
    groups: list[list[BoundingBox]] = []
    while left:
        group, waiting = list[BoundingBox](), [left.pop()]
        while waiting:
            rule = waiting.pop()
            group.append(rule)
            apart = list[BoundingBox]()
            for other in left:
                (waiting if _touch(rule, other) else apart).append(other)
            left = apart
        groups.append(group)
    return groups


def _touch(one: BoundingBox, other: BoundingBox) -> bool:
    across = max(one.l, other.l) - min(one.r, other.r)
    down = max(one.t, other.t) - min(one.b, other.b)
    return max(across, down) < TOUCHING


def has_one_column(cluster: Cluster, page: Page, shapes: Shapes) -> bool:
    """Whether there are words inside, and all of them in one column."""
    grid = grid_in([word for word in words_on(page) if word.is_inside(cluster.bbox)], *shapes.near(cluster.bbox))
    return bool(grid) and sum(any(column) for column in zip(*grid, strict=True)) == 1


def is_full_grid(cluster: Cluster, page: Page) -> bool:
    """Whether the words inside stand in rows and columns without a gap: then they are a table."""
    grid = grid_in(_words_in(cluster, page), ())
    cells = [cell for row in grid for cell in row]
    return len(grid) > 1 and len(cells) > len(grid) and all(cells)
