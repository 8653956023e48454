"""Workers outside: they claim by name, under leases that end by themselves, and what comes late changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import outside
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition, workflow_from_mapping
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.outside import LeaseLostError, claim_tasks, complete_task, extend_lease, fail_task
from tests.support.engine import METHOD, assert_consistent, linear, rows_of, scalar

pytestmark = pytest.mark.usefixtures("database")


def flow(steps: Mapping[str, Mapping[str, Any]]) -> WorkflowDefinition:
    return workflow_from_mapping({"id": "outer", "item_steps": steps})


async def start(definition: WorkflowDefinition, given: Any = None) -> int:
    return (await ops.start_run(definition, run=ops.NewRun(input=given))).run_id


async def claim(**options: Any) -> outside.Claimed:
    return await claim_tasks("tester", ["@ocr"], **options)


async def test_a_step_is_claimed_with_its_input_and_its_output_goes_on(database: type[Database]) -> None:
    run_id = await start(
        flow({"scan": {"type": "@ocr", "parameters": {"dpi": 300}}, "sum": {"type": "@ocr", "retries": 2}}), {"n": 1}
    )
    claimed = await claim()
    (task,) = claimed.tasks
    assert (task.run_id, task.step, task.attempt, task.attempts) == (run_id, "scan", 1, 1)
    assert (task.input, task.parameters) == ({"n": 1}, {"dpi": 300})
    await complete_task(task.id, claimed.lease, {"text": "hello"})
    claimed = await claim()
    assert claimed.tasks[0].input == {"n": 1, "scan": {"text": "hello"}}
    await complete_task(claimed.tasks[0].id, claimed.lease, 7)
    assert await rows_of("SELECT status FROM workflowrun") == [("COMPLETED",)]
    assert await scalar("SELECT count(*) FROM workercheckin") == 0
    await assert_consistent()


async def test_our_workers_leave_such_steps_alone(database: type[Database]) -> None:
    await start(flow({"scan": {"type": "@ocr"}}))
    assert (await ops.claim_steps("ours", ops.Pool(), 10)).steps == []
    assert len((await claim()).tasks) == 1


async def test_a_worker_outside_gets_nothing_but_what_it_asked_for(database: type[Database]) -> None:
    await ops.create_run_group(linear("a"), None, [ops.NewRun()])
    await start(flow({"scan": {"type": "@other"}}))
    assert (await claim()).tasks == []


async def test_what_is_not_finished_in_time_goes_to_another_and_the_late_result_is_refused(
    database: type[Database],
) -> None:
    await start(flow({"scan": {"type": "@ocr"}}))
    late = await claim(lease_for=timedelta(seconds=1))
    step_id = late.tasks[0].id
    reaped = await outside.reap_expired(now=utcnow() + timedelta(seconds=2))
    assert (reaped.steps, len(reaped.workers)) == (1, 1)
    second = await claim()
    assert second.tasks[0].id == step_id
    for attempt in (complete_task(step_id, late.lease, 1), fail_task(step_id, late.lease, "late")):
        with pytest.raises(LeaseLostError, match="drop the result"):
            await attempt
    with pytest.raises(LeaseLostError):
        await extend_lease(late.lease)
    await complete_task(step_id, second.lease, 2)
    assert await rows_of("SELECT output FROM runstep") in ([(2,)], [("2",)])
    await assert_consistent()


async def test_more_time_is_given_and_progress_is_told(database: type[Database]) -> None:
    await start(flow({"scan": {"type": "@ocr"}}))
    claimed = await claim(lease_for=timedelta(seconds=1))
    extended = await extend_lease(claimed.lease, lease_for=timedelta(minutes=5), progress=0.25, text="page 1")
    assert extended.expires_at > claimed.expires_at + timedelta(minutes=4)
    assert (extended.held, extended.unwanted) == ([claimed.tasks[0].id], [])
    assert (await outside.reap_expired(now=utcnow() + timedelta(minutes=2))).steps == 0
    async with Database.session(read_only=True) as session:
        from soliplex.ingester.lib.models import RunStep

        progress = (await session.get_one(RunStep, claimed.tasks[0].id)).progress
    assert progress is not None
    assert (progress["fraction"], progress["text"]) == (0.25, "page 1")


async def test_a_worker_is_told_what_is_not_wanted_any_more(database: type[Database]) -> None:
    run_id = await start(flow({"scan": {"type": "@ocr"}}))
    claimed = await claim()
    await ops.cancel_run(run_id)
    assert (await extend_lease(claimed.lease)).unwanted == [claimed.tasks[0].id]


async def test_a_failure_is_tried_again_as_the_workflow_says(database: type[Database]) -> None:
    await start(flow({"scan": {"type": "@ocr", "retries": 3, "backoff": "0s"}}))
    for attempt in (1, 2):
        claimed = await claim()
        assert claimed.tasks[0].attempt == attempt
        await fail_task(claimed.tasks[0].id, claimed.lease, "the scanner is on fire")
    claimed = await claim()
    await fail_task(claimed.tasks[0].id, claimed.lease, "it has burnt down", permanent=True)
    assert await rows_of("SELECT status, status_message FROM runstep") == [("FAILED", "it has burnt down")]
    assert await rows_of("SELECT attempt, error_type FROM stepattempt ORDER BY id") == [
        (number, "FailedOutside") for number in (1, 2, 3)
    ]
    await assert_consistent()


async def test_the_tasks_of_a_map_are_claimed_at_once(database: type[Database]) -> None:
    await start(flow({"scan": {"type": "@ocr", "map": "pages"}}), {"pages": ["a", "b", "c"]})
    claimed = await claim(limit=10)
    assert [task.input["item"] for task in claimed.tasks] == ["a", "b", "c"]
    for task in claimed.tasks:
        await complete_task(task.id, claimed.lease, task.input["item"].upper())
    async with Database.session(read_only=True) as session:
        from soliplex.ingester.lib.models import WorkflowRun

        assert (await session.get_one(WorkflowRun, 1)).output == {"scan": ["A", "B", "C"]}
    await assert_consistent()


async def test_a_step_whose_condition_does_not_hold_is_skipped_and_nobody_is_given_it(database: type[Database]) -> None:
    await start(flow({"scan": {"type": "@ocr", "when": "n > 1"}}), {"n": 1})
    assert (await claim()).tasks == []
    assert await rows_of("SELECT status FROM workflowrun") == [("COMPLETED",)]


async def test_a_loop_calls_again_with_what_was_returned(database: type[Database]) -> None:
    repeat = {"until": "output >= 2", "max": 5}
    await start(flow({"scan": {"type": "@ocr", "repeat": repeat}}), {})
    states: list[Any] = []
    while (claimed := await claim()).tasks:
        states.append(claimed.tasks[0].state)
        await complete_task(claimed.tasks[0].id, claimed.lease, (claimed.tasks[0].state or 0) + 1)
    assert states == [None, 1]


async def test_one_who_waits_is_given_a_step_as_soon_as_there_is_one(database: type[Database]) -> None:
    waiting = asyncio.create_task(claim(wait=60))
    await asyncio.sleep(0)
    await start(flow({"scan": {"type": "@ocr"}}))
    async with asyncio.timeout(50):
        assert len((await waiting).tasks) == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"types": []}, "types"),
        ({"types": ["parse"]}, "types"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"wait": 61}, "wait_seconds"),
        ({"lease_for": timedelta(0)}, "lease_seconds"),
        ({"lease_for": timedelta(days=1)}, "lease_seconds"),
    ],
)
async def test_a_wish_that_cannot_be_met_is_refused_by_name(
    database: type[Database], options: dict[str, Any], field: str
) -> None:
    asked: dict[str, Any] = {"types": ["@ocr"], **options}
    with pytest.raises(InvalidInputError) as caught:
        await claim_tasks("tester", **asked)
    assert caught.value.field == field


def test_only_a_step_for_workers_outside_may_do_without_a_handler() -> None:
    assert flow({"scan": {"type": "@ocr"}}).step("scan").method == "outside"
    assert flow({"scan": {"type": "@ocr", "method": METHOD}}).step("scan").method == METHOD
    with pytest.raises(DefinitionError, match="method"):
        flow({"scan": {"type": "ocr"}})
