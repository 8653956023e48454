"""Rows and columns of a table, from its ruling lines, or else from where its words stand.

Where lines are drawn between all rows and columns, these are the cells. Elsewhere words on one line are a row, and a
column ends where no row has a word. A line whose words would not have fitted on the line above goes on with the cells
of that line. Neither way loses a word.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Any, Final, override

from docling.datamodel.base_models import Cluster, Page, Table, TableStructurePrediction
from docling.datamodel.document import ConversionResult
from docling.datamodel.pipeline_options import BaseTableStructureOptions
from docling.models.base_table_model import BaseTableStructureModel
from docling_core.types.doc.base import BoundingBox
from docling_core.types.doc.items.table.table_data import TableCell
from docling_core.types.doc.labels import DocItemLabel

SAME_LINE: Final = 0.5
"""The middles of words on one line are nearer to each other than this share of a word's height."""
SAME_CELL: Final = 0.7
"""The gap between words of one cell is narrower than this share of a word's height. A space is about a third."""
CROSSED_BY: Final = 0.1
"""Share of rows that may reach across a gap between columns: headers and sums do."""
THIN: Final = 3.0
"""Points. What is thinner is a line, though it may be painted as a rectangle."""
SAME_RULE: Final = 4.0
"""Lines that are nearer to each other than so many points are one: borders of neighbouring cells, double lines."""
MOST_OF_SIDE: Final = 0.6
"""Share of the table's width or height that the pieces of a line cover, if it parts rows or columns."""
TOUCHING: Final = 1.0
MOST_RULES: Final = 3_000
"""Of a page; a drawing has more."""
MOST_FILLED: Final = 0.5
"""Share of the cells of a grid that hold words, if it is a table; that of a chart has few."""
FEWEST_EDGES: Final = 3
"""Ruling lines that two rows, or two columns, have: one on each side, and one between."""


@dataclass(frozen=True, slots=True)
class Word:
    """A text and where it stands, from the top left."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        return self.bottom - self.top


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
        return [_tables_of(page) for page in pages]


def _tables_of(page: Page) -> TableStructurePrediction:
    layout = page.predictions.layout
    tables = [cluster for cluster in layout.clusters if cluster.label is DocItemLabel.TABLE] if layout else []
    return TableStructurePrediction(table_map={cluster.id: _table(cluster, page) for cluster in tables})


def _table(cluster: Cluster, page: Page) -> Table:
    words = _words_in(cluster, page)
    grid = ruled_grid(words, _rules_in(cluster, page)) or joined_rows(grid_of(words))
    if _runs_left(words):
        grid = [row[::-1] for row in grid]
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


def _cell(words: Sequence[Word], row: int, column: int) -> TableCell:
    return TableCell(
        text=" ".join(word.text for word in (_read_leftwards(words) if _runs_left(words) else words)),
        start_row_offset_idx=row,
        end_row_offset_idx=row + 1,
        start_col_offset_idx=column,
        end_col_offset_idx=column + 1,
        column_header=row == 0,
        bbox=_around(words) if words else None,
    )


def _runs_left(words: Sequence[Word]) -> bool:
    """Whether most letters belong to a script that is written from right to left."""
    ways = Counter(unicodedata.bidirectional(letter) for word in words for letter in word.text)
    return ways["R"] + ways["AL"] > ways["L"]


def _read_leftwards(words: Sequence[Word]) -> Iterator[Word]:
    """The words of each line from right to left, but for numbers and what joins them."""
    for row in _rows(words, median(word.height for word in words) or 1.0):
        runs = [list(run) for _, run in groupby(row, key=lambda word: _runs_left([word]))]
        for run in reversed(runs):
            yield from reversed(run) if _runs_left(run) else run


def _around(words: Sequence[Word]) -> BoundingBox:
    return BoundingBox(
        l=min(word.left for word in words),
        t=min(word.top for word in words),
        r=max(word.right for word in words),
        b=max(word.bottom for word in words),
    )


def _words_in(cluster: Cluster, page: Page) -> list[Word]:
    """The words of the page inside the table; where the page has only lines, or OCR read it, those of the cluster."""
    height = page.size.height if page.size else 0.0
    cells = page.parsed_page.word_cells if page.parsed_page else []
    words = [word for word in _as_words(cells, height) if _is_inside(word, cluster.bbox)]
    return words or _as_words(cluster.cells, height)


def _as_words(cells: Iterable[Any], height: float) -> list[Word]:
    boxes = ((cell.text.strip(), cell.rect.to_bounding_box().to_top_left_origin(height)) for cell in cells)
    return [Word(text, box.l, box.t, box.r, box.b) for text, box in boxes if text]


def _is_inside(word: Word, box: BoundingBox) -> bool:
    return box.l <= (word.left + word.right) / 2 <= box.r and box.t <= word.middle <= box.b


def _rules_on(page: Page) -> list[BoundingBox]:
    """Thin shapes on the page; none where the reader of the PDF tells no shapes."""
    backend = page._backend  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  docling's models ask it so, too
    return (backend.get_thin_shape_boxes(max_thickness=THIN) or []) if backend is not None else []


def _rules_in(cluster: Cluster, page: Page) -> list[BoundingBox]:
    """Those inside the table or at its edge."""
    box = cluster.bbox
    return [
        shape
        for shape in _rules_on(page)
        if box.l - SAME_RULE * 2 <= (shape.l + shape.r) / 2 <= box.r + SAME_RULE * 2
        and box.t - SAME_RULE * 2 <= (shape.t + shape.b) / 2 <= box.b + SAME_RULE * 2
    ]


def ruled_tables(page: Page) -> list[BoundingBox]:
    """Where ruling lines that touch each other make rows and columns, and most of these hold words."""
    rules = _rules_on(page)
    if not FEWEST_EDGES * 2 <= len(rules) <= MOST_RULES:
        return []
    height = page.size.height if page.size else 0.0
    words = _as_words(page.parsed_page.word_cells if page.parsed_page else [], height)
    found: list[BoundingBox] = []
    for group in _touching(rules):
        box = BoundingBox.enclosing_bbox(group)
        grid = ruled_grid([word for word in words if _is_inside(word, box)], group)
        cells = [cell for row in grid for cell in row]
        if sum(map(bool, cells)) > MOST_FILLED * len(cells):
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


def ruled_grid(words: Sequence[Word], rules: Sequence[BoundingBox]) -> list[list[list[Word]]]:
    """The words of each cell between the lines; nothing where the lines do not part both rows and columns."""
    across = [rule for rule in rules if rule.r - rule.l > THIN]
    down = [rule for rule in rules if rule.b - rule.t > THIN]
    if not words or not across or not down:
        return []
    width = max(rule.r for rule in across) - min(rule.l for rule in across)
    height = max(rule.b for rule in down) - min(rule.t for rule in down)
    tops = _edges([((rule.t + rule.b) / 2, rule.r - rule.l) for rule in across], width * MOST_OF_SIDE)
    lefts = _edges([((rule.l + rule.r) / 2, rule.b - rule.t) for rule in down], height * MOST_OF_SIDE)
    if min(len(tops), len(lefts)) < FEWEST_EDGES:
        return []
    cells: list[list[list[Word]]] = [[[] for _ in lefts[1:]] for _ in tops[1:]]
    for word in words:
        row = sum(edge < word.middle for edge in tops[1:-1])
        cells[row][sum(edge < (word.left + word.right) / 2 for edge in lefts[1:-1])].append(word)
    return [[_in_reading_order(cell) for cell in row] for row in cells]


def _edges(pieces: Sequence[tuple[float, float]], least: float) -> list[float]:
    """The places of lines whose pieces, given by place and length, are long enough together."""
    groups: list[list[tuple[float, float]]] = []
    for piece in sorted(pieces):
        if groups and piece[0] - groups[-1][-1][0] < SAME_RULE:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [fmean(place for place, _ in group) for group in groups if sum(length for _, length in group) >= least]


def _in_reading_order(words: Sequence[Word]) -> list[Word]:
    if not words:
        return []
    usual_height = median(word.height for word in words) or 1.0
    return [word for row in _rows(words, usual_height) for word in row]


def joined_rows(grid: Sequence[Sequence[list[Word]]]) -> list[list[list[Word]]]:
    """The grid, with lines put together that go on with the cells of the row above them."""
    rights = [max((word.right for cell in column for word in cell), default=0.0) for column in zip(*grid, strict=True)]
    joined: list[list[list[Word]]] = []
    last: Sequence[list[Word]] = ()
    for row in grid:
        if last and _goes_on(last, row, rights):
            joined[-1] = [[*above, *cell] for above, cell in zip(joined[-1], row, strict=True)]
        else:
            joined.append([list(cell) for cell in row])
        last = row
    return joined


def _goes_on(above: Sequence[list[Word]], row: Sequence[list[Word]], rights: Sequence[float]) -> bool:
    """Whether all texts of a row continue those above: they are words, and the first would not have fitted there."""
    if row[0]:
        return False
    filled = [(one, other, right) for one, other, right in zip(above, row, rights, strict=True) if other]
    return all(
        bool(one) and any(map(str.isalpha, other[0].text)) and _is_full(one, other[0], right)
        for one, other, right in filled
    )


def _is_full(line: Sequence[Word], following: Word, right: float) -> bool:
    space = following.height / 4
    return line[-1].right + space + (following.right - following.left) > right


def is_full_grid(cluster: Cluster, page: Page) -> bool:
    """Whether the words inside stand in rows and columns without a gap: then they are a table."""
    grid = grid_of(_words_in(cluster, page))
    cells = [cell for row in grid for cell in row]
    return len(grid) > 1 and len(cells) > len(grid) and all(cells)


def grid_of(words: Sequence[Word]) -> list[list[list[Word]]]:
    """The words of each cell, by row and column; every row has as many columns."""
    if not words:
        return []
    usual_height = median(word.height for word in words) or 1.0
    rows = [_segments(row, usual_height) for row in _rows(words, usual_height)]
    edges = _column_edges(rows)
    return [_in_columns(row, edges) for row in rows]


def _rows(words: Sequence[Word], usual_height: float) -> list[list[Word]]:
    rows: list[list[Word]] = []
    last_middle = float("-inf")
    for word in sorted(words, key=lambda each: each.middle):
        if word.middle - last_middle > usual_height * SAME_LINE:
            rows.append([])
            last_middle = word.middle
        rows[-1].append(word)
    return [sorted(row, key=lambda each: each.left) for row in rows]


def _segments(row: Sequence[Word], usual_height: float) -> list[list[Word]]:
    """Words of a row that stand close together."""
    segments: list[list[Word]] = []
    for word in row:
        if segments and word.left - segments[-1][-1].right < usual_height * SAME_CELL:
            segments[-1].append(word)
        else:
            segments.append([word])
    return segments


def _column_edges(rows: Sequence[Sequence[Sequence[Word]]]) -> list[float]:
    """Where columns begin, but for the first: the middles of the gaps that few rows cross."""
    spans = [(segment[0].left, segment[-1].right) for row in rows for segment in row]
    allowed = int(len(rows) * CROSSED_BY)
    changes = sorted([(left, 1) for left, _ in spans] + [(right, -1) for _, right in spans])
    edges: list[float] = []
    depth, gap_from = 0, None
    for place, change in changes:
        depth += change
        if depth <= allowed and change < 0 and gap_from is None:
            gap_from = place
        elif depth > allowed and change > 0 and gap_from is not None:
            edges.append((gap_from + place) / 2)
            gap_from = None
    return edges


def _in_columns(row: Sequence[Sequence[Word]], edges: Sequence[float]) -> list[list[Word]]:
    columns: list[list[Word]] = [[] for _ in range(len(edges) + 1)]
    for segment in row:
        middle = (segment[0].left + segment[-1].right) / 2
        columns[sum(edge < middle for edge in edges)].extend(segment)
    return columns
