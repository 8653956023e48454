"""Retrying by hand: what ended badly is put back, what was done stays done, and every counter agrees."""

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
    workflow,
)

DIAMOND = {
    "read": {},
    "left": {"depends_on": ["read"]},
    "right": {"depends_on": ["read"]},
    "join": {"depends_on": ["left", "right"]},
}


async def test_a_failed_run_goes_on_where_it_failed(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", "c", retries=2), 1)
    run_id = created.run_ids[0]
    await driver.complete(await driver.claim_one(), output=1)
    await driver.fail(await driver.claim_one(), message="no")

    retried = await ops.retry_run(run_id, now=driver.now())
    assert (retried.reset_runs, retried.reset_steps) == (1, 2)
    await assert_consistent()
    assert await driver.statuses(run_id) == {"a": "COMPLETED", "b": "PENDING", "c": "PENDING"}
    b = (await driver.steps_of(run_id))[1]
    assert (b.retry, b.status_message, b.completed_date, b.start_date, b.worker_id) == (0, None, None, None, None)
    run = await driver.run(run_id)
    assert (run.status, run.remaining_steps, run.failed_steps, run.status_message) == ("PENDING", 2, 0, None)
    assert (run.cancel_requested_at, run.completed_date) == (None, None)
    group = await driver.group(created.group_id)
    assert (group.status, group.remaining_runs, group.failed_runs, group.completed_date) == ("PENDING", 1, 0, None)

    assert await driver.drain() == ["b", "c"]
    assert (await driver.group(created.group_id)).status == "COMPLETED"
    ends = await driver.events("group_end", "item_failed")
    assert [event.event for event in ends] == ["item_failed", "group_end", "group_end"]


async def test_only_failed_and_cancelled_runs_of_a_group_are_retried(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 4)
    good, bad, running, _ = await driver.claim()
    await driver.finish(completed(good), errored(bad))
    await driver.complete(await driver.claim_one())
    await ops.cancel_run(created.run_ids[3], now=driver.now())
    retried = await ops.retry_run_group(created.group_id, now=driver.now())
    # The fourth run ends when its step is given back, and cannot be retried before.
    assert (retried.reset_runs, retried.reset_steps) == (1, 2)
    statuses = [str((await driver.run(run_id)).status) for run_id in created.run_ids]
    assert statuses == ["COMPLETED", "PENDING", "RUNNING", "RUNNING"]
    assert (await driver.step(running.id)).lease_token == running.lease


async def test_a_group_that_goes_on_is_not_started_anew_by_the_retry_of_one_run(driver: Driver) -> None:
    created = await driver.start(linear("a"), 2)
    bad, other = await driver.claim()
    await driver.fail(bad)
    await ops.retry_run_group(created.group_id, now=driver.now())
    group = await driver.group(created.group_id)
    assert (group.status, group.remaining_runs, group.failed_runs) == ("RUNNING", 2, 0)
    await assert_consistent()
    await driver.complete(other)
    await driver.drain()
    events = [event.event for event in await driver.events("group_start", "group_end")]
    assert events == ["group_start", "group_end"]


async def test_a_cancelled_group_is_retried_and_may_grow_again(driver: Driver) -> None:
    flow = linear("a", "b")
    created = await driver.start(flow, 2)
    await ops.cancel_run_group(created.group_id, now=driver.now())
    retried = await ops.retry_run_group(created.group_id, now=driver.now())
    assert (retried.reset_runs, retried.reset_steps) == (2, 4)
    assert (await driver.group(created.group_id)).cancel_requested_at is None
    await ops.create_runs(created.group_id, flow, None, [ops.NewRun()], now=driver.now())
    assert sorted(await driver.drain()) == ["a"] * 3 + ["b"] * 3
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_a_large_group_is_retried_in_parts(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "RUNS_AT_ONCE", 3)
    created = await driver.start(linear("a", "b"), 10)
    await driver.fail(*await driver.claim())
    retried = await ops.retry_run_group(created.group_id, now=driver.now())
    assert (retried.reset_runs, retried.reset_steps) == (10, 20)
    await assert_consistent()
    await driver.drain()
    assert (await driver.group(created.group_id)).status == "COMPLETED"
    assert len(await driver.events("group_end")) == 2


async def test_branches_that_were_cancelled_wait_again_for_what_they_depend_on(driver: Driver) -> None:
    created = await driver.start(workflow(DIAMOND), 1)
    await driver.complete(await driver.claim_one())
    left, right = sorted(await driver.claim(), key=lambda step: step.name)
    await driver.fail(left)
    await driver.complete(right)
    await ops.retry_run(created.run_ids[0], now=driver.now())
    join = (await driver.steps_of(created.run_ids[0]))[3]
    assert (join.status, join.remaining_deps) == ("PENDING", 1)
    assert await driver.drain() == ["left", "join"]


async def test_a_failed_map_tries_only_the_items_that_are_not_done(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}, "after": {}}), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(4)))
    first, second = await driver.claim(2)
    await driver.finish(completed(first, "0"), errored(second, permanent=True))
    retried = await ops.retry_run(created.run_ids[0], now=driver.now())
    assert retried.reset_steps == 5, "three tasks, the map step and the one after it"
    waiting = await driver.step(step.id)
    assert (waiting.status, waiting.remaining_tasks, waiting.lease_token) == ("RUNNING", 3, None)
    await assert_consistent()
    names = await driver.drain(lambda task: completed(task, str(task.input)))
    assert names == ["m", "m", "m", "after"]
    assert (await driver.step(step.id)).output == ["0", "1", "2", "3"]


async def test_a_map_that_was_cancelled_before_it_began_is_expanded_after_the_retry(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}}), 1)
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    await ops.retry_run(created.run_ids[0], now=driver.now())
    step = await driver.claim_one()
    assert step.parent_id is None
    await driver.finish(expanded(step, [1]))
    assert await driver.drain() == ["m"]


async def test_a_failed_optional_step_is_tried_again_with_the_rest(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {"optional": True}, "b": {}, "c": {}}), 1)
    await driver.fail(await driver.claim_one())
    await driver.complete(await driver.claim_one())
    await driver.fail(await driver.claim_one())
    retried = await ops.retry_run(created.run_ids[0], now=driver.now())
    assert retried.reset_steps == 2
    await assert_consistent()
    assert sorted(await driver.drain()) == ["a", "c"]
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"


async def test_a_step_that_waited_for_an_optional_one_waits_again(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {"optional": True}, "b": {}}), 1)
    await driver.fail(await driver.claim_one())
    await driver.fail(await driver.claim_one())
    await ops.retry_run(created.run_ids[0], now=driver.now())
    assert (await driver.steps_of(created.run_ids[0]))[1].remaining_deps == 1
    assert await driver.drain() == ["a", "b"]


async def test_a_map_that_went_on_without_an_optional_step_is_retried_beside_it(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {"optional": True}, "m": {"map": True}, "after": {}}), 1)
    await driver.fail(await driver.claim_one())
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(2)))
    await driver.fail(await driver.claim_one())
    await ops.retry_run(created.run_ids[0], now=driver.now())
    await assert_consistent()
    assert sorted(await driver.drain()) == ["a", "after", "m", "m"]
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"


async def test_an_optional_map_that_failed_is_tried_again_with_the_rest(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True, "optional": True}, "after": {}}), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(3)))
    await driver.fail(await driver.claim_one())
    await driver.fail(await driver.claim_one())
    assert (await driver.run(created.run_ids[0])).status == "FAILED"
    await ops.retry_run(created.run_ids[0], now=driver.now())
    await assert_consistent()
    assert await driver.drain() == ["m", "m", "m", "after"]


async def test_a_hard_retry_puts_back_all_that_is_not_completed(driver: Driver) -> None:
    created = await driver.start(workflow({**DIAMOND, "left": {"depends_on": ["read"], "retries": 4}}), 2)
    await driver.complete(*await driver.claim())
    stuck, tried, *others = sorted(await driver.claim(), key=lambda step: step.name, reverse=True)
    assert (stuck.name, tried.name) == ("right", "right")
    left, other = others
    await driver.finish(errored(left, delay=timedelta(hours=1)), errored(other, permanent=True))

    retried = await ops.retry_run_group(created.group_id, hard=True, now=driver.now())
    assert (retried.reset_runs, retried.reset_steps) == (2, 6)
    await assert_consistent()
    for run_id in created.run_ids:
        assert set((await driver.statuses(run_id)).values()) == {"COMPLETED", "PENDING"}
    assert (await driver.step(left.id)).retry == 0
    assert (await driver.step(left.id)).available_at is None
    late = await driver.finish(completed(stuck), released(tried))
    assert late.lost == {stuck.id, tried.id}, "what ran has lost its lease"
    assert sorted(await driver.drain()) == ["join", "join", "left", "left", "right", "right"]
    assert (await driver.group(created.group_id)).status == "COMPLETED"
    assert len(await driver.events("group_end")) == 1


async def test_a_hard_retry_of_a_map_under_way_keeps_the_tasks_that_are_done(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}, "after": {}}), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(4)))
    first, second = await driver.claim(2)
    await driver.complete(first)
    await ops.retry_run(created.run_ids[0], hard=True, now=driver.now())
    await assert_consistent()
    assert (await driver.finish(completed(second))).lost == {second.id}
    assert await driver.drain() == ["m", "m", "m", "after"]


async def test_a_hard_retry_of_a_completed_run_tries_its_failed_optional_steps_again(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {"optional": True}, "b": {}}), 1)
    await driver.fail(await driver.claim_one())
    await driver.drain()
    assert (await ops.retry_run(created.run_ids[0], now=driver.now())).reset_runs == 0
    assert (await ops.retry_run(created.run_ids[0], hard=True, now=driver.now())).reset_steps == 1
    await assert_consistent()
    assert await driver.drain() == ["a"]
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"


async def test_a_hard_retry_takes_no_lock_from_steps_that_share_it(driver: Driver) -> None:
    """Steps of many runs are executed together under one lock: the others still need it."""
    flow = linear("store")
    first, second = [await driver.start(flow, 1, resource_keys={"store": "db"}) for _ in range(2)]
    mine, other = await driver.claim()
    assert mine.lease == other.lease
    await ops.retry_run(first.run_ids[0], hard=True, now=driver.now())
    assert set(await driver.locks()) == {"db"}
    assert await driver.claim() == [], "the key is held"
    await driver.complete(other)
    assert await driver.locks() == {}
    assert await driver.drain() == ["store"]
    assert (await driver.group(second.group_id)).status == "COMPLETED"


async def test_retrying_what_did_not_fail_does_nothing(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    for hard in (False, True):
        await driver.drain()
        retried = await ops.retry_run_group(created.group_id, hard=hard, now=driver.now())
        assert (retried.reset_runs, retried.reset_steps) == (0, 0)
    assert (await driver.group(created.group_id)).status == "COMPLETED"
    assert len(await driver.events("group_end")) == 1


async def test_what_does_not_exist_cannot_be_retried(driver: Driver) -> None:
    with pytest.raises(NotFoundError, match="workflow run 7 does not exist"):
        await ops.retry_run(7)
    with pytest.raises(NotFoundError, match="run group 7 does not exist"):
        await ops.retry_run_group(7)


async def test_a_run_may_fail_and_be_retried_again_and_again(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    for _ in range(3):
        await driver.fail(await driver.claim_one())
        await ops.retry_run_group(created.group_id, now=driver.now())
        await assert_consistent()
    await driver.drain()
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"
    assert len(await driver.events("group_end")) == 4
