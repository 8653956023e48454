"""Answers that cost much are worked out once for all who ask meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from soliplex.ingester.server import sharing
from soliplex.ingester.server.sharing import SharedAnswers


class Slow:
    """Work that goes on until it is told to end."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        await self.may_end.wait()
        return self.begun


@pytest.fixture
def slow() -> Slow:
    return Slow()


def kept_from(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LONG", seconds)
    monkeypatch.setattr(sharing, "SHARE", 1e9)


async def test_many_who_ask_at_once_are_told_the_same_and_one_who_goes_away_takes_it_from_nobody(slow: Slow) -> None:
    answers = SharedAnswers()
    first, *others = [asyncio.create_task(answers.ask("a", slow)) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    slow.may_end.set()
    assert await asyncio.gather(*others) == [1, 1, 1, 1]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_an_answer_that_took_long_is_kept_and_one_that_did_not_is_not(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = SharedAnswers()
    slow.may_end.set()
    kept_from(1e9, monkeypatch)
    assert [await answers.ask("a", slow) for _ in range(2)] == [1, 2]
    kept_from(0, monkeypatch)
    assert [await answers.ask("a", slow) for _ in range(2)] == [3, 3]
    assert await answers.ask("b", slow) == 4
    monkeypatch.setattr(sharing, "LONGEST", -1)  # the longest that any answer is kept is over
    assert [await answers.ask("c", slow) for _ in range(2)] == [5, 6]


async def test_an_error_is_told_to_all_who_wait_and_kept_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_from(0, monkeypatch)
    answers, outcomes = SharedAnswers(), [ValueError("first"), ValueError("second")]

    def failing(error: Exception) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            raise error

        return work

    for error in outcomes:
        with pytest.raises(ValueError, match=str(error)):
            await answers.ask("a", failing(error))
