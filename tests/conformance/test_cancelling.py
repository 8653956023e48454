"""Cancelling: what waits ends at once, what runs ends when its worker lets go of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.operations import groups as groups_module
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    linear,
    released,
    scalar,
    workflow,
)

BRANCHES = {"x": {"depends_on": [], "retries": 3}, "y": {"depends_on": []}, "z": {"depends_on": ["x", "y"]}}


async def test_a_run_that_has_not_begun_is_cancelled_at_once(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 2)
    cancelled = await ops.cancel_run(created.run_ids[0], now=driver.now())
    assert (cancelled.runs, cancelled.steps) == (1, 2)
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.completed_date, run.cancel_requested_at) == ("CANCELLED", driver.moment, driver.moment)
    assert set((await driver.statuses(created.run_ids[0])).values()) == {"CANCELLED"}
    assert (await driver.run(created.run_ids[1])).status == "PENDING"
    assert (await driver.group(created.group_id)).cancelled_runs == 1
    assert await driver.drain() == ["a", "b"]


async def test_what_waits_is_cancelled_at_once_and_what_runs_when_it_is_given_back(driver: Driver) -> None:
    created = await driver.start(workflow(BRANCHES), 1)
    x, y = sorted(await driver.claim(), key=lambda step: step.name)
    await driver.finish(errored(x, delay=timedelta(hours=1)))
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    assert await driver.statuses(created.run_ids[0]) == {"x": "CANCELLED", "y": "RUNNING", "z": "CANCELLED"}
    assert (await driver.run(created.run_ids[0])).status == "RUNNING"
    assert await ops.steps_to_stop(driver.worker_id) == {y.id}

    finished = await driver.finish(released(y))
    assert finished.ended_runs == {created.run_ids[0]: "CANCELLED"}
    assert (await driver.statuses(created.run_ids[0]))["y"] == "CANCELLED"
    assert await ops.steps_to_stop(driver.worker_id) == set()
    assert (await driver.group(created.group_id)).status == "CANCELLED"


async def test_an_error_that_would_be_tried_again_ends_cancelled(driver: Driver) -> None:
    created = await driver.start(linear("a", retries=3), 1)
    step = await driver.claim_one()
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    await driver.finish(errored(step, delay=timedelta(hours=1)))
    stored = await driver.step(step.id)
    assert (stored.status, stored.retry, stored.available_at) == ("CANCELLED", 1, None)
    assert (await driver.run(created.run_ids[0])).status == "CANCELLED"


async def test_a_last_attempt_that_fails_after_the_cancellation_is_a_failure(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    step = await driver.claim_one()
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    await driver.fail(step)
    assert await driver.statuses(created.run_ids[0]) == {"a": "FAILED", "b": "CANCELLED"}
    assert (await driver.run(created.run_ids[0])).status == "FAILED"


async def test_a_result_that_comes_after_the_cancellation_is_kept_but_the_run_is_cancelled(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    step = await driver.claim_one()
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    await driver.complete(step, output="in time")
    stored = await driver.step(step.id)
    assert (stored.status, stored.output) == ("COMPLETED", "in time")
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.output) == ("CANCELLED", None)


async def test_a_map_is_cancelled_with_its_tasks(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}, "after": {}}), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(4)))
    first, second = await driver.claim(2)
    await driver.complete(first)
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    await assert_consistent()
    assert (await driver.step(step.id)).remaining_tasks == 1
    assert await ops.steps_to_stop(driver.worker_id) == {second.id}, "not the map step, which nobody executes"
    await driver.finish(released(second))
    assert [str(task.status) for task in await driver.tasks_of(step.id)] == ["COMPLETED"] + ["CANCELLED"] * 3
    assert await driver.statuses(created.run_ids[0]) == {"m": "CANCELLED", "after": "CANCELLED"}


async def test_a_group_is_cancelled_with_all_its_runs(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 4)
    done, running, *_ = batch = await driver.claim(2)
    await driver.complete(done)
    await driver.complete(await driver.claim_one())
    cancelled = await ops.cancel_run_group(created.group_id, now=driver.now())
    assert (cancelled.runs, cancelled.steps) == (3, 5)
    assert len(batch) == 2
    group = await driver.group(created.group_id)
    assert (group.status, group.cancelled_runs, group.remaining_runs) == ("RUNNING", 2, 1)
    assert group.cancel_requested_at == driver.moment
    await driver.finish(released(running))
    group = await driver.group(created.group_id)
    assert (group.status, group.cancelled_runs) == ("CANCELLED", 3)
    assert (await driver.run(done.run_id)).status == "COMPLETED"


async def test_a_large_group_is_cancelled_in_parts(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "RUNS_AT_ONCE", 3)
    created = await driver.start(linear("a", "b"), 10)
    cancelled = await ops.cancel_run_group(created.group_id, now=driver.now())
    assert (cancelled.runs, cancelled.steps) == (10, 20)
    assert (await driver.group(created.group_id)).status == "CANCELLED"
    assert len(await driver.events("group_end")) == 1


async def test_cancelling_twice_changes_nothing(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    step = await driver.claim_one()
    await ops.cancel_run_group(created.group_id, now=driver.now())
    first = await driver.run(created.run_ids[0])
    again = await ops.cancel_run_group(created.group_id, now=driver.now())
    assert (again.runs, again.steps) == (1, 0)
    assert (await driver.run(created.run_ids[0])).cancel_requested_at == first.cancel_requested_at
    await driver.finish(released(step))
    assert (await ops.cancel_run(created.run_ids[0], now=driver.now())).runs == 0
    assert len(await driver.events("group_end")) == 1


async def test_what_has_ended_stays_as_it_ended(driver: Driver) -> None:
    created = await driver.start(linear("a"), 2)
    good, bad = await driver.claim()
    await driver.finish(completed(good), errored(bad))
    cancelled = await ops.cancel_run_group(created.group_id, now=driver.now())
    assert (cancelled.runs, cancelled.steps) == (0, 0)
    assert [(await driver.run(run_id)).status for run_id in created.run_ids] == ["COMPLETED", "FAILED"]


async def test_what_does_not_exist_cannot_be_cancelled(driver: Driver) -> None:
    with pytest.raises(NotFoundError, match="workflow run 7 does not exist"):
        await ops.cancel_run(7)
    with pytest.raises(NotFoundError, match="run group 7 does not exist"):
        await ops.cancel_run_group(7)


async def test_a_cancellation_that_stops_half_way_is_finished_by_the_workers(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await driver.start(linear("a", "b"), 3)

    def stumble(*_: object) -> None:
        raise RuntimeError("the machine stumbles after the wish is recorded")

    with monkeypatch.context() as patch:
        patch.setattr(groups_module, "_cancel_script", stumble)
        with pytest.raises(RuntimeError, match="stumbles"):
            await ops.cancel_run_group(created.group_id, now=driver.now())
    assert await driver.drain() == ["a", "a", "a"], "claimed and given back, not executed"
    assert (await driver.group(created.group_id)).status == "CANCELLED"


async def test_a_run_that_is_cancelled_at_once_has_ended_whatever_its_worker_does(driver: Driver) -> None:
    created = await driver.start(workflow(BRANCHES), 1, resource_keys={"y": "shelf"})
    (run_id,) = created.run_ids
    x, y = sorted([*await driver.claim(), *await driver.claim()], key=lambda step: step.name)
    assert await ops.cancel_run_at_once(run_id, now=driver.now())
    assert (await driver.run(run_id)).status == "CANCELLED"
    assert set((await driver.statuses(run_id)).values()) == {"CANCELLED"}
    assert (await driver.group(created.group_id)).status == "CANCELLED"
    assert await scalar("SELECT count(*) FROM resourcelock") == 0
    assert (await driver.finish(completed(x), completed(y))).lost == {x.id, y.id}
    assert not await ops.cancel_run_at_once(run_id, now=driver.now())
    assert not await ops.cancel_run_at_once(run_id + 1, now=driver.now())
    await assert_consistent()
