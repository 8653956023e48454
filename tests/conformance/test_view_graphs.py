"""Graphs of workflows and runs, failures by cause, throughput by type, and when a group will have ended."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, ResourceLockKind, RunStatus
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.views import Interval, Paging, WaitReason, causes, eta, graphs
from soliplex.ingester.lib.wf.views.graphs import Edge
from soliplex.ingester.lib.wf.work import Completed, NewSubflow, Parked
from tests.support.engine import Driver, completed, errored, execute, expanded, linear, parked, workflow

MINUTE = timedelta(minutes=1)


def test_the_graph_of_a_workflow_names_steps_and_what_waits_for_what(registry: Registry) -> None:
    flow = workflow(
        {
            "words": {"retries": 3, "timeout": 30, "when": "size(input.text) > 0"},
            "length": {"depends_on": ["words"], "map": True, "tolerant": True, "gather": False},
            "total": {"depends_on": ["words", "length"], "optional": True},
        }
    )
    graph = views.graph_of_definition(flow)
    assert [node.key for node in graph.nodes] == ["words", "length", "total"]
    assert graph.edges == [Edge("words", "length"), Edge("words", "total"), Edge("length", "total")]
    words, length, total = graph.nodes
    assert (words.retries, words.timeout_seconds, words.when) == (3, 30.0, "size(input.text) > 0")
    assert (length.is_map, length.gather, words.is_map, total.optional) == (True, False, False, True)


async def test_the_graph_of_a_run_tells_how_each_step_fares(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {"retries": 3}, "b": {}, "c": {}}))
    await driver.finish(errored(await driver.claim_one()))
    await driver.complete(await driver.claim_one())
    running = await driver.claim_one()
    graph = await views.graph_of_run(created.run_ids[0], now=driver.moment + MINUTE)
    assert (graph.status, graph.run_group_id, graph.parent_run_id) == (RunStatus.RUNNING, created.group_id, None)
    a, b, c = graph.nodes
    assert (a.status, a.attempts, a.retries, a.waits_for) == (RunStatus.COMPLETED, 2, 3, None)
    assert a.duration == pytest.approx(0.001)
    assert (b.status, b.step_id, b.duration, b.is_map) == (RunStatus.RUNNING, running.id, 60.0, False)
    assert (c.status, c.waits_for, c.duration, c.attempts) == (RunStatus.PENDING, WaitReason.STEPS, None, 0)
    assert graph.edges == [Edge("a", "b"), Edge("b", "c")]
    with pytest.raises(NotFoundError, match="workflow run 4711"):
        await views.graph_of_run(4711)


async def test_a_node_tells_what_it_waits_for(driver: Driver) -> None:
    flow = workflow({"a": {"depends_on": []}, "b": {"depends_on": []}, "c": {"depends_on": []}})
    created = await driver.start(flow, resource_keys={"c": "shelf"})
    await ops.acquire_resource_lock("shelf", "cli:me", ResourceLockKind.CLI, ttl=MINUTE, now=driver.now())
    first, second = await driver.claim(5)
    sub = workflow({"z": {}}, workflow_id="sub")
    await driver.finish(
        parked(first, awaits="approval", delay=MINUTE),
        Parked(
            step_id=second.id,
            run_id=second.run_id,
            lease=second.lease,
            awaits=f":subflow:{second.id}:0",
            subflow=NewSubflow(sub, None, None),
        ),
    )
    a, b, c = (await views.graph_of_run(created.run_ids[0], now=driver.now())).nodes
    assert (a.waits_for, a.awaits, a.waits_until is not None) == (WaitReason.SIGNAL, "approval", True)
    assert (b.waits_for, b.waits_until) == (WaitReason.SUBFLOW, None)
    assert (c.waits_for, c.resource_key) == (WaitReason.RESOURCE, "shelf")
    below = await views.graph_of_run(b.subflow_run_id or 0)
    assert (below.parent_step_id, below.parent_run_id) == (b.step_id, created.run_ids[0])


async def test_a_step_that_was_skipped_says_by_what(driver: Driver) -> None:
    created = await driver.start(linear("a"))
    step = await driver.claim_one()
    skipped = Completed(step_id=step.id, run_id=step.run_id, lease=step.lease, meta={"skipped": "input.n > 9"})
    await driver.finish(skipped)
    (node,) = (await views.graph_of_run(created.run_ids[0])).nodes
    assert (node.skipped_by, node.attempts, node.status) == ("input.n > 9", 0, RunStatus.COMPLETED)


async def test_a_run_whose_workflow_is_gone_still_has_a_graph(driver: Driver, registry: Registry) -> None:
    created = await driver.start(linear("a", "b"))
    registry.unregister("flow")
    graph = await views.graph_of_run(created.run_ids[0])
    assert [node.is_map for node in graph.nodes] == [False, False]  # as its stored version has it
    await execute("UPDATE workflowrun SET definition_id = NULL")
    graph = await views.graph_of_run(created.run_ids[0])
    assert [(node.key, node.is_map) for node in graph.nodes] == [("a", None), ("b", None)]


@pytest.mark.parametrize("few", [graphs.FEW_TASKS, 3])
async def test_a_map_step_is_one_node_with_the_progress_of_its_tasks(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(graphs, "FEW_TASKS", few)
    created = await driver.start(workflow({"m": {"map": True, "tolerant": True, "retries": 1}, "n": {}}))
    parent = await driver.claim_one()
    await driver.finish(expanded(parent, range(6)))
    one, two, *_ = await driver.claim(3)
    await driver.finish(completed(one), errored(two, "broken", permanent=True))
    node, after = (await views.graph_of_run(created.run_ids[0])).nodes
    assert node.tasks is not None
    assert (node.tasks.total, node.tasks.ended, node.tasks.failed) == (6, 2, 1)
    assert (node.is_map, node.waits_for, after.tasks) == (True, WaitReason.TASKS, None)
    if few > 6:
        assert node.tasks.counts is not None
        assert {status.value: count for status, count in node.tasks.counts.items() if count} == {
            "COMPLETED": 1,
            "FAILED": 1,
            "RUNNING": 1,
            "PENDING": 3,
        }
    else:
        assert node.tasks.counts is None

    page = await views.tasks_of_step(parent.id, paging=Paging(2, 4))
    assert (page.total, [task.item_index for task in page.items]) == (6, [4, 5])
    failed = await views.tasks_of_step(parent.id, status=RunStatus.FAILED)
    assert (failed.total, [(task.item_index, task.message) for task in failed.items]) == (1, [(1, "broken")])
    assert (await views.tasks_of_step(after.step_id)).total == 0
    with pytest.raises(NotFoundError, match="step 4711"):
        await views.tasks_of_step(4711)


async def test_failures_that_say_the_same_are_one_cause(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", retries=2), 6)
    steps = await driver.claim(6)
    typed = {"error_type": "OSError", "traceback": "..."}
    await driver.finish(
        *(replace(errored(step, f"page {step.id} is torn", permanent=True), meta=typed) for step in steps[:3]),
        replace(errored(steps[3], "page 99 is torn", delay=MINUTE), meta=typed),
        replace(errored(steps[4], "page 1 is torn", permanent=True), meta={"error_type": "ValueError"}),
    )
    found = await views.failures_by_cause()
    assert (found.looked_at, found.is_exact) == (5, True)
    first, second = found.causes
    assert (first.error_type, first.message, first.step_types) == ("OSError", "page <number> is torn", ["a"])
    assert (first.failed, first.to_be_retried, first.newest) == (3, 1, driver.moment)
    assert first.run_ids == [created.run_ids[number] for number in (2, 1, 0, 3)]
    assert first.example.startswith("page ")
    assert (second.error_type, second.failed) == ("ValueError", 1)

    other = await driver.start(linear("a"))
    assert (await views.failures_by_cause(run_group_id=other.group_id)).causes == []
    assert len((await views.failures_by_cause(run_group_id=created.group_id)).causes) == 2
    later = driver.moment + 2 * MINUTE
    assert (await views.failures_by_cause(interval=Interval.MINUTE, now=later)).causes == []
    assert len((await views.failures_by_cause(interval=Interval.HOUR, now=later)).causes) == 2
    with pytest.raises(NotFoundError, match="run group 4711"):
        await views.failures_by_cause(run_group_id=4711)


async def test_only_so_many_failures_are_looked_at(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST", 2)
    await driver.start(linear("a"), 3)
    await driver.fail(*await driver.claim(3))
    found = await views.failures_by_cause()
    assert (found.looked_at, found.is_exact, found.causes[0].failed) == (2, False, 2)


async def test_a_map_step_is_not_counted_beside_the_tasks_that_it_failed_of(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True, "retries": 1}}))
    await driver.finish(expanded(await driver.claim_one(), range(2)))
    await driver.fail(*await driver.claim(2))
    (cause,) = (await views.failures_by_cause()).causes
    assert cause.failed == 2


async def test_throughput_is_told_by_type_and_piece_by_piece(driver: Driver) -> None:
    await driver.start(workflow({"a": {}, "b": {}}), 3)
    steps = await driver.claim(3)
    await driver.complete(*steps[:2])
    await driver.fail(steps[2])
    driver.pass_time(10 * MINUTE)
    await driver.complete(await driver.claim_one())
    a, b = await views.throughput_by_type(Interval.HOUR, now=driver.now())
    assert (a.step_type, a.completed, a.failed, a.cancelled) == ("a", 2, 1, 0)
    assert a.average_seconds == pytest.approx(0.0015, abs=0.001)
    assert (b.step_type, b.completed, b.cancelled, b.per_minute) == ("b", 1, 1, pytest.approx(1 / 60))
    assert len(b.buckets) == 61
    assert [each.completed for each in b.buckets if each.completed or each.cancelled] == [0, 1]
    assert await views.throughput_by_type(Interval.MINUTE, now=driver.moment + 10 * MINUTE) == []


async def test_what_is_left_of_a_group_follows_from_its_recent_steps(driver: Driver) -> None:
    created = await driver.start(linear("a"), 40)
    eta_now = await views.eta_of_group(created.group_id, now=driver.now())
    assert (eta_now.seconds, eta_now.reason, eta_now.remaining_runs) == (None, "nothing has ended yet", 40)
    for _ in range(11):
        driver.pass_time(timedelta(seconds=10))
        await driver.complete(await driver.claim_one())
    found = await views.eta_of_group(created.group_id, now=driver.moment)
    assert found.seconds == pytest.approx(290, rel=0.01)
    assert found.ends_at == driver.moment + timedelta(seconds=found.seconds or 0)
    stalled = await views.eta_of_group(created.group_id, now=driver.moment + 20 * MINUTE)
    assert (stalled.seconds, stalled.reason) == (None, "nothing has ended in the last 15 minutes")
    await driver.finish(parked(await driver.claim_one(), awaits="k"))
    assert (await views.eta_of_group(created.group_id, now=driver.now())).reason == "steps wait for a signal: 1"
    await driver.signal("k")
    await driver.deliver()
    await driver.drain()
    ended = await views.eta_of_group(created.group_id)
    assert (ended.seconds, ended.ends_at) == (0.0, (await driver.group(created.group_id)).completed_date)
    with pytest.raises(NotFoundError, match="run group 4711"):
        await views.eta_of_group(4711)


async def test_what_is_left_of_a_large_group_follows_from_the_runs_around_the_place_it_has_come_to(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eta, "FEW_RUNS", 50)
    monkeypatch.setattr(eta, "AROUND", 20)
    created = await driver.start(linear("a"), 200)
    for _ in range(100):
        driver.pass_time(timedelta(seconds=5))
        await driver.complete(await driver.claim_one())
    found = await views.eta_of_group(created.group_id, now=driver.moment)
    assert found.seconds == pytest.approx(500, rel=0.05)


async def test_what_is_left_of_one_run_follows_from_the_tasks_of_its_map_step(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}, "n": {}}))
    await driver.finish(expanded(await driver.claim_one(), range(50)))
    for _ in range(25):
        driver.pass_time(timedelta(seconds=2))
        await driver.complete(await driver.claim_one())
    found = await views.eta_of_group(created.group_id, now=driver.moment)
    assert found.seconds == pytest.approx(50, rel=0.05)


async def test_too_little_is_not_gone_by(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1_000)
    for _ in range(5):
        driver.pass_time(timedelta(seconds=10))
        await driver.complete(await driver.claim_one())
    found = await views.eta_of_group(created.group_id, now=driver.moment)
    assert (found.seconds, found.reason) == (None, "too little has ended to go by")


async def test_what_a_handler_reports_is_told_until_its_next_attempt_begins(driver: Driver) -> None:
    created = await driver.start(linear("a", retries=2))
    step = await driver.claim_one()
    said = json.dumps({"fraction": 0.5, "text": "half", "at": driver.now().isoformat()})
    value = "CAST(:said AS jsonb)" if Database.is_postgres() else ":said"
    await execute(f"UPDATE runstep SET progress = {value}", said=said)
    (node,) = (await views.graph_of_run(created.run_ids[0])).nodes
    assert node.progress is not None
    assert (node.progress["fraction"], node.progress["text"]) == (0.5, "half")
    await driver.finish(errored(step))
    await driver.claim_one()
    (node,) = (await views.graph_of_run(created.run_ids[0])).nodes
    assert node.progress is None
