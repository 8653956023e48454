"""Work on many documents of one call: what goes wrong with one is nobody else's affair."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.workflow.step_artifacts import AT_ONCE, each_alone


async def test_results_come_in_order_and_an_error_is_the_result_of_its_item() -> None:
    async def invert(number: int) -> float:
        await asyncio.sleep(0)
        return 1 / number

    results = await each_alone(invert, [1, 0, 2])
    assert (results[0], results[2]) == (1, 0.5)
    assert isinstance(results[1], ZeroDivisionError)


async def test_so_many_are_at_work_at_once_and_no_more() -> None:
    running, most = 0, 0

    async def work(_: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await each_alone(work, range(3 * AT_ONCE))
    assert most == AT_ONCE


async def test_cancelling_passes_through() -> None:
    async def wait_for_ever(_: int) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(each_alone(wait_for_ever, [1, 2]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
