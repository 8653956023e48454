"""A run is cancelled from one process while its step runs in another."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import rows_of
from tests.support.faults import Fleet, is_running


@pytest.mark.parametrize("workflow", ["waiting", "isolated", "threaded"])
async def test_a_step_ends_soon_after_its_run_is_cancelled_elsewhere(fleet: Fleet, workflow: str) -> None:
    created = await fleet.create(workflow)
    worker = await fleet.start("worker", consumers={"*": 1})
    await fleet.calls(1, "wait")
    (handler,) = {entry.pid for entry in fleet.journal.entries("call")}

    await ops.cancel_run(created.run_ids[0])
    await fleet.everything_ends(within=120)
    assert set(await _statuses()) == {"CANCELLED"}
    if workflow == "isolated":
        await fleet.eventually(lambda: not is_running(handler), "the handler's process ends")

    await fleet.create("line")  # the worker's one slot is free again
    await fleet.everything_ends()
    assert is_running(worker.pid)
    assert (await _statuses())[-3:] == ["COMPLETED"] * 3


async def test_a_slot_outlives_a_handler_that_ignores_its_cancellation(fleet: Fleet) -> None:
    created = await fleet.create("stubborn")
    await fleet.start("worker", consumers={"*": 1})
    await fleet.calls(1)
    await ops.cancel_run(created.run_ids[0])
    await fleet.everything_ends()
    assert (await rows_of("SELECT status FROM workflowrun"))[0][0] == "CANCELLED"

    await fleet.create("grouper")
    await fleet.everything_ends()
    assert [tuple(row) for row in await rows_of("SELECT status, retry FROM runstep WHERE retry > 0")] == [
        ("COMPLETED", 1)
    ]


async def _statuses() -> list[str]:
    return [row[0] for row in await rows_of("SELECT status FROM runstep ORDER BY id")]
