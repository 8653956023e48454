"""A worker is killed: what it held is done by another, and what it had recorded is not done again."""

from __future__ import annotations

import signal

import pytest

from tests.support.engine import rows_of
from tests.support.faults import Fleet, completed_steps, is_running

POINTS = (
    "inside_claim",
    "after_claim",
    "before_handler",
    "after_handler",
    "before_finish",
    "inside_finish",
    "after_finish",
    "before_delivery",
    "after_delivery",
)


@pytest.mark.parametrize("point", POINTS)
async def test_what_a_worker_held_that_died_at_a_point_is_finished_by_another(fleet: Fleet, point: str) -> None:
    created = await fleet.create("line", 3, resource_keys={"first": "shelf"})
    victim = await fleet.launch("victim", consumers={"*": 1}, batch_size=2, fault_at=point)
    await victim.ends(-signal.SIGKILL)
    assert victim.has_said(f"reached {point}")
    recorded, before = await completed_steps(), fleet.journal.executions()

    async with fleet.helper() as counted:
        await fleet.everything_ends()
        await fleet.eventually(lambda: counted.counts["worker_reaped"] == 1, "the dead worker is noticed")

    after = fleet.journal.executions()
    assert after.keys() == {(run, step) for run in created.run_ids for step in ("first", "second", "third")}
    assert {step: after[step] for step in recorded} == {step: before[step] for step in recorded}
    assert await rows_of("SELECT id FROM runstep WHERE retry > 0 OR status <> 'COMPLETED'") == []
    assert _is_as_expected(point, recorded=len(recorded), executed=before.total(), told=_told(fleet))


def _told(fleet: Fleet) -> int:
    return len(fleet.journal.entries("group_end"))


def _is_as_expected(point: str, *, recorded: int, executed: int, told: int) -> bool:
    """Whether the worker died where it was told to."""
    match point:
        case "inside_claim" | "after_claim" | "before_handler":
            return (recorded, executed, told) == (0, 0, 1)
        case "after_handler" | "before_finish" | "inside_finish":
            return recorded == 0 and executed > 0 and told == 1
        case "after_finish":
            return recorded > 0 and told == 1
        case "before_delivery":
            return recorded == 9 and told == 1
        case _:
            return recorded == 9 and told == 2


@pytest.mark.parametrize("point", ["before_handler", "before_delivery"])
async def test_a_worker_that_comes_back_under_its_name_goes_on_alone(fleet: Fleet, point: str) -> None:
    await fleet.create("line", 2, resource_keys={"first": "shelf"})
    victim = await fleet.launch("victim", fault_at=point)
    await victim.ends(-signal.SIGKILL)
    async with fleet.helper("victim"):
        await fleet.everything_ends()


@pytest.mark.parametrize("workflow", ["waiting", "isolated"])
async def test_a_worker_is_killed_in_the_middle_of_a_handler(fleet: Fleet, workflow: str) -> None:
    await fleet.create(workflow, 2)
    victim = await fleet.start()
    await fleet.calls(2, "wait")
    handlers = {entry.pid for entry in fleet.journal.entries("call")}
    assert (handlers == {victim.pid}) == (workflow == "waiting")

    victim.signal(signal.SIGKILL)
    await victim.ends(-signal.SIGKILL)
    await fleet.eventually(lambda: not any(map(is_running, handlers)), "the handlers' processes end")
    fleet.let_go()
    async with fleet.helper():
        await fleet.everything_ends()

    assert await rows_of("SELECT id FROM runstep WHERE retry > 0 OR status <> 'COMPLETED'") == []
    assert not handlers & {entry.pid for entry in fleet.journal.entries("end")}
