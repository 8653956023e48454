"""The scores of cuts, against examples whose values are known, and the texts that they are taken on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.segmentation.scores import Pair, all_scores, boundary_f1, gaps, half_a_segment, pk, window_diff
from benchmarks.segmentation.texts import Page, Section, choi_sets
from benchmarks.segmenter import starts_by_headings

ONE, TWO, THREE = ([mark == "1" for mark in text] for text in ("000100000010", "000010000100", "100000010000"))


@pytest.mark.parametrize(("truth", "found", "expected"), [(ONE, ONE, 0.0), (ONE, TWO, 0.3), (TWO, THREE, 0.8)])
def test_window_diff_gives_the_values_of_the_textbook(truth: list[bool], found: list[bool], expected: float) -> None:
    assert window_diff(truth, found, 3) == pytest.approx(expected)


@pytest.mark.parametrize(("found", "expected"), [("1", 0.5), ("0", 0.5), ("0100", 0.0)])
def test_pk_gives_the_values_of_the_textbook(found: str, expected: float) -> None:
    truth = [mark == "1" for mark in "0100" * 100]
    cuts = [mark == "1" for mark in (found * 400)[:400]]
    assert pk(truth, cuts, 2) == pytest.approx(expected, abs=0.005)


def test_a_window_is_half_as_wide_as_a_segment() -> None:
    assert half_a_segment(gaps([0, 4, 8], 12)) == 2
    assert half_a_segment(gaps([0], 3)) == 2
    assert half_a_segment(gaps([0, 1, 2], 3)) == 1


def test_boundaries_count_where_they_are_exactly_right() -> None:
    pair = Pair(truth=[True, False, True, False], found=[True, True, False, False])
    assert boundary_f1([pair]) == 0.5
    assert boundary_f1([Pair([False], [False])]) == 1.0
    assert all_scores([pair, Pair([], [])])["documents"] == 1


def test_a_page_knows_where_its_sections_begin() -> None:
    page = Page("t", [Section("", ["a"]), Section("x", ["b", "c"]), Section("y", ["d"])])
    assert page.starts == [0, 1, 3]
    assert gaps(page.starts, len(page.paragraphs)) == [True, False, True]


def test_articles_of_a_page_with_headings_are_its_sections() -> None:
    page = Page("t", [Section("", ["a", "- b"]), Section("x", ["b", "> c"]), Section("y", ["d"])])
    assert starts_by_headings(page) == page.starts == [0, 2, 4]
    assert starts_by_headings(Page("t", [Section("Only", ["a", "b"])])) == [0]


def test_texts_in_chois_form_are_read_by_folder(tmp_path: Path) -> None:
    (tmp_path / "3-5").mkdir()
    (tmp_path / "3-5" / "1.ref").write_text("==========\nA .\nB .\n==========\nC .\n==========\n")
    (tmp_path / "notes.txt").write_text("none\n")
    (text,) = choi_sets(tmp_path)["3-5"]
    assert (text.sentences, text.starts) == (["A .", "B .", "C ."], [0, 2])
