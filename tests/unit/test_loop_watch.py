from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.loop_watch import LONGEST, LoopWatch, loops_watched


def work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_a_long_step_is_noted_with_its_place_and_short_ones_are_not() -> None:
    watch = LoopWatch()

    async def busy() -> int:
        for _ in range(5):
            work(LONGEST / 4)
            await asyncio.sleep(0)
        work(LONGEST * 3)
        return 7

    with watch.looking():
        assert await watch.coroutine(busy()) == 7
    assert len(watch.held) == 1
    assert "work" in watch.held[0]
    with pytest.raises(AssertionError, match="was held"):
        watch.see_none_held()


async def test_a_watched_coroutine_is_cancelled_as_any_other() -> None:
    watch, seen = LoopWatch(), asyncio.Event()

    async def waiting() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.set()
            raise
        return ""

    task = asyncio.create_task(watch.coroutine(waiting()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen.is_set()


def test_all_callbacks_of_a_process_can_be_watched() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(work, LONGEST * 2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with loops_watched() as watch:
        asyncio.run(main())
    assert len(watch.held) == 1
