"""Tables without lines that the layout model has not seen: texts in rows, each below the like.

    Port      2023     2024     three lines or more with several texts each (two, of three or more),
    Kiel     1,204    1,310     where the texts of a column begin or end at one place
    Riga       988      904

Two columns of running text are no table, nor is a list, a table of contents, or what stands side by side without being
aligned, as names of authors do.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Final

from docling_core.types.doc.base import BoundingBox

from soliplex.ingester.lib.parsing.local.table_grids import Word, Words, column_edges, lines_of, segments_of

FEWEST_ROWS: Final = 3
FEWEST_ROWS_OF_THREE: Final = 2
"""Where the texts of a line are three or more."""
FAR: Final = 2.5
"""A line that is so many times its height below the one before it belongs to no table with it."""
LOOKED_BACK: Final = 8
"""Lines above a line that it is compared with: a cell may have so many."""
SAME_PLACE: Final = 3.0
"""Points by which the beginnings, or the ends, of texts below each other may differ."""
MOST_ALIGNED: Final = 0.7
"""Share of the texts of a column that begin, or end, at one place."""
RUNNING: Final = 5.0
"""Words in a text from which on it is running text. A table has a column with fewer."""
_MARK: Final = re.compile(r"[\W_]+|\(?(?:\d{1,3}|[a-zA-Z]|[ivxlc]{1,5})[.)]|\d+(?:\.\d+)*\.?|\[\d+\]|§ ?\d+")
_LEADERS: Final = re.compile(r"[.\u2026\u00b7_]{4,}|(?:\. ){3,}")


@dataclass(slots=True)
class _Run:
    """Lines that may be a table."""

    lines: list[list[Words]] = field(default_factory=list[list[Words]])

    @property
    def rows(self) -> list[list[Words]]:
        return [line for line in self.lines if len(line) > 1]

    def takes(self, line: Sequence[Words]) -> bool:
        """Whether a line goes on with what is there."""
        last = self.lines[-1]
        gap = min(segment[0].top for segment in line) - max(segment[0].bottom for segment in last)
        if gap > FAR * line[0][0].height:
            return False
        known = [place for each in self.lines[-LOOKED_BACK:] for segment in each for place in _ends(segment)]
        aligned = [
            segment for segment in line if any(_is_same(place, one) for place in _ends(segment) for one in known)
        ]
        if len(line) > 1:
            return bool(aligned)
        return bool(aligned) and not self._is_crossed_by(line[0])

    def _is_crossed_by(self, segment: Sequence[Word]) -> bool:
        """Whether a lone text goes on where other lines have a gap."""
        left, right = segment[0].left, segment[-1].right
        near = (line for line in self.lines[-LOOKED_BACK:] if len(line) > 1)
        return any(left < other[0].left - SAME_PLACE and right > other[0].left for each in near for other in each)


def spaced_tables(words: Sequence[Word]) -> list[BoundingBox]:
    """Where on a page texts stand in rows and columns. The words are those that are in no table yet."""
    if not words:
        return []
    usual_height = median(word.height for word in words) or 1.0
    runs: list[_Run] = []
    run: _Run | None = None
    for line in lines_of(words, usual_height):
        segments = segments_of(line, usual_height)
        if run is not None and run.takes(segments):
            run.lines.append(segments)
        else:
            run = _Run([segments]) if len(segments) > 1 else None
            runs += [run] if run is not None else []
    return [_around(trimmed) for each in runs if _is_table(trimmed := _trimmed(each))]


def _trimmed(run: _Run) -> _Run:
    """The run without lines at its end that have text in the first column alone: a heading may follow, or a text."""
    lines = list(run.lines)
    first = min(segment[0].left for line in lines for segment in line)
    while lines and len(lines[-1]) == 1 and _is_same(lines[-1][0][0].left, first):
        lines.pop()
    return _Run(lines)


def _is_table(run: _Run) -> bool:
    rows = run.rows
    if len(rows) < (FEWEST_ROWS_OF_THREE if rows and fmean(map(len, rows)) > 2.5 else FEWEST_ROWS):  # noqa: PLR2004  half-way
        return False
    edges = column_edges(run.lines)
    columns: list[list[Words]] = [[] for _ in range(len(edges) + 1)]
    for line in run.lines:
        for segment in line:
            middle = (segment[0].left + segment[-1].right) / 2
            columns[sum(edge < middle for edge in edges)].append(segment)
    if len(columns) < 2 or any(_LEADERS.search(_text(segment)) for line in run.lines for segment in line):  # noqa: PLR2004  columns
        return False
    is_list = len(columns) == 2 and all(_MARK.fullmatch(_text(segment)) for segment in columns[0])  # noqa: PLR2004  as above
    lengths = [fmean(map(len, column)) for column in columns if column]
    return not is_list and min(lengths) < RUNNING and all(_is_aligned(column) for column in columns)


def _is_aligned(column: Sequence[Words]) -> bool:
    """Whether most texts begin at one place, or end at one."""
    if not column:
        return False
    begins, ends = [segment[0].left for segment in column], [segment[-1].right for segment in column]
    return max(_most_at_one(begins), _most_at_one(ends)) >= MOST_ALIGNED * len(column)


def _most_at_one(places: Sequence[float]) -> int:
    """How many of the places, at most, are the same as one of them."""
    ordered = sorted(places)
    return max(bisect_left(ordered, each + SAME_PLACE) - bisect_right(ordered, each - SAME_PLACE) for each in ordered)


def _ends(segment: Sequence[Word]) -> tuple[float, float]:
    return segment[0].left, segment[-1].right


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) < SAME_PLACE


def _text(segment: Sequence[Word]) -> str:
    return " ".join(word.text for word in segment)


def _around(run: _Run) -> BoundingBox:
    words = [word for line in run.lines for segment in line for word in segment]
    return BoundingBox(
        l=min(word.left for word in words) - 1,
        t=min(word.top for word in words) - 1,
        r=max(word.right for word in words) + 1,
        b=max(word.bottom for word in words) + 1,
    )
