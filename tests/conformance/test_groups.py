"""Groups as a whole: counting anew, ending exactly once, and deleting."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    execute,
    expanded,
    linear,
    released,
    rows_of,
    scalar,
    workflow,
)


async def test_the_status_of_a_run_follows_from_its_steps(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    run_id = created.run_ids[0]

    async def recomputed() -> str:
        return (await ops.recompute_run_status(run_id, now=driver.now())).value

    assert await recomputed() == "PENDING"
    await driver.complete(await driver.claim_one())
    assert await recomputed() == "RUNNING"
    await driver.fail(await driver.claim_one())
    assert await recomputed() == "FAILED"
    await ops.retry_run(run_id, now=driver.now())
    await driver.drain()
    assert await recomputed() == "COMPLETED"


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled", "cancelled after its last step", "optional"])
async def test_recomputing_changes_nothing_that_is_right(driver: Driver, ending: str) -> None:
    created = await driver.start(workflow({"a": {"optional": ending == "optional"}, "b": {}}), 1)
    run_id = created.run_ids[0]
    await driver.finish(
        errored(await driver.claim_one()) if ending == "optional" else completed(await driver.claim_one())
    )
    last = await driver.claim_one()
    if ending.startswith("cancelled"):
        await ops.cancel_run(run_id, now=driver.now())
    if ending == "failed":
        await driver.fail(last)
    else:
        await driver.finish(released(last) if ending == "cancelled" else completed(last))

    before = await rows_of("SELECT * FROM workflowrun"), await rows_of("SELECT * FROM rungroup"), await driver.events()
    for _ in range(2):
        await ops.recompute_run_status(run_id, now=driver.now())
    after = await rows_of("SELECT * FROM workflowrun"), await rows_of("SELECT * FROM rungroup"), await driver.events()
    assert after[:2] == before[:2]
    assert len(after[2]) == len(before[2])


async def test_recomputing_a_run_under_way_does_not_begin_it_anew(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}}, events={"item_start": ["tell"]}), 1)
    await driver.finish(released(await driver.claim_one()))
    assert await ops.recompute_run_status(created.run_ids[0], now=driver.now()) == "RUNNING"
    await driver.drain()
    assert len(await driver.events("item_start")) == 1


async def test_counters_broken_by_hand_are_put_right(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", "c"), 1)
    await driver.complete(await driver.claim_one())
    b = await driver.claim_one()
    for damage in ("remaining_steps = 9", "remaining_steps = 1", "failed_steps = 4", "status = 'PENDING'"):
        await execute(f"UPDATE workflowrun SET {damage}")
        assert await ops.recompute_run_status(created.run_ids[0], now=driver.now()) == "RUNNING"
        await assert_consistent()
    await driver.complete(b)
    assert await driver.drain() == ["c"]


async def test_a_run_that_was_kept_open_by_a_wrong_counter_ends_when_it_is_recomputed(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}}, events={"item_end": ["tell"]}), 2)
    first, second = await driver.claim()
    await execute("UPDATE workflowrun SET remaining_steps = 5 WHERE id = :id", id=first.run_id)
    await driver.complete(first, second)
    assert (await driver.run(first.run_id)).status == "RUNNING"
    assert await ops.recompute_run_status(first.run_id, now=driver.now()) == "COMPLETED"
    run, group = await driver.run(first.run_id), await driver.group(created.group_id)
    assert (run.completed_date, run.status_date) == (driver.moment, driver.moment)
    assert (group.status, group.completed_date, group.status_date) == ("COMPLETED", driver.moment, driver.moment)
    assert [event.workflow_run_id for event in await driver.events("item_end")] == [second.run_id, first.run_id]
    assert len(await driver.events("group_end")) == 1


async def test_a_group_broken_by_hand_is_put_right(driver: Driver) -> None:
    created = await driver.start(linear("a"), 3)
    good, bad, _ = await driver.claim()
    await driver.finish(completed(good), errored(bad))
    await execute("UPDATE rungroup SET remaining_runs = 3, failed_runs = 3, cancelled_runs = 2")
    assert await ops.try_complete_run_group(created.group_id, now=driver.now()) is False
    await assert_consistent()


async def test_a_group_is_completed_by_exactly_one_of_many_callers(database: type[Database]) -> None:
    driver = Driver()
    created = await driver.start(linear("a"), 2)
    await driver.drain()
    group_id = created.group_id
    assert await ops.try_complete_run_group(group_id, now=driver.now()) is False, "it has ended already"

    await execute("UPDATE rungroup SET status = 'RUNNING', completed_date = NULL, remaining_runs = 1")
    won = await asyncio.gather(*(ops.try_complete_run_group(group_id, now=driver.now()) for _ in range(6)))
    assert sorted(won) == [False] * 5 + [True]
    await assert_consistent()
    assert len(await driver.events("group_end")) == 2


async def test_a_group_with_unfinished_runs_is_not_completed(driver: Driver) -> None:
    created = await driver.start(linear("a"), 2)
    await driver.complete(await driver.claim_one())
    assert await ops.try_complete_run_group(created.group_id, now=driver.now()) is False
    assert (await driver.group(created.group_id)).status == "RUNNING"


async def test_workers_that_end_the_last_runs_at_once_end_the_group_once(database: type[Database]) -> None:
    driver = Driver()
    created = await driver.start(linear("a"), 12)
    steps = await driver.claim()
    await asyncio.gather(*(driver.complete(step) for step in steps))
    assert len(await driver.events("group_end")) == 1
    assert (await driver.group(created.group_id)).status == "COMPLETED"
    await assert_consistent()


async def test_deleting_a_group_takes_all_that_belongs_to_it_and_says_how_much(driver: Driver) -> None:
    flow = workflow({"m": {"map": True}, "after": {}})
    doomed, other = await driver.start(flow, 2, resource_keys={"after": "db"}), await driver.start(flow, 1)
    await driver.drain(
        lambda step: completed(step) if step.parent_id or step.name == "after" else expanded(step, [1, 2])
    )
    events = await scalar("SELECT count(*) FROM lifecyclehistory WHERE run_group_id = :id", id=doomed.group_id)

    deleted = await ops.delete_run_group(run_group_id=doomed.group_id)
    assert deleted == {
        "deleted_runsteps": 8,
        "deleted_lifecyclehistory": events,
        "deleted_workflowruns": 2,
        "deleted_rungroups": 1,
        "total_deleted": 11 + events,
    }
    assert await scalar("SELECT count(*) FROM workflowrun") == 1
    assert await scalar("SELECT count(*) FROM runstep") == 4
    assert await scalar("SELECT count(*) FROM runstepdependency") == 1
    assert await scalar("SELECT count(*) FROM lifecyclehistory") > 0
    assert (await driver.group(other.group_id)).status == "COMPLETED"


async def test_deleting_a_group_under_way_frees_what_it_held(driver: Driver) -> None:
    flow = linear("store")
    created = await driver.start(flow, 2, resource_keys={"store": "db"})
    step = await driver.claim_one()
    await ops.delete_run_group(created.group_id)
    assert await driver.locks() == {}
    assert (await driver.finish(completed(step))).lost == {step.id}
    assert await driver.claim() == []


async def test_deleting_a_group_takes_no_lock_from_steps_of_others_that_share_it(driver: Driver) -> None:
    flow = linear("store")
    doomed, _ = [await driver.start(flow, 1, resource_keys={"store": "db"}) for _ in range(2)]
    mine, other = await driver.claim()
    assert mine.lease == other.lease
    await ops.delete_run_group(doomed.group_id)
    assert set(await driver.locks()) == {"db"}
    await driver.complete(other)
    assert await driver.locks() == {}


async def test_what_is_started_after_a_deletion_has_ids_that_were_never_given(driver: Driver) -> None:
    async def all_ids() -> list[set[int]]:
        tables = ("rungroup", "workflowrun", "runstep", "lifecyclehistory")
        return [{row[0] for row in await rows_of(f"SELECT id FROM {table}")} for table in tables]

    created = await driver.start(linear("a", "b"), 2)
    await driver.drain()
    before = await all_ids()
    await ops.delete_run_group(created.group_id)
    await driver.start(linear("a", "b"), 2)
    await driver.drain()
    assert all(min(after) > max(given) for given, after in zip(before, await all_ids(), strict=True))


async def test_a_group_can_be_deleted_once(driver: Driver) -> None:
    created = await driver.start(linear("a"), 0)
    assert (await ops.delete_run_group(created.group_id))["total_deleted"] == 1
    with pytest.raises(ops.NotFoundError, match="run group") as caught:
        await ops.delete_run_group(created.group_id)
    assert isinstance(caught.value, NotFoundError)


async def test_what_does_not_exist_cannot_be_recomputed(driver: Driver) -> None:
    with pytest.raises(NotFoundError, match="workflow run 7"):
        await ops.recompute_run_status(7)
    with pytest.raises(NotFoundError, match="run group 7"):
        await ops.try_complete_run_group(7)
