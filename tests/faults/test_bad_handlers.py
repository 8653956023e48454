"""Handlers that block, crash, hoard or cancel themselves cost one attempt of one step, and the worker goes on."""

from __future__ import annotations

from collections import Counter

from tests.support.engine import rows_of
from tests.support.faults import Fleet, is_running

BAD = {
    "sleeper": "StepTimeout",
    "backtracker": "StepTimeout",
    "crasher": "HandlerCrashed",
    "hoarder": "MemoryLimitExceeded",
    "quitter": "CancelledError",
}
"""The workflows, and what is recorded of the first attempt."""


async def test_a_handler_that_misbehaves_costs_one_attempt_of_one_step(fleet: Fleet) -> None:
    for workflow in BAD:
        await fleet.create(workflow)
    good = await fleet.create("line", 5)
    worker = await fleet.start("worker", consumers={"*": 3})
    await fleet.everything_ends()

    steps = await rows_of("SELECT workflow_step_name, status, retry, status_meta FROM runstep WHERE retry > 0")
    assert {(name, status, retry) for name, status, retry, _ in steps} == {(name, "COMPLETED", 1) for name in BAD}
    assert all(BAD[name] in str(meta) for name, _, _, meta in steps), steps
    expected = dict.fromkeys(BAD, 2) | dict.fromkeys(("first", "second", "third"), len(good.run_ids))
    assert Counter(step for (_, step), n in fleet.journal.executions().items() for _ in range(n)) == expected
    assert is_running(worker.pid)


async def test_no_slot_is_lost_to_handlers_that_cancel_themselves(fleet: Fleet) -> None:
    await fleet.create("quitter", 8)
    await fleet.create("line", 2)
    await fleet.start("worker", consumers={"*": 2})
    await fleet.everything_ends()
