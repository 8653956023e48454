"""When indexes of a RAG database are brought up to date, and how much of them is written anew."""

from __future__ import annotations

from soliplex.ingester.lib.rag.indexes import (
    LATE_TEXTS,
    OUTGROWN,
    ROWS_OF_A_PARTITION,
    is_late,
    is_outgrown,
    segments_to_merge,
)


def test_segments_are_merged_once_the_newer_ones_are_as_large() -> None:
    assert segments_to_merge([], 500) == 0
    assert segments_to_merge([100_000], 500) == 0
    assert segments_to_merge([100_000, 500], 500) == 1
    assert segments_to_merge([100_000, 1_000, 500], 500) == 2
    assert segments_to_merge([100_000, 1_000], 500) == 0
    assert segments_to_merge([400, 100], 500) == 2


def test_a_long_history_leaves_few_segments_and_rewrites_a_row_few_times() -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(2_000):
        merged = segments_to_merge(sizes, LATE_TEXTS)
        size = LATE_TEXTS + sum(sizes[len(sizes) - merged :])
        sizes = [*sizes[: len(sizes) - merged], size]
        written += size
    assert sum(sizes) == 1_000_000
    assert len(sizes) <= 11
    assert written / 1_000_000 <= 11


def test_words_may_be_missing_for_less_long_than_other_columns() -> None:
    assert not is_late("FTS", LATE_TEXTS - 1, 100_000)
    assert is_late("FTS", LATE_TEXTS, 100_000)
    assert not is_late("BTree", 9_999, 100_000)
    assert is_late("IvfSq", 10_000, 100_000)


def test_an_index_of_vectors_is_made_anew_when_its_partitions_have_grown_much() -> None:
    assert not is_outgrown(5 * ROWS_OF_A_PARTITION * OUTGROWN, 5)
    assert is_outgrown(5 * ROWS_OF_A_PARTITION * OUTGROWN + 1, 5)
