"""Map steps: one task for each item, and one end for all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.operations import finish
from soliplex.ingester.lib.wf.work import ClaimedStep
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    released,
    rows_of,
    scalar,
    workflow,
)

MAP = {"list": {}, "each": {"map": True}, "sum": {}}


async def to_map(driver: Driver, facts: dict[str, Any] | None = None, runs: int = 1) -> list[ClaimedStep]:
    """Runs that have come to their map step, which is claimed."""
    flow = workflow({"list": {}, "each": {"map": True, **(facts or {})}, "sum": {}})
    await driver.start(flow, runs)
    await driver.complete(*await driver.claim())
    return await driver.claim()


async def test_a_map_of_no_items_completes_at_once_with_an_empty_list(driver: Driver) -> None:
    (each,) = await to_map(driver)
    finished = await driver.finish(expanded(each, []))
    assert (finished.completed, finished.expanded) == ({each.id}, set())
    assert (await driver.step(each.id)).output == []
    assert await driver.tasks_of(each.id) == []
    assert await driver.drain() == ["sum"]


async def test_tasks_get_their_items_and_the_step_gathers_what_they_give_in_order(driver: Driver) -> None:
    (each,) = await to_map(driver, {"retries": 3, "timeout": "5s"})
    finished = await driver.finish(expanded(each, ["a", "b", "c"]))
    assert (finished.expanded, finished.ready_types) == ({each.id}, {"each"})
    waiting = await driver.step(each.id)
    assert (waiting.status, waiting.lease_token, waiting.remaining_tasks) == ("RUNNING", None, 3)
    tasks = await driver.claim()
    assert [(task.parent_id, task.row["item_index"], task.input) for task in tasks] == [
        (each.id, 0, "a"),
        (each.id, 1, "b"),
        (each.id, 2, "c"),
    ]
    row = tasks[0].run_step()
    assert (row.retries, row.timeout_seconds, row.step_config_id) == (3, 5, each.row["step_config_id"])

    await driver.complete(tasks[2], output="C")
    await driver.complete(tasks[0], output="A")
    assert await driver.claim() == []
    await driver.complete(tasks[1], output="B")
    done = await driver.step(each.id)
    assert (done.status, done.output, done.remaining_tasks) == ("COMPLETED", ["A", "B", "C"], 0)
    assert await driver.drain() == ["sum"]


async def test_tasks_that_end_in_one_batch_end_their_step_once(driver: Driver) -> None:
    first, second = await to_map(driver, runs=2)
    await driver.finish(expanded(first, range(3)), expanded(second, range(2)))
    finished = await driver.complete(*await driver.claim())
    assert {first.id, second.id} < finished.completed
    assert [step.name for step in await driver.claim()] == ["sum", "sum"]


async def test_ten_thousand_items_are_ten_thousand_tasks(driver: Driver) -> None:
    (each,) = await to_map(driver)
    await driver.finish(expanded(each, range(10_000)))
    assert await scalar("SELECT count(*) FROM runstep WHERE parent_step_id IS NOT NULL") == 10_000
    while tasks := await driver.claim(2_500, types=["each"]):
        await driver.finish(*(completed(task, task.input * 2) for task in tasks))
    done = await driver.step(each.id)
    assert done.status == "COMPLETED"
    assert done.output == [number * 2 for number in range(10_000)]


ITEMS: list[Any] = ["text", "", "1", "null", True, False, None, 0, 1.5, [], {}, [1, [2]], {"ä": {"b": None}}, "\u2603"]


async def test_an_item_may_be_any_json(driver: Driver) -> None:
    (each,) = await to_map(driver)
    await driver.finish(expanded(each, ITEMS))
    tasks = await driver.claim()
    assert [(task.input, type(task.input)) for task in tasks] == [(item, type(item)) for item in ITEMS]
    assert [task.run_step().input for task in tasks] == ITEMS
    await driver.finish(*(completed(task, task.input) for task in tasks))
    assert (await driver.step(each.id)).output == ITEMS


async def test_a_task_that_errs_is_tried_again_alone(driver: Driver) -> None:
    (each,) = await to_map(driver, {"retries": 2})
    await driver.finish(expanded(each, range(3)))
    await driver.drain(
        lambda task: (
            errored(task, delay=timedelta(seconds=9)) if task.input == 1 and not task.retry else completed(task)
        )
    )
    assert (await driver.step(each.id)).status == "COMPLETED"
    assert [task.retry for task in await driver.tasks_of(each.id)] == [0, 1, 0]


async def test_a_failing_item_fails_the_step_and_cancels_what_waits(driver: Driver) -> None:
    (each,) = await to_map(driver)
    await driver.finish(expanded(each, range(5)))
    first, second = await driver.claim(2)
    await driver.fail(first, message="bad item")
    await assert_consistent()
    assert (await driver.step(each.id)).status == "RUNNING", "one task is still under way"
    assert await driver.claim() == []
    await driver.complete(second)

    failed = await driver.step(each.id)
    assert (failed.status, failed.status_message) == ("FAILED", "1 of its tasks failed: bad item")
    statuses = [str(task.status) for task in await driver.tasks_of(each.id)]
    assert statuses == ["FAILED", "COMPLETED", "CANCELLED", "CANCELLED", "CANCELLED"]
    run = await driver.run(each.run_id)
    assert (run.status, run.status_message) == ("FAILED", "step 'each' failed: 1 of its tasks failed: bad item")
    assert (await driver.statuses(each.run_id))["sum"] == "CANCELLED"


async def test_a_failing_item_that_is_the_last_ends_the_run_at_once(driver: Driver) -> None:
    (each,) = await to_map(driver)
    await driver.finish(expanded(each, range(2)))
    first, second = await driver.claim()
    await driver.complete(first)
    finished = await driver.fail(second)
    assert finished.failed == {second.id, each.id}
    assert finished.ended_runs == {each.run_id: "FAILED"}


async def test_an_optional_map_that_fails_lets_the_run_go_on(driver: Driver) -> None:
    (each,) = await to_map(driver, {"optional": True})
    await driver.finish(expanded(each, range(4)))
    first, second, third = await driver.claim(3)
    await driver.fail(first)
    assert [str(task.status) for task in await driver.tasks_of(each.id)][3] == "CANCELLED"
    await driver.finish(completed(second), released(third))
    assert await driver.drain() == ["each", "sum"], "a task given back is executed: the run is not to stop"
    assert (await driver.step(each.id)).status == "FAILED"
    assert (await driver.run(each.run_id)).status == "COMPLETED"


async def test_a_map_step_is_expanded_once(driver: Driver) -> None:
    (each,) = await to_map(driver)
    finished = await driver.finish(expanded(each, range(2)), expanded(each, range(3)))
    assert (finished.expanded, finished.lost) == ({each.id}, set())
    assert len(await driver.tasks_of(each.id)) == 2
    assert (await driver.finish(expanded(each, range(4)))).lost == {each.id}


async def test_of_two_expansions_under_two_leases_the_valid_one_counts(driver: Driver) -> None:
    (old,) = await to_map(driver)
    await driver.finish(released(old))
    new = await driver.claim_one()
    finished = await driver.finish(expanded(old, range(5)), expanded(new, range(2)))
    assert (finished.expanded, finished.lost) == ({new.id}, set())
    assert len(await driver.tasks_of(new.id)) == 2


async def test_the_map_step_itself_may_be_given_back_or_err_like_any_other(driver: Driver) -> None:
    (each,) = await to_map(driver, {"retries": 2})
    await driver.finish(released(each))
    again = await driver.claim_one()
    await driver.finish(errored(again))
    last = await driver.claim_one()
    assert (last.id, last.retry) == (each.id, 1)
    await driver.finish(expanded(last, [1]))
    assert await driver.drain() == ["each", "sum"]


async def test_a_map_step_waiting_for_its_tasks_can_be_neither_claimed_nor_finished(driver: Driver) -> None:
    (each,) = await to_map(driver)
    await driver.finish(expanded(each, [1]))
    task = await driver.claim_one()
    assert task.id != each.id
    assert await driver.claim() == []
    assert (await driver.finish(completed(each), errored(each), released(each))).lost == {each.id}
    await driver.complete(task)


async def test_a_map_in_a_run_that_is_to_stop_becomes_cancelled_tasks(driver: Driver) -> None:
    (each,) = await to_map(driver)
    await ops.cancel_run(each.run_id, now=driver.now())
    await driver.finish(expanded(each, range(3)))
    assert (await driver.statuses(each.run_id))["each"] == "CANCELLED"
    assert (await driver.run(each.run_id)).status == "CANCELLED"


async def test_maps_follow_one_another(driver: Driver) -> None:
    flow = workflow({"one": {"map": True}, "two": {"map": True}})
    created = await driver.start(flow, 2)

    def outcome(step: ClaimedStep) -> Any:
        return completed(step, [step.name]) if step.parent_id else expanded(step, range(2))

    await driver.drain(outcome)
    for run_id in created.run_ids:
        run = await driver.run(run_id)
        assert (run.status, run.output) == ("COMPLETED", {"two": [["two"], ["two"]]})


@pytest.mark.parametrize("kind", ["completed", "errored"])
async def test_what_comes_back_for_a_task_of_a_deleted_group_is_lost(driver: Driver, kind: str) -> None:
    (each,) = await to_map(driver)
    await driver.finish(expanded(each, range(3)))
    task = await driver.claim_one()
    deleted = await ops.delete_run_group(each.group_id)
    assert deleted["deleted_runsteps"] == 6
    assert (await driver.finish(completed(task) if kind == "completed" else errored(task))).lost == {task.id}
    assert await rows_of("SELECT * FROM runstepdependency") == []


async def test_many_maps_are_expanded_at_once(driver: Driver, database: type[Database]) -> None:
    steps = await to_map(driver, runs=20)
    await driver.finish(*(expanded(step, range(index)) for index, step in enumerate(steps)))
    await assert_consistent(database)
    await driver.drain(lambda task: completed(task, task.input))
    for index, step in enumerate(steps):
        assert (await driver.step(step.id)).output == list(range(index))


TOLERANT = {"tolerant": True}


async def test_items_are_inserted_some_at_a_time_and_keep_their_places(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "ITEMS_AT_ONCE", 4)
    steps = await to_map(driver, runs=3)
    lists = [list(range(n)) for n in (3, 9, 2)]
    await driver.finish(*(expanded(step, items) for step, items in zip(steps, lists, strict=True)))
    await assert_consistent()
    await driver.drain(lambda step: completed(step, step.input if step.parent_id else None))
    assert [(await driver.step(step.id)).output for step in steps] == lists


async def test_a_tolerant_map_records_a_failure_as_the_outcome_of_its_item_and_goes_on(driver: Driver) -> None:
    (each,) = await to_map(driver, TOLERANT)
    await driver.finish(expanded(each, "abc"))
    a, b, c = await driver.claim()
    finished = await driver.finish(completed(a, 1), errored(b, "no such page", permanent=True))
    assert (finished.failed, finished.cancelled, finished.ended_runs) == ({b.id}, 0, {})
    await assert_consistent()

    await driver.finish(completed(c, 3))

    row = await driver.step(each.id)
    assert (row.status, row.output) == ("COMPLETED", [1, {"error": "no such page"}, 3])
    assert (row.failed_tasks, row.status_message) == (1, "1 of its tasks failed: no such page")
    await driver.drain()
    assert (await driver.run(each.run_id)).status == "COMPLETED"
    await assert_consistent()


async def test_one_failure_too_many_fails_a_tolerant_map_and_cancels_what_waits(driver: Driver) -> None:
    (each,) = await to_map(driver, {"tolerant": True, "max_failures": 1})
    await driver.finish(expanded(each, range(10)))
    first, second, third = await driver.claim(3)
    await driver.fail(first)
    assert (await driver.step(each.id)).failed_tasks == 1
    await driver.fail(second)
    await driver.finish(released(third))
    row = await driver.step(each.id)
    assert (row.status, row.status_message) == ("FAILED", "2 of its tasks failed: boom")
    assert (await driver.run(each.run_id)).status == "FAILED"
    await assert_consistent()


async def test_a_map_that_tolerates_nothing_fails_with_its_first_task(driver: Driver) -> None:
    (each,) = await to_map(driver, {"tolerant": True, "max_failures": 0})
    await driver.finish(expanded(each, range(2)))
    first, second = await driver.claim()
    await driver.fail(first)
    await driver.complete(second)
    assert (await driver.step(each.id)).status == "FAILED"
    await assert_consistent()


async def test_all_tasks_of_a_tolerant_map_may_fail(driver: Driver) -> None:
    (each,) = await to_map(driver, TOLERANT)
    await driver.finish(expanded(each, range(3)))
    await driver.fail(*await driver.claim())
    assert (await driver.step(each.id)).output == [{"error": "boom"}] * 3
    assert await driver.drain() == ["sum"]
    await assert_consistent()


async def test_a_retry_leaves_failures_alone_that_a_map_put_up_with(driver: Driver) -> None:
    (each,) = await to_map(driver, TOLERANT)
    await driver.finish(expanded(each, range(2)))
    first, second = await driver.claim()
    await driver.finish(errored(first, permanent=True), completed(second))
    await driver.fail(await driver.claim_one())
    for hard in (False, True):
        await ops.retry_run(each.run_id, hard=hard, now=driver.now())
        await assert_consistent()
        assert (await driver.step(first.id)).status == "FAILED"
    assert await driver.drain() == ["sum"]
    assert (await driver.run(each.run_id)).status == "COMPLETED"


async def test_a_map_that_gathers_nothing_has_no_output(driver: Driver) -> None:
    (each,) = await to_map(driver, {"gather": False})
    await driver.finish(expanded(each, range(3)))
    await driver.complete(*await driver.claim(), output="x")
    row = await driver.step(each.id)
    assert (row.status, row.output, row.status_message) == ("COMPLETED", None, None)
    assert await driver.drain() == ["sum"]
