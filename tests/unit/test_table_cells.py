"""Which words make a cell of a table on a page."""

from __future__ import annotations

from docling_core.types.doc.base import BoundingBox

from soliplex.ingester.lib.parsing.local.table_grids import Word, joined_rows, ruled_grid


def word(text: str, left: float, top: float) -> Word:
    return Word(text, left, top, left + 6 * len(text), top + 10)


def texts(grid: list[list[list[Word]]]) -> list[list[str]]:
    return [[" ".join(each.text for each in cell) for cell in row] for row in grid]


def test_lines_that_are_drawn_part_the_cells() -> None:
    rules = [BoundingBox(l=0, t=y, r=200, b=y + 1) for y in (0, 20, 60)]
    rules += [BoundingBox(l=x, t=0, r=x + 1, b=60) for x in (0, 100, 200)]
    words = [
        word("Name", 5, 5),
        word("Remark", 105, 5),
        word("Finch", 5, 25),
        word("on", 105, 25),
        word("leave", 105, 40),
    ]
    assert texts(ruled_grid(words, rules)) == [["Name", "Remark"], ["Finch", "on leave"]]


def test_lines_between_rows_alone_part_no_columns() -> None:
    rules = [BoundingBox(l=0, t=y, r=200, b=y + 1) for y in (0, 20, 60)]
    assert ruled_grid([word("Name", 5, 5)], rules) == []


def test_a_line_that_did_not_fit_above_belongs_to_its_cell() -> None:
    grid = [[[word("Finch", 0, 0)], [word("on leave until", 100, 0)]], [[], [word("Wednesday", 100, 12)]]]
    assert texts(joined_rows(grid)) == [["Finch", "on leave until Wednesday"]]


def test_a_number_below_another_is_a_row_of_its_own() -> None:
    grid = [[[word("Bergen", 0, 0)], [word("2019", 100, 0)]], [[], [word("2020", 100, 12)]]]
    assert len(joined_rows(grid)) == 2
