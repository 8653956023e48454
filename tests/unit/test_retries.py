from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.wf.definitions import workflow_from_mapping
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.retries import Backoff

ONE_TICK = timedelta.resolution


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    first = draw(st.timedeltas(timedelta(0), timedelta(days=1)))
    return Backoff(
        first=first,
        longest=draw(st.timedeltas(first, timedelta(days=365))),
        factor=draw(st.floats(1, 1e6)),
        jitter=draw(st.floats(0, 1)),
    )


@given(backoffs(), st.integers(1, 10_000), st.floats(0, 1))
def test_a_later_attempt_never_waits_less(backoff: Backoff, attempt: int, chance: float) -> None:
    earlier = backoff.delay_after(attempt, random=lambda: chance)
    later = backoff.delay_after(attempt + 1, random=lambda: chance)

    assert earlier <= later <= backoff.longest


@given(backoffs(), st.integers(1, 10_000), st.floats(0, 1))
def test_jitter_shortens_by_no_more_than_its_share(backoff: Backoff, attempt: int, chance: float) -> None:
    full = backoff.delay_after(attempt, random=lambda: 0)
    jittered = backoff.delay_after(attempt, random=lambda: chance)

    assert full * (1 - backoff.jitter) - ONE_TICK <= jittered <= full


@given(backoffs())
def test_the_first_wait_is_the_one_given(backoff: Backoff) -> None:
    assert backoff.delay_after(1, random=lambda: 0) == backoff.first


def test_waits_double_up_to_the_ceiling() -> None:
    backoff = Backoff(first=timedelta(seconds=2), longest=timedelta(seconds=10))

    waits = [backoff.delay_after(attempt, random=lambda: 0).total_seconds() for attempt in range(1, 6)]

    assert waits == [2, 4, 8, 10, 10]


@pytest.mark.parametrize("attempt", [10_000, 10**400])
def test_even_an_absurd_number_of_attempts_waits_the_longest(attempt: int) -> None:
    assert Backoff().delay_after(attempt, random=lambda: 0) == Backoff().longest


def test_a_factor_of_one_waits_always_the_same() -> None:
    backoff = Backoff(factor=1.0)

    assert backoff.delay_after(10_000, random=lambda: 0) == backoff.first


def test_a_first_wait_of_nothing_stays_nothing() -> None:
    assert Backoff(first=timedelta(0)).delay_after(10_000, random=lambda: 0.5) == timedelta(0)


def test_attempts_count_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1"):
        Backoff().delay_after(0, random=lambda: 0)


def test_every_impossible_value_is_named() -> None:
    with pytest.raises(DefinitionError) as caught:
        Backoff(first=timedelta(seconds=-1), longest=timedelta(seconds=-2), factor=0.5, jitter=float("nan"))
    assert [problem.key for problem in caught.value.problems] == ["first", "longest", "factor", "jitter"]


def test_waits_that_nobody_gives_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRY_FIRST_DELAY_SECONDS", "7")
    monkeypatch.setenv("RETRY_LONGEST_DELAY_SECONDS", "70")
    get_settings.cache_clear()
    try:
        steps = {"usual": {"method": "m.f"}, "own": {"method": "m.f", "backoff": "1s"}}
        usual, own = workflow_from_mapping({"id": "flow", "item_steps": steps}).steps
    finally:
        monkeypatch.undo()
        get_settings.cache_clear()
    assert (usual.backoff.first, usual.backoff.longest) == (timedelta(seconds=7), timedelta(seconds=70))
    assert (own.backoff.first, own.backoff.longest) == (timedelta(seconds=1), timedelta(seconds=70))
