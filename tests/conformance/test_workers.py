"""Workers: their check-ins, and what becomes of the work of one that is gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from sqlmodel import col, select

from soliplex.ingester.lib.models import Database, RunStatus, WorkerCheckin
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.abandoned import Abandoned
from soliplex.ingester.lib.wf.operations.claim import OF_A_PROCESS
from soliplex.ingester.lib.wf.operations.workers import DEATHS, FORGIVEN_DEATHS, MOST_DEATHS
from tests.support.engine import (
    START,
    Driver,
    assert_consistent,
    completed,
    errored,
    execute,
    expanded,
    linear,
    released,
    rows_of,
    workflow,
)

TIMEOUT = timedelta(minutes=10)


async def checkins() -> dict[str, WorkerCheckin]:
    async with Database.session(read_only=True) as session:
        return {row.id: row for row in (await session.exec(select(WorkerCheckin))).all()}


async def silent(driver: Driver, *names: str) -> None:
    """Workers that last checked in longer ago than the timeout."""
    for name in names:
        await ops.check_in(name, now=driver.moment - TIMEOUT - timedelta(seconds=1))


async def test_a_worker_says_that_it_lives_and_that_it_leaves(driver: Driver) -> None:
    await ops.check_in("one", hostname="here", pid=7, meta={"pools": {"parse": 3}}, now=START)
    await ops.check_in("one", hostname="here", pid=7, meta={"pools": {}}, now=START + TIMEOUT)
    await ops.check_in("two", now=START)
    row = (await checkins())["one"]
    assert (row.first_checkin, row.last_checkin) == (START, START + TIMEOUT)
    assert (row.hostname, row.pid, row.worker_meta) == ("here", 7, {"pools": {}})
    assert await ops.other_workers("one") == ["two"]
    await ops.check_out("one")
    await ops.check_out("one")
    assert set(await checkins()) == {"two"}


async def test_a_silent_workers_steps_are_given_back(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", retries=2), 3)
    await silent(driver, "dead")
    await ops.check_in("alive", now=driver.moment)
    lost = await driver.claim(2, worker_id="dead")
    kept = await driver.claim_one(worker_id="alive")
    reaped = await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (reaped.workers, reaped.steps) == (("dead",), 2)
    for step in lost:
        stored = await driver.step(step.id)
        assert (stored.status, stored.retry, stored.worker_id, stored.lease_token) == ("PENDING", 0, None, None)
    assert (await driver.step(kept.id)).lease_token == kept.lease
    assert set(await checkins()) == {"alive"}
    await driver.complete(kept)
    await driver.drain()
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_a_worker_that_checks_in_in_time_is_left_alone(driver: Driver) -> None:
    await driver.start(linear("a"), 1)
    await ops.check_in("alive", now=driver.moment - TIMEOUT + timedelta(seconds=1))
    step = await driver.claim_one(worker_id="alive")
    assert (await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())).workers == ()
    assert (await ops.reap_dead_workers("me", TIMEOUT.total_seconds(), now=driver.now())).workers == ()
    await driver.complete(step)


async def test_nobody_reaps_himself(driver: Driver) -> None:
    """Neither when his check-in is late, nor when another has removed it."""
    await driver.start(linear("a"), 1)
    await silent(driver, "me")
    step = await driver.claim_one(worker_id="me")
    assert (await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())).workers == ()
    assert (await ops.reap_workers("me", ["me"], now=driver.now())).workers == ()
    await ops.check_out("me")
    assert (await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())).workers == ()
    assert (await ops.reap_workers("me", [], now=driver.now())).workers == ()
    assert (await driver.complete(step)).completed == {step.id}


async def test_what_a_worker_claimed_that_was_reaped_and_never_checked_in_again_is_given_back(driver: Driver) -> None:
    await driver.start(linear("a"), 1)
    step = await driver.claim_one(worker_id="ghost")
    reaped = await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (reaped.workers, reaped.steps) == (("ghost",), 1)
    assert (await driver.complete(step)).lost == {step.id}


async def test_events_held_by_a_worker_that_has_left_are_given_back(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, events={"item_end": ["tell"]}), 1)
    await driver.drain()
    assert len(await ops.claim_events("ghost", 10, now=driver.now())) == 1
    reaped = await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (reaped.workers, reaped.events) == (("ghost",), 1)
    assert len(await ops.claim_events("me", 10, now=driver.now())) == 1


async def test_named_workers_are_reaped_whenever_they_checked_in(driver: Driver) -> None:
    await driver.start(linear("a"), 2)
    for name in ("dead", "alive"):
        await ops.check_in(name, now=driver.now())
        await driver.claim_one(worker_id=name)
    reaped = await ops.reap_workers("me", ["dead", "unknown"], now=driver.now())
    assert (reaped.workers, reaped.steps) == (("dead",), 1)
    assert set(await checkins()) == {"alive"}


async def test_a_late_result_of_a_reaped_worker_changes_nothing(driver: Driver) -> None:
    created = await driver.start(linear("store"), 1, resource_keys={"store": "db"})
    await silent(driver, "dead")
    late = await driver.claim_one(worker_id="dead")
    await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    again = await driver.claim_one(worker_id="me")
    before = await rows_of("SELECT * FROM runstep"), await rows_of("SELECT * FROM resourcelock")
    for result in (completed(late), errored(late), expanded(late, [1])):
        assert (await driver.finish(result)).lost == {late.id}
    assert (await rows_of("SELECT * FROM runstep"), await rows_of("SELECT * FROM resourcelock")) == before
    await driver.complete(again)
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"


async def test_a_dead_workers_locks_are_freed_with_its_steps(driver: Driver) -> None:
    flow = linear("store")
    for key in "ab":
        await driver.start(flow, 2, resource_keys={"store": key})
    await silent(driver, "dead")
    await ops.check_in("alive", now=driver.moment)
    await driver.claim(worker_id="dead")
    await driver.claim(worker_id="alive")
    reaped = await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (reaped.steps, reaped.locks) == (2, 1)
    assert set(await driver.locks()) == {"b"}
    assert {step.resource_key for step in await driver.claim(worker_id="me")} == {"a"}


async def test_a_dead_workers_steps_of_runs_that_are_to_stop_are_cancelled(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    await silent(driver, "dead")
    await driver.claim_one(worker_id="dead")
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (await driver.run(created.run_ids[0])).status == "CANCELLED"
    assert await driver.claim() == []


async def test_a_dead_workers_events_are_delivered_by_another(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, events={"item_end": ["tell"]}), 1)
    await driver.drain()
    await silent(driver, "dead")
    (event,) = await ops.claim_events("dead", 10, now=driver.now())
    assert await ops.claim_events("me", 10, now=driver.now()) == []
    reaped = await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (reaped.steps, reaped.events) == (0, 1)
    (again,) = await ops.claim_events("me", 10, now=driver.now())
    assert (again.id, again.retry) == (event.id, 0)
    assert not await ops.complete_event(event, now=driver.now())
    assert await ops.complete_event(again, now=driver.now())


async def test_a_map_step_that_waits_for_its_tasks_is_not_given_back(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True}}), 1)
    await silent(driver, "dead")
    step = await driver.claim_one(worker_id="dead")
    await driver.finish(expanded(step, range(2)))
    reaped = await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    assert (reaped.workers, reaped.steps) == (("dead",), 0)
    assert (await driver.step(step.id)).status == "RUNNING"
    assert await driver.drain() == ["m", "m"]


async def test_of_many_who_reap_at_once_one_does(database: type[Database]) -> None:
    driver = Driver()
    await driver.start(linear("store"), 4, resource_keys={"store": "db"})
    await silent(driver, "dead")
    await driver.claim(worker_id="dead")
    moment = driver.now()
    reaped = await asyncio.gather(*(ops.reap_dead_workers(f"peer-{n}", TIMEOUT, now=moment) for n in range(5)))
    assert sorted(each.steps for each in reaped) == [0, 0, 0, 0, 4]
    assert sum(each.locks for each in reaped) == 1
    assert [each.workers for each in reaped].count(("dead",)) == 1
    await assert_consistent()


async def test_a_reaped_worker_that_lives_can_go_on(driver: Driver) -> None:
    await driver.start(linear("a"), 1)
    await silent(driver, "late")
    await driver.claim_one(worker_id="late")
    await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())
    await ops.check_in("late", now=driver.now())
    step = await driver.claim_one(worker_id="late")
    assert (await ops.reap_dead_workers("me", TIMEOUT, now=driver.now())).workers == ()
    await driver.complete(step)


async def test_the_steps_to_stop_are_the_workers_own_in_runs_that_stop(driver: Driver) -> None:
    created = await driver.start(workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}), 2)
    mine, other = await driver.claim(2, worker_id="me"), await driver.claim(2, worker_id="you")
    assert await ops.steps_to_stop("me") == set()
    await execute("UPDATE workflowrun SET cancel_requested_at = created_date WHERE id = :id", id=created.run_ids[0])
    expected = {step.id for step in mine if step.run_id == created.run_ids[0]}
    assert expected
    assert await ops.steps_to_stop("me") == expected
    await driver.finish(*map(completed, mine + other))


async def test_steps_beside_one_that_failed_are_to_stop(driver: Driver) -> None:
    await driver.start(workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}), 1)
    x, y = await driver.claim(worker_id="me")
    await driver.fail(x)
    assert await ops.steps_to_stop("me") == {y.id}


async def a_worker_dies_of(driver: Driver, name: str) -> ops.Reaped:
    """A worker claims the step of this name, and dies."""
    await ops.check_in("victim", now=driver.now())
    assert [step.name for step in await driver.claim(worker_id="victim")] == [name]
    return await ops.reap_workers("me", ["victim"], now=driver.now())


async def test_the_first_deaths_of_its_workers_are_held_against_no_step(driver: Driver) -> None:
    await driver.start(linear("a", "b"), 1)
    for deaths in range(1, FORGIVEN_DEATHS + 1):
        assert (await a_worker_dies_of(driver, "a")).steps == 1
        step = await driver.claim_one(worker_id="living")
        assert (step.retry, step.run_step().status_meta) == (0, {DEATHS: deaths})
        await driver.finish(released(step))


async def test_a_step_that_workers_keep_dying_of_waits_longer_each_time_and_fails_in_the_end(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    for _ in range(FORGIVEN_DEATHS):
        await a_worker_dies_of(driver, "a")
    pauses: list[timedelta] = []
    for deaths in range(FORGIVEN_DEATHS + 1, MOST_DEATHS):
        assert (await a_worker_dies_of(driver, "a")).steps == 1
        claim = await ops.claim_steps("me", ops.Pool(), 5, now=driver.now())
        assert claim.steps == []
        assert claim.next_due is not None
        pauses.append(claim.next_due - driver.moment)
        waiting = (await driver.steps_of(created.run_ids[0]))[0]
        assert waiting.status == "PENDING"
        assert (waiting.status_message or "").startswith(f"{deaths} workers died while they held this step")
        driver.pass_time(pauses[-1])
    assert all(later >= earlier for earlier, later in pairwise(pauses))

    reaped = await a_worker_dies_of(driver, "a")
    assert (reaped.steps, reaped.failed) == (0, 1)
    step, after = await driver.steps_of(created.run_ids[0])
    assert (step.status, after.status) == ("FAILED", "CANCELLED")
    assert "10 workers died while they held this step; it may be what they died of" in (step.status_message or "")
    assert (await driver.group(created.group_id)).status == "FAILED"

    await ops.retry_run_group(created.group_id, now=driver.now())
    assert (await a_worker_dies_of(driver, "a")).steps == 1
    await driver.drain()
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_what_was_held_along_with_a_deadly_step_comes_apart_from_it(driver: Driver) -> None:
    await driver.start(linear("a"), 20)
    for _ in range(FORGIVEN_DEATHS + 1):
        await ops.check_in("victim", now=driver.now())
        assert len(await driver.claim(worker_id="victim")) == 20
        await ops.reap_workers("me", ["victim"], now=driver.now())
    assert len(set(await rows_of("SELECT available_at FROM runstep"))) > 1


@pytest.mark.parametrize("seconds", [-600, 600])
async def test_silent_workers_are_found_by_a_naive_moment_which_is_local_time(driver: Driver, seconds: int) -> None:
    await ops.check_in("old", hostname="here", pid=1, meta={}, now=datetime.now(UTC))
    cutoff = datetime.now() + timedelta(seconds=seconds)  # noqa: DTZ005  as a user writes it
    async with Database.session(read_only=True) as session:
        found = (await session.exec(select(WorkerCheckin).where(col(WorkerCheckin.last_checkin) < cutoff))).all()
    assert [each.id for each in found] == (["old"] if seconds > 0 else [])


async def test_steps_of_a_process_that_is_gone_fail_after_a_while(driver: Driver) -> None:
    gone, here = f"{OF_A_PROCESS}gone", f"{OF_A_PROCESS}here"
    created = await driver.start(workflow({"a": {"type": gone}}), 2)
    mine = await driver.start(workflow({"a": {"type": here}}, workflow_id="mine"))
    await ops.check_in("worker", meta={"process": here}, now=driver.now())
    abandoned = Abandoned(timedelta(hours=1), driver.now)
    assert await abandoned.fail_those_due() == 0
    driver.pass_time(timedelta(hours=1))
    assert await abandoned.fail_those_due() == 2
    failed = await driver.run(created.run_ids[0])
    assert failed.status == RunStatus.FAILED
    assert "the process that had the function of this step is gone" in (failed.status_message or "")
    assert (await driver.run(mine.run_ids[0])).status == RunStatus.PENDING
    await assert_consistent()
