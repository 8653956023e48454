"""Subflows: a step that starts a run and waits for its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import RunStatus, WorkflowRun
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.work import ClaimedStep, NewSubflow
from tests.support.engine import Driver, assert_consistent, linear, parked, rows_of, scalar, workflow

HOUR = timedelta(hours=1)


def child_flow() -> WorkflowDefinition:
    return workflow({"work": {}}, workflow_id="child")


async def subflow(driver: Driver, delay: timedelta | None = None) -> tuple[ClaimedStep, WorkflowRun]:
    """A step that waits for a run that it has started."""
    await driver.start(linear("a"))
    return await _park(driver, delay)


async def _park(driver: Driver, delay: timedelta | None = None) -> tuple[ClaimedStep, WorkflowRun]:
    child = child_flow()
    step = await driver.claim_one(types=["a"])
    key = f":subflow:{step.id}:{step.row['repeats']}"
    wish = replace(
        parked(step, awaits=key, delay=delay, state="begun"), subflow=NewSubflow(child, {"n": 7}, await ops.pin(child))
    )
    finished = await driver.finish(wish)
    assert finished.ready_types == {"work"}
    [(run_id,)] = await rows_of(f"SELECT id FROM workflowrun WHERE run_key = '{key}'")
    return step, await driver.run(run_id)


async def test_the_output_of_the_run_is_the_answer(driver: Driver) -> None:
    step, run = await subflow(driver)
    assert (run.parent_step_id, run.input) == (step.id, {"n": 7})
    assert (await driver.step(step.id)).status_message == "waits for a run of 'child'"
    await driver.complete(await driver.claim_one(), output={"pages": 3})
    await driver.deliver()

    resumed = await driver.claim_one(types=["a"])

    assert (resumed.state, resumed.answer) == ("begun", {"work": {"pages": 3}})
    assert (resumed.subflow_outcome or {})["status"] == RunStatus.COMPLETED
    await driver.complete(resumed)
    assert await scalar("SELECT count(*) FROM signal") == 0
    await assert_consistent()


async def test_a_late_wish_starts_no_run(driver: Driver) -> None:
    child = child_flow()
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.complete(step)
    await driver.finish(
        replace(parked(step, awaits=":subflow:1:0"), subflow=NewSubflow(child, None, await ops.pin(child)))
    )
    assert await scalar("SELECT count(*) FROM workflowrun") == 1


async def test_the_failure_of_the_run_reaches_the_step_and_a_retry_begins_anew(driver: Driver) -> None:
    step, run = await subflow(driver)
    await driver.fail(await driver.claim_one(), message="no such page")
    await driver.deliver()
    resumed = await driver.claim_one(types=["a"])
    outcome = resumed.subflow_outcome
    assert outcome is not None
    assert (outcome[":run"], outcome["status"]) == (run.id, RunStatus.FAILED)
    assert "no such page" in outcome["error"]
    await driver.fail(resumed)

    await ops.retry_run(step.run_id, now=driver.now())

    again = await driver.claim_one(types=["a"])
    assert (again.state, again.answer) == (None, None)
    await assert_consistent()


async def _failed_with_its_parent(driver: Driver) -> tuple[ClaimedStep, WorkflowRun]:
    step, run = await subflow(driver)
    await driver.fail(await driver.claim_one())
    await driver.deliver()
    await driver.fail(await driver.claim_one(types=["a"]))
    return step, run


async def test_a_run_that_its_step_waits_for_no_more_is_retried_by_its_parent(driver: Driver) -> None:
    step, run = await _failed_with_its_parent(driver)
    assert run.id is not None
    for retrying in (ops.retry_run(run.id), ops.retry_run(run.id, hard=True), ops.retry_run_group(run.run_group_id)):
        with pytest.raises(ConflictError, match=f"'a' of run {step.run_id}.*: retry run {step.run_id}, whose step"):
            await retrying
    assert (await driver.run(run.id)).status == RunStatus.FAILED
    await ops.retry_run_group(step.group_id, now=driver.now())
    _, other = await _park(driver)
    assert other.id != run.id


async def test_a_run_whose_parent_was_deleted_is_not_retried(driver: Driver) -> None:
    step, run = await _failed_with_its_parent(driver)
    assert run.id is not None
    await ops.delete_run_group(step.group_id)
    with pytest.raises(ConflictError, match=r"which is deleted: start a new run of 'child'"):
        await ops.retry_run(run.id)


async def test_a_run_that_its_step_waits_for_may_be_put_back(driver: Driver) -> None:
    _, run = await subflow(driver)
    assert run.id is not None
    held = await driver.claim_one()
    assert (await ops.retry_run(run.id, hard=True, now=driver.now())).reset_steps == 1
    assert (await driver.complete(held)).lost == {held.id}
    await driver.complete(await driver.claim_one(), output=5)
    await driver.deliver()
    assert (await driver.claim_one(types=["a"])).answer == {"work": 5}


async def test_a_step_that_begins_anew_does_not_hear_of_the_end_of_its_first_run(driver: Driver) -> None:
    step, _ = await subflow(driver)
    await driver.complete(await driver.claim_one(), output="old")
    await ops.retry_run(step.run_id, hard=True, now=driver.now())
    await driver.deliver()

    await _park(driver)

    assert await scalar("SELECT count(*) FROM runstep WHERE awaits IS NOT NULL") == 1, "it waits for its second run"
    await driver.complete(await driver.claim_one(types=["work"]), output="new")
    await driver.deliver()
    assert (await driver.claim_one(types=["a"])).answer == {"work": "new"}
    await assert_consistent()


async def orphans(driver: Driver, run: WorkflowRun) -> Any:
    assert run.id is not None
    assert await ops.cancel_orphaned_runs(now=driver.now()) == 1
    await assert_consistent()
    return (await driver.run(run.id)).status


async def test_a_run_that_somebody_waits_for_is_no_orphan(driver: Driver) -> None:
    await subflow(driver)
    assert await ops.cancel_orphaned_runs(now=driver.now()) == 0


async def test_cancelling_the_parent_cancels_the_run(driver: Driver) -> None:
    step, run = await subflow(driver)
    await ops.cancel_run(step.run_id, now=driver.now())
    assert await orphans(driver, run) == RunStatus.CANCELLED
    assert await scalar("SELECT count(*) FROM signal") == 0, "nobody waits for its end"


async def test_a_hard_retry_of_the_parent_cancels_the_run(driver: Driver) -> None:
    step, run = await subflow(driver)
    await ops.retry_run(step.run_id, hard=True, now=driver.now())
    assert await orphans(driver, run) == RunStatus.CANCELLED


async def test_a_step_that_begins_anew_starts_another_run_and_hears_of_its_end(driver: Driver) -> None:
    step, run = await subflow(driver)
    await ops.retry_run(step.run_id, hard=True, now=driver.now())

    again, other = await _park(driver)

    assert (again.id, other.parent_step_id) == (step.id, step.id)
    assert other.id != run.id
    await assert_consistent()
    assert await orphans(driver, run) == RunStatus.CANCELLED
    await driver.complete(await driver.claim_one(types=["work"]), output=2)
    await driver.deliver()
    assert (await driver.claim_one(types=["a"])).answer == {"work": 2}
    await assert_consistent()


async def test_deleting_the_parent_cancels_the_run(driver: Driver) -> None:
    step, run = await subflow(driver)
    await ops.delete_run_group(step.group_id)
    assert await orphans(driver, run) == RunStatus.CANCELLED


async def test_a_wait_for_a_run_that_takes_too_long_ends_and_cancels_it(driver: Driver) -> None:
    _, run = await subflow(driver, delay=HOUR)
    driver.pass_time(HOUR)
    resumed = await driver.claim_one(types=["a"])
    assert (resumed.state, resumed.answer) == ("begun", None)
    assert await orphans(driver, run) == RunStatus.CANCELLED


async def test_deleting_the_run_tells_the_step_that_waits(driver: Driver) -> None:
    _, run = await subflow(driver)
    await ops.delete_run_group(run.run_group_id)
    await driver.deliver()
    outcome = (await driver.claim_one(types=["a"])).subflow_outcome
    assert outcome is not None
    assert (outcome["status"], outcome["error"]) == ("CANCELLED", "the run was deleted")
    await assert_consistent()


async def test_the_deadline_of_the_parent_reaches_the_run(driver: Driver) -> None:
    child = child_flow()
    started = await ops.start_run(linear("a"), deadline=driver.moment + HOUR, now=driver.now())
    step = await driver.claim_one(types=["a"])
    await driver.finish(
        replace(parked(step, awaits=f":subflow:{step.id}:0"), subflow=NewSubflow(child, None, await ops.pin(child)))
    )
    driver.pass_time(HOUR)
    await ops.end_overdue_runs(now=driver.now())
    assert (await driver.run(started.run_id)).status == RunStatus.FAILED
    assert await ops.cancel_orphaned_runs(now=driver.now()) == 1
    assert await scalar("SELECT count(*) FROM workflowrun WHERE completed_date IS NULL") == 0
    await assert_consistent()
