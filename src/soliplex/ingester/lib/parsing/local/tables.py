"""Rows and columns of a table, from where its words stand.

There is no model for this without torch. Words on one line are a row; where no row has a word, a column ends. That
reads ruled and unruled tables alike, takes a cell of two lines for two cells, and loses no word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
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
    grid = grid_of(_words_in(cluster, page))
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
        text=" ".join(word.text for word in words),
        start_row_offset_idx=row,
        end_row_offset_idx=row + 1,
        start_col_offset_idx=column,
        end_col_offset_idx=column + 1,
        column_header=row == 0,
        bbox=_around(words) if words else None,
    )


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
