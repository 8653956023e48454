"""The queue: how much is ready, since when, and what waits for something else, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from soliplex.ingester.lib.models import ResourceLockKind
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.execution import SEARCH
from soliplex.ingester.lib.wf.views import WaitReason, queues
from soliplex.ingester.lib.wf.work import NewSubflow, Parked
from tests.support.engine import Driver, errored, expanded, linear, parked, released, workflow

HOUR = timedelta(hours=1)


async def depths(driver: Driver) -> dict[str, tuple[int, bool, int]]:
    return {
        each.step_type: (each.ready, each.is_exact, each.running)
        for each in await views.queue_depths(now=driver.moment)
    }


async def test_ready_and_running_steps_are_counted_by_type(driver: Driver) -> None:
    assert await views.queue_depths() == []
    await driver.start(workflow({"a": {}, "b": {}}), 5)
    await driver.start(workflow({"store": {}}, workflow_id="store"), 3, resource_keys={"store": "shelf"})
    steps = await driver.claim(3, types=["a"])
    await driver.complete(steps[0])
    assert await depths(driver) == {"a": (2, True, 2), "b": (1, True, 0), "store": (3, True, 0)}


async def test_a_count_that_stops_says_so(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "MOST", 4)
    await driver.start(linear("a"), 3)
    assert await depths(driver) == {"a": (3, True, 0)}
    await driver.start(linear("a"), 3)
    assert await depths(driver) == {"a": (4, False, 0)}


async def test_the_oldest_ready_step_tells_since_when_it_could_have_begun(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"))
    began = driver.moment
    first = await driver.claim_one()
    driver.pass_time(HOUR)
    await driver.complete(first)
    freed = driver.moment
    await driver.start(workflow({"c": {}}, workflow_id="other"))
    b, c = await views.queue_depths(now=freed + timedelta(seconds=90))
    assert b.oldest is not None
    assert c.oldest is not None
    assert (b.oldest.workflow_run_id, b.oldest.ready_since, b.oldest.waits) == (created.run_ids[0], freed, 90)
    assert c.oldest.ready_since > began


async def test_a_type_that_no_worker_takes_is_seen(driver: Driver) -> None:
    await driver.start(linear("a"))
    await ops.check_in("one", now=driver.now(), meta={"consumers": {"b": 2}})
    assert [each.workers for each in await views.queue_depths()] == [0]
    await ops.check_in("two", now=driver.now(), meta={"consumers": {"*": 2}})
    assert [each.workers for each in await views.queue_depths()] == [1]


async def test_steps_that_wait_are_told_with_the_reason(driver: Driver) -> None:
    sub = workflow({"z": {}}, workflow_id="sub")
    await driver.start(linear("a", retries=2), 5)
    signalled, timed, failed, unknown, over = await driver.claim(5)
    await driver.finish(
        parked(signalled, awaits="approval"),
        parked(timed, delay=HOUR),
        errored(failed, delay=2 * HOUR),
        replace(released(unknown), message="waits for a worker", meta={SEARCH: {}}, delay=timedelta(seconds=30)),
        Parked(
            step_id=over.id,
            run_id=over.run_id,
            lease=over.lease,
            awaits=f":subflow:{over.id}:0",
            subflow=NewSubflow(sub, None, None),
        ),
    )
    await driver.signal("nobody waits for it")
    found = await views.what_waits(now=driver.now())
    assert {each.reason: each.steps for each in found.reasons} == {
        WaitReason.SIGNAL: 1,
        WaitReason.TIME: 1,
        WaitReason.RETRY: 1,
        WaitReason.WORKER: 1,
        WaitReason.SUBFLOW: 1,
    }
    assert (found.is_exact, found.signals, found.resources) == (True, 1, [])
    ends = {each.reason: each.next_at for each in found.reasons}
    assert ends[WaitReason.SIGNAL] is None
    assert ends[WaitReason.TIME] is not None

    steps = await views.waiting_steps()
    assert [(each.reason, each.step_id) for each in steps] == [
        (WaitReason.WORKER, unknown.id),
        (WaitReason.TIME, timed.id),
        (WaitReason.RETRY, failed.id),
        (WaitReason.SIGNAL, signalled.id),
        (WaitReason.SUBFLOW, over.id),
    ]
    (one,) = await views.waiting_steps(reason=WaitReason.SIGNAL)
    assert (one.awaits, one.until, one.workflow_definition_id) == ("approval", None, "flow")
    assert len(await views.waiting_steps(limit=2)) == 2


async def test_a_step_that_was_executed_after_a_search_does_not_wait_for_a_worker(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(
        replace(released(step), message="waits for a worker", meta={SEARCH: {}}, delay=timedelta(seconds=1))
    )
    driver.pass_time(HOUR)
    await driver.finish(parked(await driver.claim_one(), delay=HOUR))
    assert [each.reason for each in await views.waiting_steps()] == [WaitReason.TIME]


async def test_a_resource_that_others_hold_is_told_with_the_steps_that_wait_for_it(driver: Driver) -> None:
    store = workflow({"store": {}}, workflow_id="store")
    await driver.start(store, 3, resource_keys={"store": "shelf"})
    await driver.start(store, 2, resource_keys={"store": "free"})
    assert (await views.what_waits(now=driver.now())).resources == []
    await ops.acquire_resource_lock("shelf", "cli:me", ResourceLockKind.CLI, ttl=HOUR, now=driver.now())
    found = await views.what_waits(now=driver.now())
    (held,) = found.resources
    assert (held.resource_key, held.holder_id, held.steps, held.is_exact) == ("shelf", "cli:me", 3, True)
    assert [(each.reason, each.steps) for each in found.reasons] == [(WaitReason.RESOURCE, 3)]
    assert (await views.what_waits(now=driver.moment + 2 * HOUR)).resources == []


async def test_tasks_count_as_steps_of_their_type(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True}}))
    await driver.finish(expanded(await driver.claim_one(), range(7)))
    await driver.claim(2)
    assert await depths(driver) == {"m": (5, True, 2)}
