"""Runs with a key, a beginning and a deadline."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import RunStatus
from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import Driver, assert_consistent, completed, expanded, linear, parked, scalar, workflow

HOUR = timedelta(hours=1)


async def test_the_same_key_again_gives_the_same_run(driver: Driver) -> None:
    flow, other = linear("a"), workflow({"a": {}}, workflow_id="other")
    first = await ops.start_run(flow, run=ops.NewRun(key="k", input=1), now=driver.now())
    again = await ops.start_run(flow, run=ops.NewRun(key="k", input=2), now=driver.now())
    elsewhere = await ops.start_run(other, run=ops.NewRun(key="k"), now=driver.now())

    assert (again.run_id, again.group_id, first.is_new, again.is_new) == (first.run_id, first.group_id, True, False)
    assert elsewhere.run_id != first.run_id
    assert (await driver.run(first.run_id)).input == 1
    assert await scalar("SELECT count(*) FROM rungroup") == 2


async def test_a_key_that_many_start_at_once_starts_one_run(driver: Driver) -> None:
    flow = linear("a")
    started = await asyncio.gather(*(ops.start_run(flow, run=ops.NewRun(key="k"), now=driver.now()) for _ in range(10)))
    assert len({run.run_id for run in started}) == 1
    assert sum(run.is_new for run in started) == 1
    assert await scalar("SELECT count(*) FROM workflowrun") == 1


async def test_no_step_of_a_run_begins_before_its_time(driver: Driver) -> None:
    flow = linear("a", "b")
    await ops.start_run(flow, start_at=driver.moment + HOUR, now=driver.now())
    assert await driver.claim() == []
    driver.pass_time(HOUR)
    assert await driver.drain() == ["a", "b"]
    await assert_consistent()


async def test_a_run_that_has_not_ended_at_its_deadline_fails_with_all_that_waits_or_runs(driver: Driver) -> None:
    flow = workflow({"a": {"depends_on": []}, "b": {"depends_on": []}, "c": {"depends_on": ["a", "b"]}})
    run = await ops.start_run(flow, deadline=driver.moment + HOUR, now=driver.now())
    a, b = await driver.claim(2)
    await driver.finish(parked(a, awaits="nobody comes"))
    assert await ops.end_overdue_runs(now=driver.now()) is None
    driver.pass_time(HOUR)

    finished = await ops.end_overdue_runs(now=driver.now())

    assert finished is not None
    assert finished.ended_runs == {run.run_id: "FAILED"}
    row = await driver.run(run.run_id)
    assert (row.status, row.status_message) == (RunStatus.FAILED, "the deadline of the run has passed")
    assert set((await driver.statuses(run.run_id)).values()) == {"CANCELLED"}
    assert (await driver.group(run.group_id)).status == RunStatus.FAILED
    # The worker may have been stopped, and goes on now: what it has made of the step is dropped.
    assert (await driver.finish(completed(b))).lost == {b.id}
    assert await ops.end_overdue_runs(now=driver.now()) is None
    await assert_consistent()


async def test_a_map_under_way_at_the_deadline_ends_too(driver: Driver) -> None:
    flow = workflow({"m": {"map": True}})
    run = await ops.start_run(flow, run=ops.NewRun(input=[1, 2, 3]), deadline=driver.moment + HOUR, now=driver.now())
    await driver.finish(expanded(await driver.claim_one(), [1, 2, 3]))
    one, _ = await driver.claim(2)
    await driver.finish(completed(one))
    driver.pass_time(HOUR)
    await ops.end_overdue_runs(now=driver.now())
    assert (await driver.run(run.run_id)).status == RunStatus.FAILED
    await assert_consistent()


async def test_the_lock_of_a_step_that_ran_at_the_deadline_is_free(driver: Driver) -> None:
    flow = linear("store")
    await ops.start_run(flow, deadline=driver.moment + HOUR, resource_keys={"store": "db"}, now=driver.now())
    await driver.claim_one()
    driver.pass_time(HOUR)
    await ops.end_overdue_runs(now=driver.now())
    assert await driver.locks() == {}
    await assert_consistent()


async def test_a_run_that_was_cancelled_before_its_deadline_is_cancelled(driver: Driver) -> None:
    run = await ops.start_run(linear("a"), deadline=driver.moment + HOUR, now=driver.now())
    await driver.claim_one()
    await ops.cancel_run(run.run_id, now=driver.now())
    driver.pass_time(HOUR)
    await ops.end_overdue_runs(now=driver.now())
    assert (await driver.run(run.run_id)).status == RunStatus.CANCELLED
    await assert_consistent()


async def test_a_run_that_ends_in_time_is_not_touched(driver: Driver) -> None:
    run = await ops.start_run(linear("a"), deadline=driver.moment + HOUR, now=driver.now())
    await driver.drain()
    driver.pass_time(HOUR)
    assert await ops.end_overdue_runs(now=driver.now()) is None
    assert (await driver.run(run.run_id)).status == RunStatus.COMPLETED


async def test_a_retry_after_the_deadline_has_none(driver: Driver) -> None:
    run = await ops.start_run(linear("a"), deadline=driver.moment + HOUR, now=driver.now())
    driver.pass_time(HOUR)
    await ops.end_overdue_runs(now=driver.now())
    await ops.retry_run(run.run_id, now=driver.now())
    assert await ops.end_overdue_runs(now=driver.now()) is None
    await driver.drain()
    assert (await driver.run(run.run_id)).status == RunStatus.COMPLETED
    await assert_consistent()


async def test_times_that_cannot_be_are_refused_by_name(driver: Driver) -> None:
    flow, now = linear("a"), driver.now()
    with pytest.raises(InvalidInputError, match=r"deadline: .* before the run can begin"):
        await ops.start_run(flow, deadline=now, now=now)
    with pytest.raises(InvalidInputError, match=r"deadline: .* before the run can begin"):
        await ops.start_run(flow, start_at=now + 2 * HOUR, deadline=now + HOUR, now=now)
    with pytest.raises(InvalidInputError, match=r"start_at: .* without a time zone"):
        await ops.start_run(flow, start_at=datetime(2031, 1, 1), now=now)  # noqa: DTZ001  that is what is refused
    with pytest.raises(InvalidInputError, match="key: must not be empty"):
        await ops.start_run(flow, run=ops.NewRun(key=" "), now=now)
    assert await scalar("SELECT count(*) FROM workflowrun") == 0
