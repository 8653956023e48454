"""What the views tell of groups, runs, steps, workers and locks, on both databases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import (
    Database,
    Document,
    DocumentBatch,
    DocumentURI,
    ResourceLockKind,
    RunStatus,
)
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import Interval, Paging
from tests.support.engine import Driver, errored, expanded, linear, workflow

HASH = "sha256-" + "ab" * 32


async def new_batch() -> int:
    async with Database.session() as session:
        batch = DocumentBatch(name="reports", source="shelf")
        session.add(batch)
        await session.flush()
        assert batch.id is not None
        return batch.id


async def new_document(batch_id: int, *uris: str, doc_hash: str = HASH) -> None:
    async with Database.session() as session:
        session.add(Document(hash=doc_hash, mime_type="text/plain", file_size=7))
        await session.flush()
        session.add_all(DocumentURI(doc_hash=doc_hash, uri=uri, source="shelf", batch_id=batch_id) for uri in uris)


async def test_pages_follow_one_another_without_gap_or_repetition(driver: Driver) -> None:
    created = await driver.start(linear("a"), 7)
    pages = [await views.list_runs(paging=Paging(number, 3)) for number in (1, 2, 3, 4)]
    assert [[run.id for run in page.items] for page in pages] == [
        created.run_ids[:3:-1],
        created.run_ids[3:0:-1],
        created.run_ids[:1],
        [],
    ]
    assert [(page.total, page.total_pages, page.has_more) for page in pages[1:3]] == [(7, 3, True), (7, 3, False)]


async def test_runs_are_filtered_by_batch_group_status_and_document(driver: Driver) -> None:
    flow, batch = linear("a"), await new_batch()
    of_batch = await ops.create_run_group(
        flow, None, [ops.NewRun(doc_id="x"), ops.NewRun(doc_id="y")], batch_id=batch, now=driver.now()
    )
    other = await driver.start(flow, 1)
    (first,) = await driver.claim(1)
    await driver.complete(first)
    assert {run.id for run in (await views.list_runs(batch_id=batch)).items} == set(of_batch.run_ids)
    assert [run.id for run in (await views.list_runs(run_group_id=other.group_id)).items] == other.run_ids
    assert [run.id for run in (await views.list_runs(status=RunStatus.COMPLETED)).items] == [first.run_id]
    by_both = await views.list_runs(status=RunStatus.PENDING, batch_id=batch)
    assert (by_both.total, [run.doc_id for run in by_both.items]) == (1, ["y"])
    assert [run.doc_id for run in (await views.list_runs(doc_id="x")).items] == ["x"]
    await driver.drain()


@pytest.mark.parametrize("scoped", [False, True])
async def test_steps_are_found_in_every_status(driver: Driver, scoped: bool) -> None:
    flow = linear("a", "b", retries=2)
    group = await driver.start(flow, 5)
    steps = await driver.claim(4)
    await driver.complete(steps[0])
    await driver.finish(errored(steps[1], delay=timedelta(hours=1)), errored(steps[2], permanent=True))
    scope = group.group_id if scoped else None
    found = {status: await views.list_steps(status=status, run_group_id=scope) for status in RunStatus}
    assert {status: page.total for status, page in found.items()} == {
        RunStatus.PENDING: 5,
        RunStatus.RUNNING: 1,
        RunStatus.COMPLETED: 1,
        RunStatus.ERROR: 1,
        RunStatus.FAILED: 1,
        RunStatus.CANCELLED: 1,
    }
    for status, page in found.items():
        assert len(page.items) == page.total
        assert {step.status for step in page.items} == {status}
    assert (await views.list_steps(run_group_id=scope)).total == 10
    await driver.drain()


async def test_steps_of_a_batch_come_by_run_and_in_the_order_of_the_run(driver: Driver) -> None:
    batch = await new_batch()
    created = await ops.create_run_group(
        linear("a", "b"), None, [ops.NewRun(doc_id="x")] * 3, batch_id=batch, now=driver.now()
    )
    steps = [*(await views.list_steps(batch_id=batch, paging=Paging(1, 4))).items]
    steps += (await views.list_steps(batch_id=batch, paging=Paging(2, 4))).items
    assert [(step.workflow_run_id, step.workflow_step_name) for step in steps] == [
        (run_id, name) for run_id in reversed(created.run_ids) for name in ("a", "b")
    ]
    await driver.drain()


async def test_a_run_is_given_with_its_steps_and_a_map_step_before_its_tasks(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}, "z": {"depends_on": ["m"]}}), 1)
    await driver.finish(expanded(await driver.claim_one(), ["p", "q"]))
    whole = await views.get_run_with_steps(created.run_ids[0])
    assert [(step.workflow_step_name, step.item_index) for step in whole.steps] == [
        ("m", None),
        ("m", 0),
        ("m", 1),
        ("z", None),
    ]
    await driver.drain()


@pytest.mark.parametrize(
    "ask", [views.get_run, views.get_run_group, views.get_step, views.run_group_stats, views.lifecycle_of_run]
)
async def test_what_does_not_exist_is_not_found(driver: Driver, ask: Callable[[int], Awaitable[object]]) -> None:
    with pytest.raises(NotFoundError, match="4711 does not exist"):
        await ask(4711)


async def test_groups_are_listed_newest_first_and_by_batch_and_status(driver: Driver) -> None:
    flow, batch = linear("a"), await new_batch()
    first = await ops.create_run_group(flow, None, [ops.NewRun()], batch_id=batch, now=driver.now())
    second = await driver.start(flow, 1)
    assert [group.id for group in (await views.list_run_groups()).items] == [second.group_id, first.group_id]
    assert [group.id for group in (await views.list_run_groups(batch_id=batch)).items] == [first.group_id]
    await driver.drain()
    assert (await views.list_run_groups(status=RunStatus.COMPLETED)).total == 2


async def test_the_stats_of_a_group_count_every_status_and_time_what_was_executed(driver: Driver) -> None:
    created = await driver.start(linear("a"), 4)
    steps = await driver.claim(3)
    driver.pass_time(timedelta(seconds=10))
    await driver.complete(steps[0])
    driver.pass_time(timedelta(seconds=20))
    await driver.fail(steps[1])
    stats = await views.run_group_stats(created.group_id)
    assert stats.counts == {
        RunStatus.PENDING: 1,
        RunStatus.RUNNING: 1,
        RunStatus.COMPLETED: 1,
        RunStatus.ERROR: 0,
        RunStatus.FAILED: 1,
        RunStatus.CANCELLED: 0,
    }
    assert (stats.total_runs, stats.group_status) == (4, RunStatus.RUNNING)
    assert stats.min_duration == pytest.approx(10.001, abs=1e-4)
    assert stats.max_duration == pytest.approx(30.002, abs=1e-4)
    assert stats.average_duration == pytest.approx(20.0015, abs=1e-4)
    await driver.drain()


async def test_running_steps_tell_of_their_document_and_for_how_long(driver: Driver) -> None:
    first, second = await new_batch(), await new_batch()
    await new_document(first, "/a.txt")
    async with Database.session() as session:
        session.add(DocumentURI(doc_hash=HASH, uri="/b.txt", source="shelf", batch_id=second))
    flow = linear("a")
    await ops.create_run_group(flow, None, [ops.NewRun(doc_id=HASH)], batch_id=second, now=driver.now())
    await driver.start(flow, 1)
    steps = await driver.claim(2)
    driver.pass_time(timedelta(seconds=5))
    page = await documents.running_steps(now=driver.now())
    assert [row.workflow_run_id for row in page.items] == [step.run_id for step in steps]
    about_document, about_nothing = page.items
    assert (about_document.doc_hash, about_document.doc_uri, about_document.source) == (HASH, "/b.txt", "shelf")
    assert (about_nothing.doc_hash, about_nothing.doc_uri) == (None, None)
    assert about_document.elapsed_seconds == pytest.approx(5.001, abs=1e-3)
    assert (about_document.step_type, about_document.worker_id) == ("a", "worker")
    await driver.complete(*steps)


async def test_recent_runs_are_those_that_began_or_ended_within_the_interval(driver: Driver) -> None:
    flow = linear("a", "b")
    old = await driver.start(flow, 1)
    await driver.drain()
    driver.pass_time(timedelta(hours=2))
    young = await driver.start(flow, 2)
    (begun,) = await driver.claim(1)
    within_hour = await views.recent_runs(Interval.HOUR, now=driver.now())
    assert [(row.workflow_run_id, row.step_type) for row in within_hour.items] == [(begun.run_id, "a")]
    within_day = await views.recent_runs(Interval.DAY, now=driver.now())
    assert [row.workflow_run_id for row in within_day.items] == [begun.run_id, *old.run_ids]
    ended = await views.recent_runs(Interval.DAY, status=RunStatus.COMPLETED, now=driver.now())
    assert (ended.total, [row.workflow_run_id for row in ended.items]) == (1, old.run_ids)
    await driver.complete(begun)
    await driver.drain()
    assert {row.workflow_run_id for row in (await views.recent_runs(Interval.MINUTE, now=driver.now())).items} == set(
        young.run_ids
    )


async def test_the_first_event_of_a_period_is_found_across_gaps(driver: Driver) -> None:
    flow = linear("a")
    groups = []
    for _ in range(8):
        groups.append(await driver.start(flow, 3))
        await driver.drain()
        driver.pass_time(timedelta(hours=1))
    for group in groups[2:5]:
        await ops.delete_run_group(group.group_id)
    day = await views.recent_runs(Interval.DAY, now=driver.now())
    assert day.total == 15
    hour = await views.recent_runs(Interval.HOUR, now=driver.now() - timedelta(minutes=1))
    assert {row.run_group_id for row in hour.items} == {groups[-1].group_id}


async def test_the_life_of_a_run_is_told_by_its_rows_and_its_events_together(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}, "b": {}}, events={"step_end": ["tell"]}), 1)
    await driver.complete(await driver.claim_one())
    await driver.fail(await driver.claim_one(), message="no paper")
    life = await views.lifecycle_of_run(created.run_ids[0])
    assert [row.event for row in life] == [
        "item_start",
        "step_start",
        "step_end",
        "step_start",
        "step_failed",
        "item_failed",
    ]
    assert [row.start_date for row in life] == sorted(row.start_date for row in life)
    assert [row.handler_name for row in life if row.event == "step_end"] == ["tell"]
    # What a handler asked for and what failed has a row of its own; the ids of the others are never those of rows.
    assert [row.event for row in life if row.id and row.id > 0] == ["step_end", "step_failed", "item_failed"]
    assert [row.event for row in life if row.id and row.id < 0] == ["item_start", "step_start", "step_start"]
    assert len({row.id for row in life}) == len(life)
    assert [row.id for row in await views.lifecycle_of_run(created.run_ids[0])] == [row.id for row in life]
    assert life[1].status_meta == {"step": "a"}


async def test_workers_are_shown_with_what_they_hold(driver: Driver) -> None:
    await ops.check_in("busy", hostname="here", pid=7, meta={"consumers": {"parse": 3, "*": 1}}, now=driver.now())
    await ops.check_in("idle", now=driver.now())
    await driver.start(linear("a"), 2)
    steps = await driver.claim(2, worker_id="busy")
    busy, idle = (await views.list_workers(now=driver.now() + timedelta(seconds=9))).items
    assert (busy.id, busy.slots, busy.running_steps, busy.utilization) == ("busy", 4, 2, 0.5)
    assert (idle.id, idle.slots, idle.running_steps, idle.utilization) == ("idle", 0, 0, 0.0)
    assert busy.seconds_since_checkin == pytest.approx(9, abs=0.1)
    await driver.complete(*steps)


async def test_locks_are_listed_by_key(driver: Driver) -> None:
    for key in ("b", "a"):
        await ops.acquire_resource_lock(key, f"web:{key}", ResourceLockKind.WEB, now=driver.now())
    page = await views.list_locks(paging=Paging(1, 1))
    assert (page.total, [lock.resource_key for lock in page.items]) == (2, ["a"])
