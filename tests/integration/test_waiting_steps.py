"""Handlers that ask to be called again, with a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.models import RunStatus
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.runner import Worker
from tests.support import handlers
from tests.support.engine import assert_consistent, registry_in_use, scalar, workflow
from tests.support.working import HANDLERS, ended, start, until, working


@pytest.fixture(autouse=True)
def fresh_handlers() -> Iterator[None]:
    handlers.reset()
    with registry_in_use():
        yield
    handlers.reset()


async def waiting_steps() -> int:
    return await scalar("SELECT count(*) FROM runstep WHERE awaits IS NOT NULL")


async def test_a_handler_that_asks_for_another_call_is_called_with_its_state(database: None) -> None:
    [run_id] = await start("counting")
    async with working():
        run = await ended(run_id)
    assert (run.status, run.output) == (RunStatus.COMPLETED, {"step": 5})


async def test_a_signal_wakes_a_worker_that_has_nothing_else_to_do(database: None) -> None:
    [run_id] = await start("asking")
    async with working(poll_interval=60):  # nobody looks by himself
        await until(waiting_steps)
        await ops.send_signal(f"answer-{run_id}", {"yes": True})
        run = await ended(run_id)
    assert run.output == {"step": {"answer": {"yes": True}}}
    await assert_consistent()


async def test_a_handler_in_a_process_of_its_own_may_wait(database: None) -> None:
    [run_id] = await start("asking_elsewhere", isolation="process")
    async with working(processes=1):
        await ops.send_signal(f"answer-{run_id}", 1)
        run = await ended(run_id)
    assert run.output == {"step": {"answer": 1}}


async def test_a_wait_that_runs_out_calls_the_handler_without_an_answer(database: None) -> None:
    [run_id] = await start("impatient")
    async with working():
        run = await ended(run_id)
    assert run.output == {"step": {"answer": None}}


async def test_steps_that_wait_hold_no_slot(database: None) -> None:
    waiting = await start("asking", 50)
    async with working(consumers={"*": 1}):
        await until(lambda: _all_wait(50))
        [counted] = await start("counting")
        assert (await ended(counted)).status == RunStatus.COMPLETED
        for run_id in waiting:
            await ops.send_signal(f"answer-{run_id}", run_id)
        for run_id in waiting:
            assert (await ended(run_id)).output == {"step": {"answer": run_id}}


async def _all_wait(count: int) -> bool:
    return await waiting_steps() == count


async def test_a_wait_for_a_key_that_cannot_be_is_the_handlers_failure(database: None) -> None:
    [run_id] = await start("wrong_wait")
    async with working():
        run = await ended(run_id)
    assert run.status == RunStatus.FAILED
    assert "key: must not be empty" in (run.status_message or "")


async def test_a_run_fails_at_its_deadline_and_what_its_worker_executes_is_stopped(database: None) -> None:
    began, _ = handlers.gate("deadline")
    flow = workflow({"step": {"method": HANDLERS + "waits"}})
    soon = datetime.now(UTC) + timedelta(seconds=2)
    run = await ops.start_run(flow, run=ops.NewRun(doc_id="deadline"), deadline=soon)
    async with working() as worker:
        await began.wait()
        ended_run = await ended(run.run_id)
        await until(lambda: _is_idle(worker))
        assert handlers.counts["cancelled"] == 1
    assert (ended_run.status, ended_run.status_message) == (RunStatus.FAILED, "the deadline of the run has passed")
    await assert_consistent()


async def test_a_handler_that_asks_for_another_call_for_ever_is_stopped_by_the_deadline(database: None) -> None:
    flow = workflow({"step": {"method": HANDLERS + "for_ever"}})
    soon = datetime.now(UTC) + timedelta(seconds=1)
    run = await ops.start_run(flow, run=ops.NewRun(input={}), deadline=soon)
    async with working():
        ended_run = await ended(run.run_id)
    assert (ended_run.status, ended_run.status_message) == (RunStatus.FAILED, "the deadline of the run has passed")
    assert await scalar("SELECT max(repeats) FROM runstep") > 0
    await assert_consistent()


async def _is_idle(worker: Worker) -> bool:
    return worker.is_idle


async def test_a_step_that_was_taken_away_is_stopped_by_the_worker_that_executes_it(database: None) -> None:
    """As after a hard retry: the result would be dropped, and the slot is wanted for others."""
    began, go_on = handlers.gate("taken")
    flow = workflow({"step": {"method": HANDLERS + "waits"}})
    run = await ops.start_run(flow, run=ops.NewRun(doc_id="taken"))
    async with working(consumers={"*": 1}):
        await began.wait()
        began.clear()
        await ops.retry_run(run.run_id, hard=True)
        await began.wait()  # the only slot is free for it again, though the first call never ends by itself
        go_on.set()
        assert (await ended(run.run_id)).status == RunStatus.COMPLETED


async def started_with(flow: WorkflowDefinition, given: Any) -> int:
    return (await ops.start_run(flow, run=ops.NewRun(input=given))).run_id


async def test_a_step_may_have_another_workflow_do_its_work(database: None) -> None:
    workflow({"inner": {"method": HANDLERS + "echo"}}, workflow_id="child")
    parent = workflow({"outer": {"method": HANDLERS + "in_a_subflow"}}, workflow_id="parent")
    async with working(poll_interval=60):
        run = await ended(await started_with(parent, {"workflow": "child"}))
    assert run.output == {"outer": {"answer": {"inner": {"want": 1}}}}
    await assert_consistent()


async def test_a_subflow_that_fails_fails_its_step_with_the_reason(database: None) -> None:
    workflow({"inner": {"method": HANDLERS + "hopeless"}}, workflow_id="child")
    parent = workflow({"outer": {"method": HANDLERS + "in_a_subflow", "retries": 3}}, workflow_id="parent")
    async with working():
        run = await ended(await started_with(parent, {"workflow": "child"}))
    assert run.status == RunStatus.FAILED
    assert "which this step waited for, ended FAILED: step 'inner' failed: the file is encrypted" in str(
        run.status_message
    )


async def test_a_subflow_of_a_workflow_that_nobody_knows_fails_its_step(database: None) -> None:
    workflow({"inner": {"method": HANDLERS + "echo"}}, workflow_id="child")
    parent = workflow({"outer": {"method": HANDLERS + "in_a_subflow"}}, workflow_id="parent")
    async with working():
        run = await ended(await started_with(parent, {"workflow": "childe"}))
    assert "workflow 'childe' does not exist" in str(run.status_message)
