"""Two workers notice at once that a third has died."""

from __future__ import annotations

import asyncio
import signal

from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import rows_of
from tests.support.faults import Fleet


async def test_two_reapers_give_back_each_step_once(fleet: Fleet) -> None:
    await _leave_steps_behind(fleet, 10)
    reaped = await asyncio.gather(*(ops.reap_workers(f"reaper {n}", ["victim"]) for n in range(4)))
    assert sorted(each.steps for each in reaped) == [0, 0, 0, 10]
    assert sorted(each.locks for each in reaped) == [0, 0, 0, 1]
    async with fleet.helper():
        await fleet.everything_ends()


async def test_two_workers_reap_a_third(fleet: Fleet) -> None:
    await _leave_steps_behind(fleet, 10)
    async with fleet.helper("one") as one, fleet.helper("two") as two:
        await fleet.everything_ends()
        counted = one.counts + two.counts
    assert counted["worker_reaped"] == 1
    assert counted["step_reset_by_reaper"] == 10


async def test_a_worker_that_was_given_up_wrongly_may_take_the_same_step_again(fleet: Fleet) -> None:
    """It then executes the step twice at the same time, under two leases, of which one is lost."""
    await fleet.create("waiting")
    await fleet.start("worker", consumers={"*": 2})
    await fleet.calls(1, "wait")
    assert (await ops.reap_workers("test", ["worker"])).steps == 1
    await fleet.calls(2, "wait")
    fleet.let_go()
    await fleet.everything_ends()
    assert set(map(tuple, await rows_of("SELECT status, retry FROM runstep"))) == {("COMPLETED", 0)}

    await fleet.create("waiting", 4)  # it has lost neither of its slots
    await fleet.everything_ends()


async def _leave_steps_behind(fleet: Fleet, number: int) -> None:
    await fleet.create("waiting", number - 1)
    await fleet.create("waiting", 1, resource_keys={"wait": "shelf"})
    victim = await fleet.start(consumers={"*": number})
    await fleet.calls(number, "wait")
    victim.signal(signal.SIGKILL)
    await victim.ends(-signal.SIGKILL)
    fleet.let_go()
