"""Long timeouts, watched over by one timer."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.wf import deadlines
from soliplex.ingester.lib.wf.deadlines import Deadlines
from soliplex.ingester.lib.wf.errors import StepTimeout


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOOK_EVERY", 0.001)


async def forever() -> None:
    await asyncio.Event().wait()


async def seven() -> int:
    await asyncio.sleep(0)
    return 7


async def test_a_call_that_ends_in_time_gives_its_result() -> None:
    assert await Deadlines().within(60, seven()) == 7


async def test_a_call_that_takes_too_long_is_cancelled_and_says_so() -> None:
    with pytest.raises(StepTimeout, match=r"within 0\.01 seconds"):
        await Deadlines().within(0.01, forever())
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_calls_are_watched_apart() -> None:
    watch = Deadlines()
    late, early = await asyncio.gather(watch.within(0.01, forever()), watch.within(60, seven()), return_exceptions=True)
    assert isinstance(late, StepTimeout)
    assert early == 7


async def test_a_cancellation_from_outside_stays_a_cancellation() -> None:
    task = asyncio.create_task(Deadlines().within(60, forever()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_timer_starts_anew_after_a_pause() -> None:
    watch = Deadlines()
    await watch.within(60, seven())
    await asyncio.sleep(0.01)
    with pytest.raises(StepTimeout):
        await watch.within(0.01, forever())
