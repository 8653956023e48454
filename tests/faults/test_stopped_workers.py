"""A worker stands still, and goes on when others have long taken over what it held."""

from __future__ import annotations

import signal

import pytest

from tests.support.engine import rows_of
from tests.support.faults import Fleet


async def test_what_a_worker_writes_that_stood_still_too_long_changes_nothing(fleet: Fleet) -> None:
    await fleet.create("waiting", resource_keys={"wait": "shelf"})
    sleeper = await fleet.start("sleeper", consumers={"*": 1})
    await fleet.calls(1, "wait")
    await fleet.freeze(sleeper)
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
    await fleet.freeze(sleeper)
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


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("point", ["inside_claim", "inside_finish"])
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_transaction_that_stands_still_does_not_hold_its_rows_for_ever(fleet: Fleet, point: str) -> None:
    """As when the network fails in mid-transaction: the server would wait for hours before it gives up on a client."""
    await fleet.create("load", 3, resource_keys={"first": "shelf"})
    sleeper = await fleet.launch("sleeper", fault_at=point, fault="stop")
    await sleeper.says(f"reached {point}")
    async with fleet.helper(checkin_timeout=1.0):
        await fleet.everything_ends()


async def _has_checked_in() -> bool:
    return bool(await rows_of("SELECT id FROM workercheckin WHERE id = 'sleeper'"))


async def _all_rows() -> list[list[tuple[object, ...]]]:
    tables = ("runstep", "workflowrun", "rungroup", "lifecyclehistory", "resourcelock")
    return [list(map(tuple, await rows_of(f"SELECT * FROM {table} ORDER BY 1"))) for table in tables]
