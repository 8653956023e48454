"""Rows and columns of a table, told from its lines, its shades, and where its words stand.

    lines and edges of shades ──▶ separators of rows and columns
    gaps that few rows cross  ──▶ the other separators of columns
    between two separators    ──▶ a line whose words would not have fitted on the line above goes on with its cells;
                                  so does one that follows closer than rows do

Words that stand together are never parted, and no word is lost. A cell that goes over several rows or columns has its
text in the first of them, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Final

from docling_core.types.doc.base import BoundingBox

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
HALF_OF_CELL: Final = 0.5
"""Share of a cell's side that a line covers, if it ends the cell there."""
FEWEST_EDGES: Final = 3
"""Lines that two rows, or two columns, have: one on each side, and one between."""
NEXT_LINE: Final = 0.8
"""The gap between two lines of one cell is less than this share of their height."""
WIDER: Final = 1.2
"""The distance of two rows is at least so many times that of two lines in a cell, where the two differ."""
MOST_COMPLETE: Final = 0.5
"""Share of lines with text in every column above which they are rows, however close they stand."""


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

    def is_inside(self, box: BoundingBox) -> bool:
        return box.l <= (self.left + self.right) / 2 <= box.r and box.t <= self.middle <= box.b


type Words = list[Word]
type Grid = list[list[Words]]
"""The words of each cell, by row and column; every row has as many columns."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A line across or down the table: its place, and the stretches that its pieces cover."""

    place: float
    pieces: Sequence[tuple[float, float]]

    def covered(self, first: float, last: float) -> float:
        """How much of a stretch the pieces cover; where two lie upon each other, once."""
        found, reached = 0.0, first
        for piece in self.pieces:
            start, end = max(piece[0], reached), min(piece[1], last)
            if end > start:
                found, reached = found + end - start, end
        return found

    def parts(self, first: float, last: float) -> bool:
        return self.covered(first, last) >= HALF_OF_CELL * (last - first)


def grid_in(words: Sequence[Word], rules: Sequence[BoundingBox], shades: Sequence[BoundingBox] = ()) -> Grid:
    """The words of each cell of a table."""
    if not words:
        return []
    across, down = edges_of([*rules, *(side for shade in shades for side in _sides(shade))])
    inner_across = _between(across, [word.middle for word in words])
    inner_down = _between(down, [(word.left + word.right) / 2 for word in words])
    usual_height = _usual_height(words)
    lines = lines_of(words, usual_height)
    segments = [_segments(line, usual_height, inner_down, (line[0].top, line[0].bottom)) for line in lines]
    has_drawn_columns = len(inner_down) > 1 or (bool(inner_down) and len(down) >= FEWEST_EDGES)
    drawn = [edge.place for edge in inner_down]
    edges = drawn if has_drawn_columns else _all_edges(segments, drawn)
    bands: list[Grid] = [[] for _ in range(len(inner_across) + 1)]
    for line, row in zip(lines, segments, strict=True):
        bands[sum(edge.place < line[0].middle for edge in inner_across)].append(_in_columns(row, edges))
    if has_drawn_columns and len(inner_across) >= FEWEST_EDGES:
        ruled = [_together(band) if band else [list[Word]() for _ in range(len(edges) + 1)] for band in bands]
        return _filled(
            _with_tall_cells(
                ruled, inner_across, [min(word.left for word in words), *edges, max(word.right for word in words)]
            )
        )
    return _told_rows([band for band in bands if band], least_lines=1 if has_drawn_columns else 2)


def _told_rows(bands: Sequence[Grid], least_lines: int) -> Grid:
    """The rows where not each of them has its lines: a band between two of these holds one row, or several."""
    rights = rights_of([row for band in bands for row in band])
    closest = _distance_of_rows(bands)
    found: Grid = []
    for band in bands:
        if len(bands) > least_lines and _is_one_row(band):
            found.append(_together(band))
        else:
            found += joined_rows(band, rights, closest)
    return found


def _filled(grid: Grid) -> Grid:
    return [row for row in grid if any(row)]


def is_drawn(rules: Sequence[BoundingBox]) -> bool:
    """Whether the lines part both rows and columns."""
    return min(map(len, edges_of(rules))) >= FEWEST_EDGES


def edges_of(rules: Sequence[BoundingBox]) -> tuple[list[Edge], list[Edge]]:
    """The edges across and down that are long enough to part rows or columns."""
    across = [((rule.t + rule.b) / 2, rule.l, rule.r) for rule in rules if rule.r - rule.l > THIN]
    down = [((rule.l + rule.r) / 2, rule.t, rule.b) for rule in rules if rule.b - rule.t > THIN]
    return _long(_edges(across)), _long(_edges(down))


def _sides(shade: BoundingBox) -> list[BoundingBox]:
    lines = [(shade.l, shade.t, shade.r, shade.t), (shade.l, shade.b, shade.r, shade.b)]
    lines += [(shade.l, shade.t, shade.l, shade.b), (shade.r, shade.t, shade.r, shade.b)]
    return [BoundingBox(l=left, t=top, r=right, b=bottom) for left, top, right, bottom in lines]


def _edges(pieces: Sequence[tuple[float, float, float]]) -> list[Edge]:
    groups: list[list[tuple[float, float, float]]] = []
    for piece in sorted(pieces):
        if groups and piece[0] - groups[-1][-1][0] < SAME_RULE:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [
        Edge(fmean(place for place, _, _ in group), sorted((start, end) for _, start, end in group)) for group in groups
    ]


def _long(edges: Sequence[Edge]) -> list[Edge]:
    ends = [end for edge in edges for piece in edge.pieces for end in piece]
    if not ends:
        return []
    first, last = min(ends), max(ends)
    return [edge for edge in edges if edge.covered(first, last) >= MOST_OF_SIDE * (last - first)]


def _between(edges: Sequence[Edge], places: Sequence[float]) -> list[Edge]:
    """Those with words on both sides."""
    return [edge for edge in edges if min(places) < edge.place < max(places)]


def _with_tall_cells(cells: Grid, across: Sequence[Edge], sides: Sequence[float]) -> Grid:
    """The cells, with texts put together that go on below a row's end where no line ends the cell."""
    for column, (left, right) in enumerate(pairwise(sides)):
        above = 0
        for row, edge in enumerate(across, 1):
            one, other = cells[above][column], cells[row][column]
            is_parted = edge.parts(left, right)
            if one and other and not is_parted and _follows(one, other):
                one.extend(other)
                other.clear()
            elif other or is_parted:
                above = row
    return cells


def _follows(above: Sequence[Word], below: Sequence[Word]) -> bool:
    gap = min(word.top for word in below) - max(word.bottom for word in above)
    return gap < NEXT_LINE * below[0].height


def _all_edges(segments: Sequence[Sequence[Words]], drawn: Sequence[float]) -> list[float]:
    """Where columns end: at lines, and in gaps."""
    return sorted([*drawn, *(edge for edge in column_edges(segments) if not _is_beside(edge, drawn, segments))])


def _is_beside(edge: float, drawn: Sequence[float], segments: Sequence[Sequence[Words]]) -> bool:
    """Whether nothing stands between the edge and a line."""
    middles = [(segment[0].left + segment[-1].right) / 2 for line in segments for segment in line]
    return any(not any(min(edge, line) < middle < max(edge, line) for middle in middles) for line in drawn)


def _is_one_row(band: Grid) -> bool:
    """Whether what stands between two lines is one row: at most one column goes on, or all that do are text."""
    going_on = [[cell for cell in column if cell] for column in zip(*band, strict=True)]
    several = [cells for cells in going_on if len(cells) > 1]
    if len(several) <= 1:
        return True
    return all(any(map(str.isalpha, cell[0].text)) for cells in several for cell in cells[1:])


def _together(rows: Iterable[Sequence[Words]]) -> list[Words]:
    return [[word for cell in column for word in cell] for column in zip(*rows, strict=True)]


def joined_rows(grid: Sequence[Sequence[Words]], rights: Sequence[float], closest: float | None = None) -> Grid:
    """The grid, with lines put together that go on with the cells of the row above them.

    `closest` is the least distance of two rows, where they stand farther apart than the lines of a cell.
    """
    joined: Grid = []
    last: Sequence[Words] = ()
    for row in grid:
        if last and (_goes_on(last, row, rights) if closest is None else _distance(last, row) < closest):
            joined[-1] = [[*above, *cell] for above, cell in zip(joined[-1], row, strict=True)]
        else:
            joined.append([list(cell) for cell in row])
        last = row
    return joined


def rights_of(grid: Sequence[Sequence[Words]]) -> list[float]:
    """How far the text of each column reaches."""
    return [max((word.right for cell in column for word in cell), default=0.0) for column in zip(*grid, strict=True)]


def _distance_of_rows(bands: Sequence[Grid]) -> float | None:
    """The least distance of two rows, if lines that go on with a cell stand closer than rows do; else nothing."""
    pairs = [pair for band in bands for pair in pairwise(band)]
    distances = sorted(_distance(above, row) for above, row in pairs)
    jump, before, after = max(
        ((after / before, before, after) for before, after in pairwise(distances) if before > 0),
        default=(0.0, 0.0, 0.0),
    )
    if jump < WIDER:
        return None
    close = [(above, row) for above, row in pairs if _distance(above, row) <= before]
    complete = sum(all(row) for _, row in close)
    if complete > MOST_COMPLETE * len(close) or any(_is_figure_below(above, row) for above, row in close):
        return None
    return (before + after) / 2


def _distance(above: Sequence[Words], row: Sequence[Words]) -> float:
    return fmean(_middles(row)) - fmean(_middles(above))


def _middles(row: Sequence[Words]) -> list[float]:
    return [word.middle for cell in row for word in cell]


def _is_figure_below(above: Sequence[Words], row: Sequence[Words]) -> bool:
    return any(
        one and other and not _has_letters(other) and not _has_letters(one)
        for one, other in zip(above, row, strict=True)
    )


def _has_letters(words: Sequence[Word]) -> bool:
    return any(letter.isalpha() for word in words for letter in word.text)


def _goes_on(above: Sequence[Words], row: Sequence[Words], rights: Sequence[float]) -> bool:
    """Whether all texts of a row continue those above: they are words, and the first would not have fitted there."""
    if row[0] and not row[0][0].text[0].islower():
        return False
    filled = [(one, other, right) for one, other, right in zip(above, row, rights, strict=True) if other]
    return all(
        bool(one) and any(map(str.isalpha, other[0].text)) and _is_full(one, other[0], right)
        for one, other, right in filled
    )


def _is_full(line: Sequence[Word], following: Word, right: float) -> bool:
    space = following.height / 4
    return line[-1].right + space + (following.right - following.left) > right


def _usual_height(words: Sequence[Word]) -> float:
    return median(word.height for word in words) or 1.0


def lines_of(words: Sequence[Word], usual_height: float | None = None) -> list[Words]:
    """The words of each line, from left to right."""
    usual_height = usual_height or _usual_height(words)
    rows: list[Words] = []
    last_middle = float("-inf")
    for word in sorted(words, key=lambda each: each.middle):
        if word.middle - last_middle > usual_height * SAME_LINE:
            rows.append([])
            last_middle = word.middle
        rows[-1].append(word)
    return [sorted(row, key=lambda each: each.left) for row in rows]


def segments_of(line: Sequence[Word], usual_height: float) -> list[Words]:
    """Words of a line that stand close together."""
    return _segments(line, usual_height, (), (0.0, 0.0))


def _segments(
    line: Sequence[Word], usual_height: float, down: Sequence[Edge], height: tuple[float, float]
) -> list[Words]:
    """Words that stand close together, with no line between them."""
    lines = [edge.place for edge in down if edge.parts(*height)]
    segments: list[Words] = []
    for word in line:
        last = segments[-1][-1] if segments else None
        if last is None or word.left - last.right >= usual_height * SAME_CELL or _is_parted(last, word, lines):
            segments.append([word])
        else:
            segments[-1].append(word)
    return segments


def _is_parted(one: Word, other: Word, places: Sequence[float]) -> bool:
    return any((one.left + one.right) / 2 < place < (other.left + other.right) / 2 for place in places)


def column_edges(rows: Sequence[Sequence[Words]]) -> list[float]:
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


def _in_columns(segments: Sequence[Words], edges: Sequence[float]) -> list[Words]:
    columns: list[Words] = [[] for _ in range(len(edges) + 1)]
    for segment in segments:
        columns[_column(segment, edges)].extend(segment)
    return columns


def _column(segment: Sequence[Word], edges: Sequence[float]) -> int:
    """The column of a text: that of its middle, or of its beginning if it goes over three or more."""
    left, right = segment[0].left, segment[-1].right
    crossed = sum(left < edge < right for edge in edges)
    at = left if crossed > 1 else (left + right) / 2
    return sum(edge < at for edge in edges)
