"""The figures that views work out of steps and runs, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, DocumentBatch, RunStatus
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import Interval
from tests.support.engine import Driver, errored, expanded, linear, workflow


async def test_durations_are_told_by_step_type_in_the_order_of_the_workflow(driver: Driver) -> None:
    created = await driver.start(linear("parse", "chunk"), 2)
    first, second = await driver.claim(2, types=["parse"])
    driver.pass_time(timedelta(seconds=10))
    await driver.complete(first, output={"pages": 3})
    driver.pass_time(timedelta(seconds=10))
    await driver.complete(second, output={"pages": 7})
    chunk = await driver.claim_one(types=["chunk"])
    driver.pass_time(timedelta(seconds=5))
    await driver.complete(chunk, output={"pages": "many"})
    parse, chunked = await views.step_durations(created.group_id)
    assert (parse.step_type, parse.count, parse.pages) == ("parse", 2, 10)
    assert parse.shortest == pytest.approx(10, abs=0.01)
    assert parse.longest == pytest.approx(20, abs=0.01)
    assert parse.average == pytest.approx(15, abs=0.01)
    assert parse.total_duration == pytest.approx(30, abs=0.02)
    assert parse.wall_clock_time == pytest.approx(20, abs=0.01)
    assert parse.pages_per_min == pytest.approx(30, abs=0.1)
    assert (chunked.step_type, chunked.count, chunked.pages) == ("chunk", 1, 3)
    await driver.drain()


async def test_durations_keep_their_fractions(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    step = await driver.claim_one()
    driver.pass_time(timedelta(microseconds=250))
    await driver.complete(step)
    (took,) = await views.step_durations(created.group_id)
    assert took.longest == pytest.approx(0.00125, abs=2e-6)
    assert took.pages_per_min is None


async def test_a_moment_just_before_the_full_second_belongs_to_its_own_second(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    driver.pass_time(timedelta(microseconds=999_700 - driver.now().microsecond - 1_000))
    step = await driver.claim_one()
    driver.pass_time(timedelta(microseconds=1_500))
    await driver.complete(step)
    (took,) = await views.step_durations(created.group_id)
    assert 0 < took.shortest < 0.01


async def test_step_stats_count_by_name_and_status(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 3)
    steps = await driver.claim(2, types=["a"])
    await driver.complete(steps[0], output={"pages": 4})
    await driver.fail(steps[1])
    found = await views.step_stats(created.group_id)
    assert [(row.workflow_step_name, row.status, row.count, row.pages) for row in found] == [
        ("a", RunStatus.COMPLETED, 1, 4),
        ("a", RunStatus.FAILED, 1, 0),
        ("a", RunStatus.PENDING, 1, 0),
        ("b", RunStatus.CANCELLED, 1, 0),
        ("b", RunStatus.PENDING, 2, 4),
    ]
    await driver.drain()


async def test_step_counts_have_every_status_and_count_a_map_step_once(driver: Driver) -> None:
    flow = workflow({"a": {}, "m": {"map": True}, "z": {}})
    created = await driver.start(flow, 2)
    first, second = await driver.claim(2, types=["a"])
    await driver.complete(first)
    await driver.fail(second)
    await driver.finish(expanded(await driver.claim_one(types=["m"]), [1, 2, 3]))
    counts = await views.step_counts(created.group_id)
    assert [(each.name, each.total) for each in counts] == [("a", 2), ("m", 2), ("z", 2)]
    assert all(each.counts.keys() == set(RunStatus) for each in counts)
    a, m, z = ({status: count for status, count in each.counts.items() if count} for each in counts)
    assert a == {RunStatus.COMPLETED: 1, RunStatus.FAILED: 1}
    assert m == {RunStatus.RUNNING: 1, RunStatus.CANCELLED: 1}
    assert z == {RunStatus.PENDING: 1, RunStatus.CANCELLED: 1}
    assert await views.step_counts(4711) == []
    await driver.drain()


async def test_events_wait_until_their_handlers_have_succeeded_or_given_up(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}}, events={"group_end": ["tell"]}), 1)
    await driver.start(workflow({"a": {}}, events={"group_end": ["tell"]}), 1)
    assert await views.count_waiting_events(created.group_id) == 0
    await driver.complete(await driver.claim_one())
    assert await views.count_waiting_events(created.group_id) == 1
    (delivery,) = await ops.claim_events("me", 10, now=driver.now())
    assert await views.count_waiting_events(created.group_id) == 1
    await ops.complete_event(delivery, now=driver.now())
    assert await views.count_waiting_events(created.group_id) == 0


async def test_throughput_counts_what_ended_piece_by_piece(driver: Driver) -> None:
    await driver.start(linear("a"), 6)
    steps = await driver.claim(6)
    await driver.complete(*steps[:1])
    driver.pass_time(timedelta(hours=2))
    await driver.complete(*steps[1:3])
    await driver.fail(steps[3])
    driver.pass_time(timedelta(minutes=30))
    await driver.complete(steps[4])
    hour = await views.throughput(Interval.HOUR, now=driver.now())
    assert (hour.completed, hour.failed) == (3, 1)
    assert hour.documents_per_minute == pytest.approx(3 / 60)
    assert len(hour.buckets) == 61
    busy = [bucket for bucket in hour.buckets if bucket.completed or bucket.failed]
    assert [(bucket.completed, bucket.failed) for bucket in busy] == [(2, 1), (1, 0)]
    assert busy[1].start - busy[0].start == timedelta(minutes=30)
    day = await views.throughput(Interval.DAY, now=driver.now())
    assert (day.completed, day.failed, day.since) == (4, 1, day.until - timedelta(days=1))
    await driver.complete(steps[5])


async def test_rates_say_how_often_steps_succeed(driver: Driver) -> None:
    batch = DocumentBatch(name="b", source="shelf")
    async with Database.session() as session:
        session.add(batch)
    created = await ops.create_run_group(
        linear("a", retries=2), None, [ops.NewRun(doc_id=str(n)) for n in range(5)], batch_id=batch.id, now=driver.now()
    )
    steps = await driver.claim(4)
    await driver.complete(*steps[:2])
    await driver.finish(errored(steps[2]), errored(steps[3], permanent=True))
    of_group, of_batch = views.step_rates(run_group_id=created.group_id), views.step_rates(batch_id=batch.id)
    for (rates,) in (await of_group, await of_batch):
        assert (rates.step_type, rates.completed, rates.failed, rates.unfinished) == ("a", 2, 1, 2)
        assert rates.success_rate == pytest.approx(2 / 3)
        assert rates.failure_rate == pytest.approx(1 / 3)
        assert rates.retried == 2
    (lately,) = await views.step_rates(interval=Interval.MINUTE, now=driver.now())
    assert (lately.completed, lately.failed, lately.unfinished) == (2, 1, 0)
    assert await views.step_rates(interval=Interval.MINUTE, now=driver.now() + timedelta(hours=1)) == []
    await driver.drain()


async def test_batches_are_told_with_their_time_and_runs(driver: Driver) -> None:
    start = driver.now()
    batch = DocumentBatch(name="b", source="shelf", start_date=start)
    async with Database.session() as session:
        session.add(batch)
        session.add(DocumentBatch(name="open", source="shelf", start_date=start))
    await ops.create_run_group(linear("a"), None, [ops.NewRun(doc_id="x")] * 3, batch_id=batch.id, now=driver.now())
    async with Database.session() as session:
        (await session.get_one(DocumentBatch, batch.id)).completed_date = start + timedelta(seconds=30)
    unfinished, finished = (await documents.batch_times()).items
    assert (unfinished.name, unfinished.duration, unfinished.seconds_per_document) == ("open", None, None)
    assert (finished.duration, finished.total_runs, finished.remaining_runs) == (30, 3, 3)
    assert finished.seconds_per_document == pytest.approx(10)
    await driver.drain()


async def test_figures_of_a_group_that_does_not_exist_are_not_found(driver: Driver) -> None:
    for ask in (views.step_durations, views.step_stats, lambda number: views.step_rates(run_group_id=number)):
        with pytest.raises(NotFoundError):
            await ask(4711)
