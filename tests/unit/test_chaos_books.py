"""What clients of a chaos run hold against an installation, by what they were told."""

from __future__ import annotations

import pytest

from tests.chaos.clients import GONE, Place
from tests.chaos.outcome import misremembered
from tests.support.stores_agree import Kind


@pytest.mark.parametrize(
    ("present", "possible", "found", "kinds"),
    [
        ("new", set[str](), "new", []),
        ("new", set[str](), GONE, [Kind.LOST]),
        ("new", set[str](), "old", [Kind.DIFFERENT]),
        (GONE, set[str](), "old", [Kind.STALE]),
        (GONE, set[str](), GONE, []),
        ("old", {"new"}, "new", []),
        ("old", {"new"}, "old", []),
        ("old", {"new"}, GONE, [Kind.LOST]),
        ("old", {GONE}, GONE, []),
    ],
)
def test_a_place_holds_what_was_acknowledged_last_or_what_nobody_answered(
    present: str, possible: set[str], found: str, kinds: list[Kind]
) -> None:
    place = Place("source", "/uri", "library", present=present, possible=possible)
    assert [kind for kind, _ in misremembered(place, found)] == kinds
