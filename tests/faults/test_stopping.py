"""A worker is told to stop: steps under way finish or go back at once, and nobody has to wait for it."""

from __future__ import annotations

import signal

import pytest

from tests.support.engine import rows_of
from tests.support.faults import Fleet, statuses

NEVER = 10_000.0
"""Seconds between looks: a worker that finds work nevertheless had not to wait for anybody's death to be noticed."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_steps_under_way_may_finish(fleet: Fleet, number: signal.Signals) -> None:
    await fleet.create("waiting", 6, resource_keys={"after": "shelf"})
    worker = await fleet.start("leaver")
    await fleet.calls(2, "wait")
    worker.signal(number)
    await worker.says("stopping")
    fleet.let_go()
    await worker.ends(0)

    assert await rows_of("SELECT id FROM workercheckin") == []
    assert sorted(await statuses("workflow_step_name", "status", "retry")) == sorted(
        [("wait", "COMPLETED", 0)] * 2 + [("wait", "PENDING", 0)] * 4 + [("after", "PENDING", 0)] * 6
    )
    async with fleet.helper(liveness_interval=NEVER, checkin_interval=NEVER):
        await fleet.everything_ends()
    assert fleet.journal.executions().total() == 12


@pytest.mark.parametrize("workflow", ["waiting", "isolated", "threaded"])
async def test_steps_that_take_too_long_go_back(fleet: Fleet, workflow: str) -> None:
    created = await fleet.create(workflow, 2, resource_keys={"wait": "shelf"})
    worker = await fleet.start("leaver", stop_timeout=0.3)
    await fleet.calls(1, "wait")
    worker.signal(signal.SIGTERM)
    await worker.says("stopped")

    assert await rows_of("SELECT id FROM workercheckin") == []
    assert await rows_of("SELECT resource_key FROM resourcelock") == []
    assert {tuple(row) for row in await rows_of("SELECT status, retry FROM runstep")} == {("PENDING", 0)}
    fleet.let_go()
    await worker.ends(0)  # a thread cannot be stopped, and keeps the process until it ends by itself
    async with fleet.helper(liveness_interval=NEVER, checkin_interval=NEVER):
        await fleet.everything_ends()
    assert fleet.journal.executions()[created.run_ids[0], "wait"] == 2


@pytest.mark.parametrize("point", ["before_delivery", "after_delivery"])
async def test_a_delivery_under_way_goes_back(fleet: Fleet, point: str) -> None:
    await fleet.create("line")
    worker = await fleet.start("leaver", fault_at=point, fault="hang", stop_timeout=0.3)
    await worker.says(f"reached {point}")
    worker.signal(signal.SIGTERM)
    await worker.ends(0)

    assert await rows_of("SELECT id FROM lifecyclehistory WHERE status = 'RUNNING'") == []
    async with fleet.helper(liveness_interval=NEVER, checkin_interval=NEVER):
        await fleet.everything_ends()


async def test_events_made_by_the_last_steps_of_a_stopping_worker_are_delivered(fleet: Fleet) -> None:
    """The worker stops at the very moment at which there is something to deliver."""
    await fleet.create("waiting", 1)
    worker = await fleet.start("leaver")
    await fleet.calls(1, "wait")
    fleet.let_go()
    await fleet.calls(1, "after")
    worker.signal(signal.SIGTERM)
    await worker.ends(0)
    async with fleet.helper(checkin_timeout=1):
        await fleet.everything_ends()
