"""Finishing: what each kind of result brings about, gated on the lease, in a number of statements that never grows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.models import RunStatus
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.work import ClaimedStep, Completed, Errored
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    linear,
    released,
    rows_of,
    workflow,
)
from tests.support.interleaving import recorded_statements

DIAMOND = {
    "read": {},
    "left": {"depends_on": ["read"]},
    "right": {"depends_on": ["read"]},
    "join": {"depends_on": ["left", "right"]},
}


async def everything() -> list[list[Any]]:
    """All rows a finishing transaction could touch."""
    return [
        await rows_of(f"SELECT * FROM {table} ORDER BY 1, 2")
        for table in ("rungroup", "workflowrun", "runstep", "lifecyclehistory", "resourcelock")
    ]


async def test_a_completed_step_keeps_its_output_and_makes_its_dependents_ready(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    step = await driver.claim_one()
    started_at = driver.moment
    result = Completed(
        step_id=step.id,
        run_id=step.run_id,
        lease=step.lease,
        output=to_json({"pages": [1, "zwei", None, {"x": 1.5}]}),
        message="two pages",
        meta={"parser": "native"},
        started_at=started_at + timedelta(microseconds=500),
    )
    finished = await driver.finish(result)

    assert (finished.completed, finished.lost, finished.ready_types) == ({step.id}, set(), {"b"})
    stored = await driver.step(step.id)
    assert (stored.status, stored.output) == ("COMPLETED", {"pages": [1, "zwei", None, {"x": 1.5}]})
    assert (stored.status_message, stored.status_meta) == ("two pages", {"parser": "native"})
    assert (stored.lease_token, stored.worker_id) == (None, "worker")
    assert (stored.completed_date, stored.status_date) == (driver.moment, driver.moment)
    assert stored.start_date == started_at + timedelta(microseconds=500)
    assert stored.duration == pytest.approx(0.0005)
    assert (await driver.run(created.run_ids[0])).remaining_steps == 1
    assert (await driver.claim_one()).name == "b"


async def test_a_run_ends_with_its_last_step_and_a_group_with_its_last_run(driver: Driver) -> None:
    created = await driver.start(linear("a"), 2)
    first, second = await driver.claim()
    finished = await driver.complete(first)
    assert (finished.ended_runs, finished.ended_groups) == ({first.run_id: "COMPLETED"}, {})
    group = await driver.group(created.group_id)
    assert (group.status, group.remaining_runs, group.completed_date) == ("RUNNING", 1, None)

    finished = await driver.complete(second)
    assert finished.ended_groups.keys() == {created.group_id}
    group, run = await driver.group(created.group_id), await driver.run(second.run_id)
    assert (group.status, group.remaining_runs, group.completed_date) == ("COMPLETED", 0, driver.moment)
    assert (run.status, run.completed_date, run.status_date) == ("COMPLETED", driver.moment, driver.moment)
    assert run.duration == pytest.approx(0.002)


async def test_a_run_that_is_not_about_a_document_gives_what_its_last_steps_gave(driver: Driver) -> None:
    flow = workflow(
        {
            "read": {},
            "count": {"depends_on": ["read"]},
            "name": {"depends_on": ["read"]},
            "silent": {"depends_on": ["read"]},
        }
    )
    created = await driver.start(flow, [ops.NewRun(input=3), ops.NewRun(doc_id="sha256-1")])
    outputs = {"count": 7, "name": "Müller", "silent": None, "read": "unseen"}
    await driver.drain(lambda step: completed(step, outputs[step.name]))
    assert (await driver.run(created.run_ids[0])).output == {"count": 7, "name": "Müller", "silent": None}
    assert (await driver.run(created.run_ids[1])).output is None


async def test_a_failed_attempt_is_counted_and_tried_again_until_attempts_are_used_up(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", retries=3), 1)
    for attempt in (1, 2):
        step = await driver.claim_one()
        finished = await driver.finish(errored(step, f"attempt {attempt}"))
        assert (finished.errored, finished.failed) == ({step.id}, set())
        stored = await driver.step(step.id)
        assert (stored.status, stored.retry, stored.status_message) == ("ERROR", attempt, f"attempt {attempt}")
        assert (stored.lease_token, stored.completed_date) == (None, None)
    step = await driver.claim_one()
    finished = await driver.finish(errored(step, "the last"))
    assert (finished.errored, finished.failed, finished.cancelled) == (set(), {step.id}, 1)
    stored = await driver.step(step.id)
    assert (stored.status, stored.retry, stored.completed_date) == ("FAILED", 3, driver.moment)
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.status_message, run.failed_steps) == ("FAILED", "step 'a' failed: the last", 1)
    assert await driver.statuses(created.run_ids[0]) == {"a": "FAILED", "b": "CANCELLED"}


async def test_the_next_attempt_can_succeed(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", retries=2), 1)
    await driver.drain(lambda step: completed(step) if step.retry else errored(step, delay=timedelta(minutes=1)))
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"
    assert {step.retry for step in await driver.steps_of(*created.run_ids)} == {1}


async def test_a_permanent_error_fails_at_once(driver: Driver) -> None:
    created = await driver.start(linear("a", retries=5), 1)
    step = await driver.claim_one()
    finished = await driver.finish(errored(step, permanent=True, delay=timedelta(hours=1)))
    assert finished.failed == {step.id}
    stored = await driver.step(step.id)
    assert (stored.status, stored.retry, stored.retries, stored.available_at) == ("FAILED", 1, 5, None)
    assert (await driver.run(created.run_ids[0])).status == "FAILED"


async def test_an_error_keeps_what_it_tells_about_itself(driver: Driver) -> None:
    await driver.start(linear("a", retries=2), 1)
    step = await driver.claim_one()
    meta = {"error_type": "ValueError", "traceback": "line 1\nline 2"}
    await driver.finish(Errored(step_id=step.id, run_id=step.run_id, lease=step.lease, message="no", meta=meta))
    assert (await driver.step(step.id)).status_meta == meta


async def test_a_released_step_goes_back_without_a_trace(driver: Driver) -> None:
    await driver.start(linear("a", retries=2), 1)
    step = await driver.claim_one()
    finished = await driver.finish(released(step))
    assert finished.released == {step.id}
    stored = await driver.step(step.id)
    assert (stored.status, stored.retry, stored.worker_id, stored.lease_token) == ("PENDING", 0, None, None)
    assert stored.start_date is None


async def test_steps_are_finished_one_by_one_by_their_own_names_too(driver: Driver) -> None:
    created = await driver.start(linear("a", retries=2), 4)
    done, tried, doomed, back = await driver.claim()
    assert await ops.complete_step(done.id, done.lease, output=[1], now=driver.now())
    assert await ops.error_step(tried.id, tried.lease, "no", now=driver.now()) is RunStatus.ERROR
    assert await ops.error_step(doomed.id, doomed.lease, "no", permanent=True, now=driver.now()) is RunStatus.FAILED
    assert await ops.release_step(back.id, back.lease, now=driver.now())
    statuses = [(await driver.run(run_id)).status for run_id in created.run_ids]
    assert statuses == ["COMPLETED", "RUNNING", "FAILED", "RUNNING"]
    assert not await ops.complete_step(done.id, done.lease)
    assert await ops.error_step(doomed.id, doomed.lease, "no") is None
    assert not await ops.release_step(back.id, back.lease)


async def test_a_step_of_no_group_left_is_lost(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    step = await driver.claim_one()
    await ops.delete_run_group(created.group_id)
    finished = await driver.finish(completed(step))
    assert (finished.completed, finished.lost) == (set(), {step.id})
    assert not await ops.complete_step(step.id, step.lease)


async def stale(driver: Driver) -> tuple[ClaimedStep, ClaimedStep]:
    """A step as a worker knows it that was thought dead, and as the worker knows it that has it now."""
    await driver.start(linear("a", "b", retries=3), 1)
    old = await driver.claim_one(worker_id="old")
    await driver.finish(released(old))
    return old, await driver.claim_one(worker_id="new")


@pytest.mark.parametrize(
    "late",
    [completed, errored, released, lambda step: errored(step, permanent=True), lambda step: expanded(step, [1, 2])],
    ids=["completed", "errored", "released", "failed", "expanded"],
)
async def test_a_result_whose_lease_was_lost_changes_nothing(driver: Driver, late: Any) -> None:
    old, new = await stale(driver)
    before = await everything()
    finished = await driver.finish(late(old))
    assert finished.lost == {old.id}
    assert await everything() == before
    assert (await driver.complete(new)).completed == {new.id}


async def test_a_lost_lease_spoils_nothing_else_in_the_batch(driver: Driver) -> None:
    old, new = await stale(driver)
    other = (await driver.start(linear("a"), 1)).run_ids[0]
    good = await driver.claim_one()
    finished = await driver.finish(completed(old), completed(good))
    assert (finished.lost, finished.completed) == ({old.id}, {good.id})
    assert (await driver.run(other)).status == "COMPLETED"
    assert (await driver.step(new.id)).lease_token == new.lease


async def test_a_result_that_is_recorded_twice_counts_once(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    step = await driver.claim_one()
    assert (await driver.finish(completed(step), completed(step))).completed == {step.id}
    before = await everything()
    assert (await driver.finish(completed(step))).lost == {step.id}
    assert await everything() == before
    assert (await driver.run(created.run_ids[0])).remaining_steps == 1


async def test_one_step_with_two_results_takes_one_of_them(driver: Driver) -> None:
    await driver.start(linear("a", "b"), 1)
    step = await driver.claim_one()
    finished = await driver.finish(errored(step), completed(step))
    assert (finished.completed, finished.failed, finished.lost) == ({step.id}, set(), set())


async def test_a_batch_takes_results_of_every_kind(driver: Driver) -> None:
    flow = workflow({"a": {"map": True, "retries": 2}, "b": {}})
    created = await driver.start(flow, 6)
    done, tried, doomed, back, wide, empty = await driver.claim()
    finished = await driver.finish(
        errored(tried),
        expanded(wide, "xy"),
        completed(done),
        errored(doomed, permanent=True),
        expanded(empty, []),
        released(back),
    )
    assert (finished.completed, finished.errored, finished.failed) == ({done.id, empty.id}, {tried.id}, {doomed.id})
    assert (finished.released, finished.expanded, finished.lost) == ({back.id}, {wide.id}, set())
    assert finished.ended_runs == {doomed.run_id: "FAILED"}
    statuses = [(await driver.statuses(run_id))["a"] for run_id in created.run_ids]
    assert statuses == ["COMPLETED", "ERROR", "FAILED", "PENDING", "RUNNING", "COMPLETED"]


async def test_an_empty_batch_does_nothing(driver: Driver) -> None:
    before = await everything()
    finished = await driver.finish()
    assert finished == ops.Finished()
    assert await everything() == before


@pytest.mark.parametrize(
    "outcome",
    [
        completed,
        released,
        errored,
        lambda step: errored(step, permanent=True),
        lambda step: expanded(step, ["x", "y"]),
        lambda step: expanded(step, []),
    ],
    ids=["completed", "released", "errored", "failed", "expanded", "empty map"],
)
async def test_the_number_of_statements_does_not_depend_on_the_number_of_results(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, outcome: Any
) -> None:
    await driver.start(workflow({"a": {"map": True, "retries": 3}, "b": {}}), 60)
    few, many = await driver.claim(2), await driver.claim(50)
    with recorded_statements(monkeypatch) as for_few:
        await driver.finish(*map(outcome, few))
    with recorded_statements(monkeypatch) as for_many:
        await driver.finish(*map(outcome, many))
    assert for_many == for_few


async def test_the_number_of_statements_does_not_depend_on_how_many_map_steps_end(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.start(workflow({"m": {"map": True}}), 30)
    await driver.finish(*(expanded(step, [1]) for step in await driver.claim(30)))
    few, many = await driver.claim(2), await driver.claim(28)
    with recorded_statements(monkeypatch) as for_few:
        await driver.fail(*few)
    with recorded_statements(monkeypatch) as for_many:
        await driver.fail(*many)
    assert for_many == for_few


async def test_branches_are_ready_together_and_joined_when_all_are_done(driver: Driver) -> None:
    created = await driver.start(workflow(DIAMOND), 1)
    await driver.complete(await driver.claim_one())
    left, right = await driver.claim()
    assert {left.name, right.name} == {"left", "right"}
    await driver.complete(left)
    assert await driver.claim() == []
    await driver.complete(right)
    join = await driver.claim_one()
    assert join.name == "join"
    await driver.complete(join)
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"


async def test_branches_that_end_in_one_batch_release_the_join_once(driver: Driver) -> None:
    await driver.start(workflow(DIAMOND), 2)
    await driver.complete(*await driver.claim())
    finished = await driver.complete(*await driver.claim())
    assert finished.ready_types == {"join"}
    assert [step.name for step in await driver.claim()] == ["join", "join"]


async def test_a_failure_cancels_what_waits_and_the_run_ends_when_what_runs_has_ended(driver: Driver) -> None:
    created = await driver.start(workflow(DIAMOND), 1)
    await driver.complete(await driver.claim_one())
    left, right = sorted(await driver.claim(), key=lambda step: step.name)
    finished = await driver.fail(left, message="no more")
    assert (finished.cancelled, finished.ended_runs) == (1, {})
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.remaining_steps, run.status_message) == ("RUNNING", 1, "step 'left' failed: no more")
    await assert_consistent()

    await driver.finish(released(right))
    assert await driver.statuses(run.id or 0) == {
        "read": "COMPLETED",
        "left": "FAILED",
        "right": "CANCELLED",
        "join": "CANCELLED",
    }
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.status_message) == ("FAILED", "step 'left' failed: no more")


async def test_a_branch_that_waits_for_its_retry_is_cancelled_with_the_rest(driver: Driver) -> None:
    created = await driver.start(workflow({"x": {"depends_on": [], "retries": 2}, "y": {"depends_on": []}}), 1)
    x, y = sorted(await driver.claim(), key=lambda step: step.name)
    await driver.finish(errored(x, delay=timedelta(hours=1)))
    await driver.fail(y)
    assert await driver.statuses(created.run_ids[0]) == {"x": "CANCELLED", "y": "FAILED"}
    assert (await driver.step(x.id)).available_at is None


async def test_what_errs_or_is_released_beside_a_failure_is_cancelled_in_the_same_batch(driver: Driver) -> None:
    created = await driver.start(workflow({key: {"depends_on": [], "retries": 2} for key in "xyz"}), 1)
    x, y, z = sorted(await driver.claim(), key=lambda step: step.name)
    finished = await driver.finish(errored(x), released(y), errored(z, permanent=True))
    assert finished.ended_runs == {created.run_ids[0]: "FAILED"}
    assert await driver.statuses(created.run_ids[0]) == {"x": "CANCELLED", "y": "CANCELLED", "z": "FAILED"}


async def test_two_failures_at_once_are_both_counted(driver: Driver) -> None:
    created = await driver.start(workflow({key: {"depends_on": []} for key in "xy"}), 1)
    await driver.fail(*await driver.claim())
    assert (await driver.run(created.run_ids[0])).failed_steps == 2


async def test_a_result_that_comes_after_the_failure_of_a_sibling_is_kept(driver: Driver) -> None:
    created = await driver.start(workflow(DIAMOND), 1)
    await driver.complete(await driver.claim_one())
    left, right = sorted(await driver.claim(), key=lambda step: step.name)
    await driver.fail(left)
    await driver.complete(right, output="done all the same")
    assert (await driver.step(right.id)).output == "done all the same"
    assert (await driver.run(created.run_ids[0])).status == "FAILED"


async def test_an_optional_step_that_fails_lets_the_run_go_on(driver: Driver) -> None:
    flow = workflow({"read": {}, "enrich": {"optional": True, "retries": 2}, "store": {}})
    created = await driver.start(flow, 1)
    names = await driver.drain(lambda step: errored(step) if step.name == "enrich" else completed(step))
    assert names == ["read", "enrich", "enrich", "store"]
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.failed_steps, run.status_message) == ("COMPLETED", 0, None)
    assert (await driver.statuses(created.run_ids[0]))["enrich"] == "FAILED"
    assert (await driver.group(created.group_id)).failed_runs == 0


async def test_a_run_of_nothing_but_a_failed_optional_step_completes(driver: Driver) -> None:
    created = await driver.start(linear("a", optional=True), 1)
    await driver.fail(await driver.claim_one())
    run = await driver.run(created.run_ids[0])
    assert (run.status, run.output) == ("COMPLETED", {"a": None})


async def test_a_group_ends_failed_if_a_run_failed_and_counts_them(driver: Driver) -> None:
    created = await driver.start(linear("a"), 3)
    good, bad, other = await driver.claim()
    await driver.finish(completed(good), errored(bad))
    assert (await driver.group(created.group_id)).status == "RUNNING"
    await driver.complete(other)
    group = await driver.group(created.group_id)
    assert (group.status, group.failed_runs, group.cancelled_runs) == ("FAILED", 1, 0)


async def test_one_batch_ends_runs_of_several_groups(driver: Driver) -> None:
    flow = linear("a")
    groups = [(await driver.start(flow, 2)).group_id for _ in range(3)]
    finished = await driver.complete(*await driver.claim())
    assert finished.ended_groups.keys() == set(groups)
    assert len(await driver.events("group_end")) == 3


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, "text", "", True, False, [], {}, [None], {"a": {"b": [1]}}, "\N{SNOWMAN}"]
)
async def test_any_json_comes_back_as_it_was_given(driver: Driver, value: Any) -> None:
    created = await driver.start(linear("a"), [ops.NewRun(input=value)])
    step = await driver.claim_one()
    assert step.run_input == value
    await driver.complete(step, output=value)
    stored = await driver.step(step.id)
    assert stored.output == value
    assert type(stored.output) is type(value)
    assert (await driver.run(created.run_ids[0])).output == {"a": value}
