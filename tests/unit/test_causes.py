"""What messages of failures have in common."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.wf.views.causes import LONGEST, in_general


@pytest.mark.parametrize(
    ("message", "general"),
    [
        ("page 3 of 17 cannot be read", "page <number> of <number> cannot be read"),
        ("took 0.25 s, more than 1,000", "took <number> s, more than <number>"),
        ("no such file: /data/a/c.pdf", "no such file: <path>"),
        (r"cannot open C:\docs\a.pdf", "cannot open <path>"),
        ("sha256-" + "ab1" * 20 + " is damaged", "<hash> is damaged"),
        ("run 7a1f3c52-0b1c-4d3e-9f00-aabbccddeeff is gone", "run <id> is gone"),
        ("GET https://a.org/b?c=1 answered 503", "GET <address> answered <number>"),
        ("step 'parse' maps over \"x\"", "step <text> maps over <text>"),
        ("object at 0x7f00aa", "object at <number>"),
        ("read/write error", "<path> error"),
        ("the defaced facade", "the defaced facade"),
        ("", ""),
    ],
)
def test_a_message_is_told_without_what_differs_each_time(message: str, general: str) -> None:
    assert in_general(message) == general


def test_a_long_message_is_compared_by_its_beginning() -> None:
    assert in_general("x" * LONGEST + "one") == in_general("x" * LONGEST + "other")


@pytest.mark.parametrize("character", ["a/", "'", "a.", "0", "f", "\\\\", '"'])
def test_no_message_takes_long(character: str) -> None:
    assert len(in_general(character * 5_000)) <= LONGEST * len("<number>")
