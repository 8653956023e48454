"""Which texts of a page are a table, though nothing is drawn around them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from soliplex.ingester.lib.parsing.local.spaced_tables import spaced_tables
from soliplex.ingester.lib.parsing.local.table_grids import Word


def words(*lines: Sequence[tuple[float, str]]) -> list[Word]:
    """Texts by the place that they begin at, line below line; a place below 0 is that of the end."""
    found: list[Word] = []
    for number, line in enumerate(lines):
        for place, text in line:
            width = sum(6 * len(each) + 3 for each in text.split()) - 3
            at = place if place >= 0 else -place - width
            for each in text.split():
                found.append(Word(each, at, number * 12, at + 6 * len(each), number * 12 + 10))
                at += 6 * len(each) + 3
    return found


def test_figures_in_columns_are_a_table() -> None:
    told = words(
        [(0, "Port"), (-200, "2023"), (-300, "2024")],
        [(0, "Kiel"), (-200, "1,204"), (-300, "1,310")],
        [(0, "Riga"), (-200, "988"), (-300, "904")],
    )
    (box,) = spaced_tables(told)
    assert (box.l, box.t, box.r, box.b) == (-1, -1, 301, 35)


def test_a_cell_of_several_lines_goes_with_its_table_and_the_text_below_does_not() -> None:
    told = words(
        [(0, "Name"), (100, "Remark")],
        [(0, "Finch"), (100, "on leave until")],
        [(100, "the first of May")],
        [(0, "Moore"), (100, "deputy")],
        [(0, "All others can be reached at the office")],
    )
    (box,) = spaced_tables(told)
    assert box.b == 47


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([[(0, "1."), (30, "Bread is baked")]] * 4, id="list"),
        pytest.param([[(0, "Bread . . . . . . ."), (200, "7")]] * 4, id="contents"),
        pytest.param(
            [[(0, "the boats are hired by the hour and"), (260, "returned to the same quay at noon")]] * 4, id="columns"
        ),
        pytest.param(
            [[(0, "Anna Berg"), (150, "Bo Li")], [(12, "Oslo"), (140, "Nanjing")], [(7, "a@b.no"), (148, "c@d.cn")]],
            id="authors",
        ),
        pytest.param([[(0, "Dear Sir,"), (200, "May 1")], [(0, "thank you for the letter")]], id="one line"),
    ],
)
def test_what_stands_side_by_side_otherwise_is_no_table(lines: list[list[tuple[float, str]]]) -> None:
    assert spaced_tables(words(*lines)) == []
