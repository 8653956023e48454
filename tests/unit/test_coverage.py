"""The comparison of a page's text layer with what was read of it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.parsing.completing import Placed, missing_lines, neighbour_of, repeats
from soliplex.ingester.lib.parsing.coverage import Coverage, merged_coverage
from soliplex.ingester.lib.parsing.page_lines import Box, Line
from soliplex.ingester.lib.parsing.words import compare, is_rubbish, joined_lines, words_of

SENTENCES = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=12).map(" ".join)
PLAIN = st.lists(st.text(st.sampled_from("abcdefgh"), min_size=1, max_size=6), min_size=1, max_size=30)


def keys(text: str) -> list[str]:
    return [word.key for word in words_of(text)]


def missing(page: str, result: str) -> list[str]:
    words = words_of(joined_lines(page))
    return [words[place].key for place in compare(words, words_of(result)).missing]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("efficient ﬁrst", "eﬃcient first"),
        ("cafe\u0301", "CAFÉ"),
        ("x²", "x2"),
        ("المصـــر", "المصر"),
        ("اإلنتاجية", "الإنتاجية"),
        ("\uff12\uff10", "20"),
    ],
)
def test_forms_of_a_letter_make_no_other_word(one: str, other: str) -> None:
    assert keys(one) == keys(other)


def test_scripts_without_spaces_are_compared_by_letters() -> None:
    assert keys("港务局 office") == ["港", "务", "局", "office"]


def test_marks_do_not_divide_a_word() -> None:
    assert len(words_of("हिन्दी भाषा")) == 2


@pytest.mark.parametrize("page", ["exam\x02ple", "exam-\r\nple", "exam\u00ad\nple", "exam\ufffe\r\nple"])
def test_a_word_divided_at_the_end_of_a_line_is_whole(page: str) -> None:
    assert keys(joined_lines(page)) == ["example"]


def test_a_dash_before_a_name_stays() -> None:
    assert keys(joined_lines("Anglo-\r\nSaxon")) == ["anglo", "saxon"]


def test_a_word_counts_as_often_as_it_stands_there() -> None:
    assert missing("total 5 total 5 total", "total 5 total") == ["5", "total"]


def test_words_run_together_are_missing_and_told() -> None:
    page, result = words_of("12 13 14 platforms reflects"), words_of("121314 platformsreflects")
    found = compare(page, result)
    assert len(found.missing) == 5
    assert found.run_together == {"121314": (0, 3), "platformsreflects": (3, 5)}


def test_a_word_that_pdfium_tore_is_found_whole() -> None:
    assert missing("an exampl e here", "an example here") == []


def test_a_word_that_pdfium_put_together_is_found_by_its_parts() -> None:
    assert missing("Quinces7 643x3", "64 Quinces 3x3 7") == []


def test_parts_are_counted_too() -> None:
    assert missing("Quinces7 Quinces7", "Quinces 7") == ["quinces7"]


@given(PLAIN, st.randoms())
def test_what_is_all_there_is_found_in_any_order(words: list[str], random: object) -> None:
    shuffled = words.copy()
    random.shuffle(shuffled)  # pyright: ignore[reportAttributeAccessIssue]  Hypothesis gives a random.Random
    assert missing(" ".join(words), " ".join(shuffled)) == []


@given(PLAIN, PLAIN)
def test_no_more_is_found_than_was_read(page: list[str], result: list[str]) -> None:
    words = words_of(" ".join(page))
    found = compare(words, words_of(" ".join(result)))
    letters = sum(len(words[place].key) for place in range(len(words)) if place not in set(found.missing))
    assert letters <= sum(map(len, result))


@given(SENTENCES)
def test_any_text_holds_its_own_words(text: str) -> None:
    assert compare(words_of(text), words_of(text)).missing == ()
    assert all(text[word.start : word.end] for word in words_of(text))


def test_a_layer_without_letters_is_rubbish() -> None:
    assert is_rubbish("\ufffd\ufffd \x01\x03\x04 \ue000\ue001 ab")
    assert not is_rubbish("A list \uf0b7 with bullets \uf0b7 of symbols")
    assert not is_rubbish("12 13 14 15\r\n16 17 \x02 18")
    assert not is_rubbish("")


@pytest.mark.parametrize(
    ("first", "later", "is_repeated"),
    [
        ("Annual report", "Annual report", True),
        ("Annual report 3", "Annual report 4", True),
        ("xiv Annual report", "xv Annual report", True),
        ("Page 1 of 9", "Page 2 of 9", True),
        ("Part 4, page 17", "Part 4, page 18", True),
        ("Invoice 3", "Invoice 12", False),
        ("Invoice 100234", "Invoice 100301", False),
        ("Section 4, page 17", "Section 6, page 18", False),
        ("Appendix C", "Appendix I", False),
        ("Civil", "Mix", False),
        ("", "", True),
        ("Docket 17: adjourned", "Docket 23: adjourned", False),
        ("Docket Ashcombe", "Docket Birchall", False),
        ("4", "5", True),
        ("xii", "14", True),
    ],
)
def test_a_header_repeats_if_only_the_page_is_another(first: str, later: str, is_repeated: bool) -> None:
    assert repeats(first, 1, later, 2) is is_repeated


def test_two_headers_of_one_page_do_not_repeat() -> None:
    assert not repeats("Draft", 1, "Draft", 1)


def line(text: str, top: float, left: float = 50.0) -> Line:
    return Line(text, Box(left, top - 10, left + 6 * len(text), top))


def test_a_line_that_is_missing_is_taken_from_where_nothing_was_read() -> None:
    lines = [line("Annual report", 800), line("Annual report", 700), line("more text here", 600)]
    found = missing_lines(lines, Counter(["annual", "report"]), [lines[1].box, lines[2].box])
    assert found == [lines[0]]


def test_one_word_missing_in_a_line_brings_no_line_back() -> None:
    lines = [line("a long line of which one word differs", 700)]
    assert missing_lines(lines, Counter(["differs"]), []) == []


def test_of_a_long_line_the_missing_words_come_back() -> None:
    lines = [line("this was read but these three words and others were not all of them read before", 700)]
    found = missing_lines(lines, Counter(["these", "three", "words"]), [])
    assert [each.text for each in found] == ["these three words"]


def test_text_goes_after_what_stands_above_it_in_its_column() -> None:
    left, right = Box(50, 500, 250, 700), Box(300, 500, 500, 700)
    items = [Placed(0, 1, Box(50, 720, 500, 750)), Placed(1, 1, left), Placed(2, 1, right), Placed(3, 2, left)]
    assert neighbour_of(Box(60, 450, 200, 460), 1, items) == (1, True)
    assert neighbour_of(Box(310, 450, 400, 460), 1, items) == (2, True)
    assert neighbour_of(Box(50, 760, 400, 770), 1, items) == (0, False)
    assert neighbour_of(Box(50, 600, 400, 610), 3, items) == (3, True)
    assert neighbour_of(Box(50, 600, 400, 610), 1, []) == (None, True)


def test_a_warning_names_the_pages_and_only_below_the_bound() -> None:
    coverage = Coverage(words=200, missing=20, short_pages=(4, 2))
    assert coverage.warning(0.9) is None
    assert coverage.warning(0.95) == "20 of the 200 words that its pages hold are missing; see pages 4, 2"
    assert coverage.as_json() == {"coverage": 0.9, "words": 200, "missing_words": 20, "short_pages": [4, 2]}


def test_parts_are_counted_together_and_nothing_is_nothing() -> None:
    parts = [Coverage(words=10, missing=1, short_pages=(1,)), None, Coverage(words=30, repeated=2, short_pages=(7,))]
    assert merged_coverage(parts) == Coverage(words=40, missing=1, repeated=2, short_pages=(1, 7))
    assert merged_coverage([None]) is None


def test_a_document_without_words_is_complete() -> None:
    assert Coverage().share == 1.0
