"""Letters and words of scripts that are written from right to left."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.parsing.page_lines import Box
from soliplex.ingester.lib.parsing.right_to_left import as_read, as_read_word, in_reading_order


def read(*letters: tuple[str, float | None]) -> str:
    """The text of letters that stand so far from the left of the page."""
    places = ((letter, None if left is None else Box(left, 0, left + 8, 10)) for letter, left in letters)
    return "".join(letter for letter, _ in in_reading_order(places))


def test_a_word_that_runs_to_the_right_is_turned_and_its_neighbours_stay() -> None:
    # PDFium gives the second word from its last letter on; the words themselves are in order.
    first = [("ع", 90.0), ("\u0627", 80.0), ("م", 70.0)]
    second = [("ة", 30.0), ("ن", 40.0), ("س", 50.0)]
    assert read(*first, (" ", None), *second, (" ", None), ("1", 10.0), ("9", 20.0)) == "عام سنة 19"


def test_the_letters_of_a_ligature_are_turned() -> None:
    assert read(("ك", 90.0), ("\u0627", 80.0), ("\u0627", 70.0), ("ل", 70.0), ("ي", 60.0)) == "كالاي"


def test_letters_that_run_to_the_right_by_themselves_stay() -> None:
    assert read(("a", 10.0), ("b", 20.0), ("c", 30.0)) == "abc"


@pytest.mark.parametrize(
    ("docling", "expected"),
    [
        ("חינם ובתוכנת Word Microsoft באולם", "חינם ובתוכנת Microsoft Word באולם"),
        ("היה ,48,250 עלייה", "היה 48,250, עלייה"),
        ("قدرها %12.5 عن السنة", "قدرها 12.5% عن السنة"),
        ("(קומה שנייה.)", "(קומה שנייה)."),
        ("והיו בה כ3500-", "והיו בה כ-3500"),
        ("משתמשים בWi-Fi- חינם", "משתמשים ב-Wi-Fi חינם"),
        ("an English line with שלום in it", "an English line with שלום in it"),
        ("של 12.5% לעומת", "של 12.5% לעומת"),
        ("", ""),
    ],
)
def test_a_line_of_docling_is_brought_into_the_order_in_which_it_is_read(docling: str, expected: str) -> None:
    assert as_read(docling) == expected


def test_a_word_with_letters_on_both_sides_of_a_mark_stays() -> None:
    assert as_read_word('צה"ל') == 'צה"ל'


def test_a_word_with_very_many_marks_behind_it_is_read_in_no_time() -> None:
    marks = "!" * 300_000
    assert as_read_word(f"\u05d0{marks}a") == f"\u05d0a{marks}"
