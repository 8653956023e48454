"""A worker stands still, and goes on when others have long taken over what it held."""

from __future__ import annotations

import signal

from tests.support.engine import rows_of
from tests.support.faults import Fleet


async def test_what_a_worker_writes_that_stood_still_too_long_changes_nothing(fleet: Fleet) -> None:
    await fleet.create("waiting", resource_keys={"wait": "shelf"})
    sleeper = await fleet.start("sleeper", consumers={"*": 1})
    await fleet.calls(1, "wait")
    sleeper.signal(signal.SIGSTOP)
    fleet.let_go()

    async with fleet.helper(checkin_timeout=1.0) as counted:
        await fleet.everything_ends()
        assert counted.counts["step_reset_by_reaper"] == 1
    before = await _all_rows()
    sleeper.signal(signal.SIGCONT)
    await sleeper.says("lease_lost 1")
    assert await _all_rows() == before

    await fleet.create("line", 2)
    await fleet.everything_ends()
    assert {entry.pid for entry in fleet.journal.entries("call") if entry.step == "third"} == {sleeper.pid}


async def test_a_worker_that_was_given_up_is_noticed_again_when_it_dies(fleet: Fleet) -> None:
    sleeper = await fleet.start("sleeper")
    sleeper.signal(signal.SIGSTOP)
    async with fleet.helper(checkin_timeout=1.0) as counted:
        await fleet.eventually(lambda: counted.counts["worker_reaped"] == 1, "the worker that stands still is given up")
    sleeper.signal(signal.SIGCONT)
    await fleet.create("waiting")
    await fleet.calls(1, "wait")
    await fleet.eventually(_has_checked_in, "the worker checks in again")

    sleeper.signal(signal.SIGKILL)
    await sleeper.ends(-signal.SIGKILL)
    fleet.let_go()
    async with fleet.helper():  # it would take the heartbeat's timeout, ten minutes, to notice a silence
        await fleet.everything_ends()


async def _has_checked_in() -> bool:
    return bool(await rows_of("SELECT id FROM workercheckin WHERE id = 'sleeper'"))


async def _all_rows() -> list[list[tuple[object, ...]]]:
    tables = ("runstep", "workflowrun", "rungroup", "lifecyclehistory", "resourcelock")
    return [list(map(tuple, await rows_of(f"SELECT * FROM {table} ORDER BY 1"))) for table in tables]
