"""Which words make a cell of a table on a page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from docling_core.types.doc.base import BoundingBox

from soliplex.ingester.lib.parsing.local.page_tables import tagged_grid
from soliplex.ingester.lib.parsing.local.table_grids import Word, grid_in, joined_rows
from soliplex.ingester.lib.parsing.page_lines import Box
from soliplex.ingester.lib.parsing.pdf_marks import TaggedCell


def word(text: str, left: float, top: float) -> Word:
    return Word(text, left, top, left + 6 * len(text), top + 10)


def words(*lines: tuple[float, Sequence[tuple[float, str]]]) -> list[Word]:
    """Texts by the place that they begin at, in lines by their height."""
    found: list[Word] = []
    for top, texts in lines:
        for left, text in texts:
            at = left
            for each in text.split():
                found.append(word(each, at, top))
                at += 6 * len(each) + 3
    return found


def across(*places: float, left: float = 0, right: float = 300) -> list[BoundingBox]:
    return [BoundingBox(l=left, t=y, r=right, b=y + 1) for y in places]


def down(*places: float, top: float = 0, bottom: float = 60) -> list[BoundingBox]:
    return [BoundingBox(l=x, t=top, r=x + 1, b=bottom) for x in places]


def texts(grid: Sequence[Sequence[Sequence[Word]]]) -> list[list[str]]:
    return [[" ".join(each.text for each in cell) for cell in row] for row in grid]


SHIFTS = words(
    (5, [(5, "Name"), (105, "Remark")]),
    (25, [(5, "Finch"), (105, "on")]),
    (37, [(105, "leave")]),
)


def test_lines_that_are_drawn_part_the_cells() -> None:
    rules = across(0, 20, 60, right=200) + down(0, 100, 200)
    assert texts(grid_in(SHIFTS, rules)) == [["Name", "Remark"], ["Finch", "on leave"]]


def test_lines_between_columns_alone_are_enough_for_columns() -> None:
    told = words((5, [(5, "Name"), (50, "Remark")]), (25, [(5, "Finch"), (50, "away")]))
    assert texts(grid_in(told, down(45))) == [["Name", "Remark"], ["Finch", "away"]]


def test_rows_of_which_only_the_head_is_ruled_stay_apart() -> None:
    rules = across(0, 20, 90) + down(0, 100, 200, 300, bottom=90)
    told = words(
        (5, [(5, "Item"), (105, "Count"), (205, "Price")]),
        (25, [(5, "Bolts"), (105, "12"), (205, "3.10")]),
        (45, [(5, "Chain"), (105, "4"), (205, "27.00")]),
        (65, [(5, "Rope"), (105, "1"), (205, "9.50")]),
    )
    assert texts(grid_in(told, rules))[1:] == [["Bolts", "12", "3.10"], ["Chain", "4", "27.00"], ["Rope", "1", "9.50"]]


def test_lines_between_rows_alone_make_one_row_of_a_cell_of_several_lines() -> None:
    told = words(
        (5, [(5, "Term"), (105, "Meaning")]),
        (25, [(5, "Delivery and"), (105, "Goods are brought")]),
        (37, [(5, "Acceptance"), (105, "To the door")]),
        (65, [(5, "Price"), (105, "What is paid")]),
    )
    found = texts(grid_in(told, across(0, 20, 55, 85)))
    assert found == [
        ["Term", "Meaning"],
        ["Delivery and Acceptance", "Goods are brought To the door"],
        ["Price", "What is paid"],
    ]


def test_shades_of_every_other_row_part_rows() -> None:
    told = words(
        (5, [(5, "Finch"), (105, "on leave")]),
        (17, [(105, "Until May")]),
        (35, [(5, "Moore"), (105, "deputy")]),
        (47, [(105, "In Riga")]),
        (65, [(5, "Vane"), (105, "none")]),
    )
    shades = [BoundingBox(l=0, t=32, r=300, b=62)]
    assert [row[0] for row in texts(grid_in(told, (), shades))] == ["Finch", "Moore", "Vane"]


def test_a_text_over_two_columns_stays_whole() -> None:
    rules = across(0, 20, 40, 60) + down(0, 100) + down(200, top=20) + down(300)
    told = words(
        (5, [(5, "Port"), (170, "First half year")]),
        (25, [(105, "Plan"), (205, "Actual")]),
        (45, [(5, "Kiel"), (105, "12"), (205, "14")]),
    )
    assert "First half year" in texts(grid_in(told, rules))[0]


def test_a_text_beside_two_rows_stays_whole() -> None:
    rules = across(0, 20, 60, 80) + across(40, left=100) + down(0, 100, 200, 300, bottom=80)
    told = words(
        (5, [(5, "Port"), (105, "Plan"), (205, "Actual")]),
        (26, [(105, "12"), (205, "14")]),
        (28, [(5, "Kiel and")]),
        (40, [(5, "Riga")]),
        (45, [(105, "13"), (205, "15")]),
        (65, [(5, "Turku"), (105, "1"), (205, "2")]),
    )
    assert [row[0] for row in texts(grid_in(told, rules))] == ["Port", "Kiel and Riga", "", "Turku"]


def test_rows_that_stand_farther_apart_than_lines_are_told_by_that() -> None:
    told = words(
        (0, [(0, "Scope"), (100, "All that")]),
        (12, [(100, "is delivered")]),
        (32, [(0, "Duties of"), (100, "Whatever")]),
        (44, [(0, "Tenants"), (100, "they owe")]),
        (64, [(0, "Term"), (100, "A year")]),
    )
    found = texts(grid_in(told, ()))
    assert [row[0] for row in found] == ["Scope", "Duties of Tenants", "Term"]


@pytest.mark.parametrize("below", ["2020", "Wednesday"])
def test_a_line_goes_on_with_a_cell_if_it_is_text_that_would_not_have_fitted_above(below: str) -> None:
    grid = [[[word("Finch", 0, 0)], [word("on leave until", 100, 0)]], [[], [word(below, 100, 12)]]]
    rows = texts(joined_rows(grid, [30.0, 190.0]))
    assert rows[0][1] == ("on leave until" if below == "2020" else "on leave until Wednesday")


def test_tags_say_which_words_make_a_cell() -> None:
    cells = [
        TaggedCell(0, 0, 1, 1, [Box(0, 80, 40, 100)]),
        TaggedCell(0, 1, 1, 2, [Box(50, 80, 300, 100)]),
        TaggedCell(1, 0, 1, 1, [Box(0, 50, 40, 60)]),
        TaggedCell(1, 2, 1, 1, [Box(150, 50, 300, 60)]),
    ]
    told = words((2, [(0, "Port"), (60, "First half year")]), (42, [(0, "Kiel"), (160, "12")]))
    assert texts(tagged_grid(told, cells, 100)) == [["Port", "First half year", ""], ["Kiel", "", "12"]]


def test_a_line_that_no_tag_names_is_a_row_of_its_own() -> None:
    cells = [
        TaggedCell(0, 0, 1, 1, [Box(0, 50, 40, 60)]),
        TaggedCell(0, 1, 1, 1, [Box(100, 50, 140, 60)]),
        TaggedCell(1, 0, 1, 1, [Box(0, 30, 40, 40)]),
        TaggedCell(1, 1, 1, 1, [Box(100, 30, 140, 40)]),
    ]
    told = words((2, [(0, "Port"), (100, "Plan")]), (40, [(0, "Kiel"), (100, "12")]), (60, [(0, "Riga"), (100, "13")]))
    assert texts(tagged_grid(told, cells, 100)) == [["Port", "Plan"], ["Kiel", "12"], ["Riga", "13"]]
