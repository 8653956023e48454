from __future__ import annotations

import difflib
import random

from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.operations.versions.line_diff import equal_blocks, unified

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), max_size=40)


@given(LINES, LINES)
def test_blocks_are_equal_in_order_and_as_long_as_they_can_be(old: list[str], new: list[str]) -> None:
    old_at = new_at = 0
    for block in equal_blocks(old, new):
        assert block.old >= old_at
        assert block.new >= new_at
        assert (block.old, block.new) != (old_at, new_at) or old_at == 0
        assert old[block.old : block.old + block.size] == new[block.new : block.new + block.size]
        old_at, new_at = block.old + block.size, block.new + block.size


@given(LINES, LINES)
def test_a_diff_leads_from_the_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    lines = unified("\n".join(["^", *old, "$"]), "\n".join(["^", *new, "$"]), ("old", "new"), context=1000)
    if old == new:
        assert lines == []
    else:
        assert [line[1:] for line in lines[3:] if line[0] in " -"] == ["^", *old, "$"]
        assert [line[1:] for line in lines[3:] if line[0] in " +"] == ["^", *new, "$"]


def test_a_small_edit_is_shown_as_diff_shows_it() -> None:
    old = [f"line {number}" for number in range(100)]
    new = [*old[:20], "between", *old[20:50], *old[51:], "after"]
    expected = list(difflib.unified_diff(old, new, "old", "new", lineterm=""))
    assert unified("\n".join(old), "\n".join(new), ("old", "new")) == expected


def test_long_texts_with_few_kinds_of_lines_are_compared_at_all() -> None:
    """Here `difflib` alone would be at work for an hour, which the limit on a test's time would show."""
    chance = random.Random(7)
    old, new = ([f"{chance.randrange(150)}" for _ in range(120_000)] for _ in range(2))
    lines = unified("\n".join(old), "\n".join(new), ("old", "new"))
    assert [line[1:] for line in lines[3:] if line[0] in " -"]


def test_a_long_text_of_which_much_was_moved_keeps_what_stayed() -> None:
    old = [f"line {number}" for number in range(120_000)]
    new = [*old[60_000:], *old[:60_000], "the end"]
    assert sum(block.size for block in equal_blocks(old, new)) == 60_000
