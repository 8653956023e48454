"""Deleting groups in small transactions, and pruning what is old: profiles stay, everything else goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.operations import pruning
from soliplex.ingester.lib.wf.views.profiles import step_profiles
from tests.support.engine import Driver, completed, errored, expanded, linear, parked, rows_of, scalar, workflow

DAY = timedelta(days=1)
TABLES = ("rungroup", "workflowrun", "runstep", "runstepdependency", "stepattempt", "lifecyclehistory", "resourcelock")


async def rows_left() -> dict[str, int]:
    return {table: await scalar(f"SELECT count(*) FROM {table}") for table in TABLES}


async def ended_group(driver: Driver, runs: int = 2, *, workflow_id: str = "flow") -> int:
    created = await driver.start(workflow({"a": {}, "b": {}}, workflow_id=workflow_id), runs)
    await driver.drain()
    return created.group_id


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "RUNS_AT_ONCE", 3)
    monkeypatch.setattr(pruning, "STEPS_AT_ONCE", 4)
    monkeypatch.setattr(pruning, "GROUPS_AT_ONCE", 2)


async def transactions_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    count = 0
    transact = Database.transact

    async def counting[R](script: Script[R]) -> R:
        nonlocal count
        count += 1
        return await transact(script)

    monkeypatch.setattr(Database, "transact", counting)
    return lambda: count


@pytest.mark.usefixtures("small_pieces")
async def test_a_large_group_is_deleted_in_many_small_transactions(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await driver.start(
        workflow({"m": {"map": True, "retries": 3}, "z": {}}), [ops.NewRun(input=list(range(9)))]
    )
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(9)))
    await driver.finish(errored(await driver.claim_one(), permanent=False))
    count = await transactions_of(monkeypatch)
    deleted = await ops.delete_run_group(created.group_id)
    assert deleted == {
        "deleted_runsteps": 11,
        "deleted_lifecyclehistory": 1,
        "deleted_workflowruns": 1,
        "deleted_rungroups": 1,
        "total_deleted": 14,
    }
    assert count() >= 5
    assert set((await rows_left()).values()) == {0}


@pytest.mark.usefixtures("small_pieces")
async def test_a_deletion_that_was_cut_short_is_seen_and_finished_by_others(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await driver.start(linear("a", "b"), 8)
    delete, pieces = pruning.delete_runs, 0

    def die_in_the_second(*arguments: object) -> object:
        nonlocal pieces
        pieces += 1
        if pieces == 2:
            raise SystemExit
        return delete(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(pruning, "delete_runs", die_in_the_second)
    with pytest.raises(SystemExit):
        await ops.delete_run_group(created.group_id, now=driver.now())
    group = await driver.group(created.group_id)
    assert (group.status_message, group.total_runs, group.completed_date) == ("is being deleted", 6, None)
    with pytest.raises(ConflictError, match="being deleted"):
        await ops.retry_run_group(created.group_id, now=driver.now())
    with pytest.raises(ConflictError, match="being deleted"):
        await ops.retry_run(created.run_ids[-1], hard=True, now=driver.now())
    with pytest.raises(ConflictError, match="being deleted"):
        await ops.create_runs(created.group_id, linear("a"), None, [ops.NewRun()], now=driver.now())
    assert (await ops.resume_deletions(now=driver.now())).groups == 0, "it may still be under way"
    driver.pass_time(pruning.FORGOTTEN_AFTER)
    done = await ops.resume_deletions(now=driver.now())
    assert (done.groups, done.runs) == (1, 6)
    assert set((await rows_left()).values()) == {0}


async def test_results_of_a_group_that_was_deleted_are_dropped(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1, resource_keys={"a": "shelf"})
    step = await driver.claim_one()
    await ops.delete_run_group(created.group_id)
    assert (await driver.complete(step)).lost == {step.id}
    assert set((await rows_left()).values()) == {0}


async def test_a_group_that_is_not_there_cannot_be_deleted(driver: Driver) -> None:
    with pytest.raises(NotFoundError, match="run group"):
        await ops.delete_run_group(7)


@pytest.mark.usefixtures("small_pieces")
async def test_what_is_old_enough_goes_and_all_else_stays(driver: Driver) -> None:
    old = [await ended_group(driver) for _ in range(5)]
    driver.pass_time(10 * DAY)
    young = await ended_group(driver)
    under_way = (await driver.start(linear("a"), 1)).group_id
    retention = ops.Retention(ended=5 * DAY)
    found = [group.id async for group in ops.groups_to_prune(retention, now=driver.now())]
    assert found == old
    done = await ops.prune_history(retention, now=driver.now())
    assert (done.groups, done.runs, done.steps) == (5, 10, 20)
    assert await rows_of("SELECT id FROM rungroup ORDER BY id") == [(young,), (under_way,)]
    await driver.drain()


async def test_a_group_made_by_a_clock_that_was_ahead_keeps_no_younger_one(driver: Driver) -> None:
    begun, driver.moment = driver.moment, driver.moment + 400 * DAY
    ahead = await ended_group(driver)
    driver.moment = begun
    await ended_group(driver)
    driver.pass_time(2 * DAY)
    assert (await ops.prune_history(ops.Retention(ended=DAY), now=driver.now())).groups == 1
    assert await rows_of("SELECT id FROM rungroup") == [(ahead,)]


async def test_groups_that_failed_are_kept_unless_asked_for(driver: Driver) -> None:
    await driver.start(linear("a"))
    await driver.fail(await driver.claim_one())
    driver.pass_time(100 * DAY)
    assert (await ops.prune_history(ops.Retention(ended=DAY), now=driver.now())).groups == 0
    assert (await ops.prune_history(ops.Retention(failed=DAY), now=driver.now())).groups == 1


async def test_workflows_may_have_days_of_their_own(driver: Driver) -> None:
    await ended_group(driver, workflow_id="hourly")
    kept = await ended_group(driver, workflow_id="yearly")
    driver.pass_time(3 * DAY)
    retention = ops.Retention(ended=2 * DAY, by_workflow={"yearly": 400 * DAY})
    await ops.prune_history(retention, now=driver.now())
    assert await rows_of("SELECT id FROM rungroup") == [(kept,)]


async def test_a_group_with_an_event_to_deliver_is_not_pruned(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, events={"group_end": ["tell"]}))
    await driver.drain()
    driver.pass_time(9 * DAY)
    assert (await ops.prune_history(ops.Retention(ended=DAY), now=driver.now())).groups == 0
    (event,) = await ops.claim_events("worker", 1, lease="l", now=driver.now())
    await ops.complete_event(event, now=driver.now())
    assert (await ops.prune_history(ops.Retention(ended=DAY), now=driver.now())).groups == 1


async def test_a_group_that_began_anew_is_not_pruned(driver: Driver) -> None:
    created = await driver.start(linear("a"))
    await driver.drain()
    driver.pass_time(9 * DAY)
    groups = [group async for group in ops.groups_to_prune(ops.Retention(ended=DAY), now=driver.now())]
    await ops.create_runs(created.group_id, linear("a"), None, [ops.NewRun()], now=driver.now())
    assert [group.id for group in groups] == [created.group_id]
    assert (await ops.prune_history(ops.Retention(ended=DAY), now=driver.now())).groups == 0
    await driver.drain()


async def test_profiles_of_pruned_steps_tell_how_many_there_were_how_they_ended_and_how_long_they_took(
    driver: Driver,
) -> None:
    for seconds in (1, 1, 3, 100):
        await driver.start(linear("a", retries=3))
        step = await driver.claim_one()
        if seconds == 3:
            await driver.finish(errored(step))
            step = await driver.claim_one()
        driver.pass_time(timedelta(seconds=seconds))
        await driver.complete(step)
    await driver.start(linear("a", retries=3))
    await driver.fail(await driver.claim_one())
    await ended_group(driver, 1, workflow_id="other")
    driver.pass_time(2 * DAY)
    await ops.prune_history(ops.Retention(ended=DAY, failed=DAY), now=driver.now())
    (profile,) = await step_profiles("flow", now=driver.now())
    assert (profile.step_name, profile.steps, profile.failed, profile.failed_attempts) == ("a", 5, 1, 2)
    assert profile.mean_seconds == pytest.approx(105 / 4, rel=0.01)
    assert (profile.p50_seconds, profile.p95_seconds) == (1.024, 131.072)
    assert await step_profiles("flow", within=timedelta(hours=1), now=driver.now()) == []


async def test_every_step_is_counted_once_however_often_pruning_is_cut_short(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "RUNS_AT_ONCE", 2)
    await ended_group(driver, 7)
    driver.pass_time(2 * DAY)
    delete, calls = pruning.delete_runs, 0

    def die_every_other_time(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            raise SystemExit
        return delete(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(pruning, "delete_runs", die_every_other_time)
    with pytest.raises(SystemExit):
        await ops.prune_history(ops.Retention(ended=DAY), now=driver.now())
    for _ in range(10):
        driver.pass_time(pruning.FORGOTTEN_AFTER)
        try:
            await ops.resume_deletions(now=driver.now())
            break
        except SystemExit:
            continue
    assert await scalar("SELECT sum(steps) FROM stepprofile", kind=int) == 14
    assert set((await rows_left()).values()) == {0}


async def test_signals_that_nobody_took_go_and_new_ones_stay(driver: Driver) -> None:
    await driver.signal("old")
    await driver.deliver()
    driver.pass_time(3 * DAY)
    await driver.signal("new")
    assert await ops.prune_signals(2 * DAY, now=driver.now()) == 1
    assert await rows_of("SELECT key FROM signal") == [("new",)]
    await driver.start(linear("a"))
    await driver.finish(parked(await driver.claim_one(), awaits="new"))
    await driver.deliver()
    await driver.drain(completed)
