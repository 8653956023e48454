"""Events: rows written with the change they tell of, and delivered to handlers until they succeed or give up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.models import Database, LifeCycleEvent, RunStatus
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.registry import Registry
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    released,
    workflow,
)

EVERY = {event.value: ["tell"] for event in LifeCycleEvent}


async def told(driver: Driver, *names: str) -> list[tuple[str, Any, Any]]:
    return [(event.event.value, event.workflow_run_id, event.step_id) for event in await driver.events(*names)]


async def test_without_handlers_the_events_of_groups_are_kept_as_records(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}, "b": {}}), 1)
    claim = await ops.claim_steps("me", ops.Pool(), 1, now=driver.now())
    assert claim.has_deliveries is False
    finished = await driver.complete(*claim.steps)
    assert finished.has_deliveries is False
    await driver.drain()
    assert await told(driver) == [("group_start", None, None), ("group_end", None, None)]
    for event in await driver.events():
        assert (event.status, event.handler_name, event.run_group_id) == ("COMPLETED", None, created.group_id)
        assert event.completed_date == event.start_date
    assert await ops.claim_events("me", 10, now=driver.now()) == []
    assert await ops.next_event_due() is None


async def test_with_handlers_every_event_is_there_to_be_delivered(driver: Driver) -> None:
    flow = workflow({"a": {}, "b": {}}, events=EVERY)
    good, bad = (await driver.start(flow, 2)).run_ids
    claim = await ops.claim_steps("me", ops.Pool(), 2, now=driver.now())
    assert claim.has_deliveries is True
    first, second = claim.steps
    finished = await driver.finish(completed(first), errored(second, "too bad"))
    assert finished.has_deliveries is True
    b = await driver.claim_one()
    await driver.complete(b)
    assert await told(driver) == [
        ("group_start", None, None),
        ("item_start", good, None),
        ("item_start", bad, None),
        ("step_start", good, first.id),
        ("step_start", bad, second.id),
        ("step_end", good, first.id),
        ("step_failed", bad, second.id),
        ("item_failed", bad, None),
        ("step_start", good, b.id),
        ("step_end", good, b.id),
        ("item_end", good, None),
        ("group_end", None, None),
    ]
    assert {event.status for event in await driver.events()} == {RunStatus.PENDING}


async def test_an_event_with_several_handlers_is_a_row_for_each(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, events={"group_end": ["vacuum", "notify"]}), 2)
    await driver.drain()
    events = await driver.events("group_end")
    assert [event.handler_name for event in events] == ["vacuum", "notify"]
    assert all(event.retries == 1 for event in events)


async def test_a_failure_tells_what_failed_and_why(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}), 1)
    await driver.fail(await driver.claim_one(), message="no such page")
    messages = {event.event.value: event.status_message for event in await driver.events("step_failed", "item_failed")}
    assert messages == {"step_failed": "no such page", "item_failed": "step 'a' failed: no such page"}


async def test_a_run_that_ends_long_after_its_failure_still_tells_the_reason(driver: Driver) -> None:
    await driver.start(workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}), 1)
    x, y = sorted(await driver.claim(), key=lambda step: step.name)
    await driver.fail(x, message="broken")
    assert await driver.events("item_failed") == []
    await driver.finish(released(y))
    (event,) = await driver.events("item_failed")
    assert event.status_message == "step 'x' failed: broken"


async def test_a_cancelled_run_tells_that_it_was_cancelled(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}}), 1)
    await ops.cancel_run(created.run_ids[0], now=driver.now())
    (event,) = await driver.events("item_failed")
    assert event.status_message == "the run was cancelled"
    assert await told(driver, "step_end", "step_failed") == []


async def test_attempts_that_will_be_repeated_are_no_failures(driver: Driver) -> None:
    await driver.start(workflow({"a": {"retries": 3}}, events=EVERY), 1)
    await driver.drain(lambda step: completed(step) if step.retry == 2 else errored(step))
    names = [name for name, _, _ in await told(driver)]
    assert names.count("step_start") == 3
    assert names.count("step_end") == 1
    assert "step_failed" not in names


async def test_tasks_of_a_map_tell_of_themselves_and_the_step_of_its_end(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True}}, events={"step_end": ["tell"], "step_failed": ["tell"]}), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, [1, 2]))
    assert await told(driver, "step_end") == []
    first, second = await driver.claim()
    await driver.complete(first)
    await driver.complete(second)
    assert [step_id for _, _, step_id in await told(driver, "step_end")] == [first.id, second.id, step.id]


async def test_an_optional_step_that_fails_is_told_without_the_run_failing(driver: Driver) -> None:
    await driver.start(workflow({"a": {"optional": True}, "b": {}}), 1)
    await driver.drain(lambda step: errored(step) if step.name == "a" else completed(step))
    assert len(await driver.events("step_failed")) == 1
    assert await driver.events("item_failed") == []


async def test_a_run_whose_definition_is_gone_ends_all_the_same(driver: Driver, registry: Registry) -> None:
    created = await driver.start(workflow({"a": {}, "b": {}}, events=EVERY), 1)
    registry.unregister("flow")
    assert await driver.drain() == ["a", "b"]
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_a_delivery_says_what_it_is_about(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {}}, events={"step_failed": ["alert"]}), 1)
    step = await driver.claim_one()
    await driver.fail(step, message="no")
    (delivery,) = await ops.claim_events("me", 10, now=driver.now())
    assert (delivery.event, delivery.handler_name) == (LifeCycleEvent.STEP_FAILED, "alert")
    assert (delivery.group_id, delivery.run_id, delivery.step_id) == (created.group_id, step.run_id, step.id)
    assert (delivery.retry, delivery.message) == (0, "no")
    (row,) = await driver.events("step_failed")
    assert (row.status, row.worker_id, row.lease_token) == ("RUNNING", "me", delivery.lease)
    assert await ops.complete_event(delivery, now=driver.now())
    (row,) = await driver.events("step_failed")
    assert (row.status, row.lease_token, row.completed_date) == ("COMPLETED", None, driver.moment)
    assert not await ops.complete_event(delivery, now=driver.now())


async def test_events_are_delivered_in_the_order_they_happened(driver: Driver) -> None:
    await driver.start(workflow({"a": {}, "b": {}}, events=EVERY), 2)
    await driver.drain()
    rows = [event.id for event in await driver.events()]
    delivered: list[int] = []
    while batch := await ops.claim_events("me", 3, now=driver.now()):
        assert len(batch) <= 3
        delivered += [delivery.id for delivery in batch]
    assert delivered == rows


async def test_a_delivery_that_fails_is_repeated_when_due_until_its_attempts_are_used_up(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, events={"item_failed": ["alert"]}, event_retries=3), 1)
    await driver.fail(await driver.claim_one(), message="the reason")
    due = driver.moment
    for attempt in range(3):
        (delivery,) = await ops.claim_events("me", 10, now=driver.now())
        assert (delivery.retry, delivery.message) == (attempt, "step 'a' failed: the reason")
        due = driver.moment + timedelta(seconds=30)
        status = await ops.error_event(delivery, "host is away", available_at=due, now=driver.now())
        assert status == ("ERROR" if attempt < 2 else "FAILED")
        assert await ops.claim_events("me", 10, now=driver.now()) == []
        if attempt < 2:
            assert await ops.next_event_due() == due
        driver.moment = due
    (row,) = await driver.events("item_failed")
    assert (row.status, row.retry, row.status_message) == ("FAILED", 3, "host is away")
    assert row.completed_date is not None
    assert await ops.claim_events("me", 10, now=driver.now()) == []


async def test_a_delivery_given_back_counts_no_attempt(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, events={"item_end": ["tell"]}), 1)
    await driver.drain()
    (delivery,) = await ops.claim_events("me", 10, now=driver.now())
    await ops.release_event(delivery, now=driver.now())
    (again,) = await ops.claim_events("you", 10, now=driver.now())
    assert (again.id, again.retry) == (delivery.id, 0)
    assert await ops.error_event(delivery, "late", available_at=driver.moment) is None
    assert await ops.complete_event(again, now=driver.now())


async def test_a_delivery_is_claimed_by_one_of_many(database: type[Database]) -> None:
    driver = Driver()
    await driver.start(workflow({"a": {}}, events={"item_end": ["tell"]}), 40)
    await driver.drain()
    moment = driver.now()
    claimed = await asyncio.gather(*(ops.claim_events(f"w{n}", 7, now=moment) for n in range(8)))
    ids = [delivery.id for batch in claimed for delivery in batch]
    assert len(ids) == len(set(ids)) == 40


@pytest.mark.parametrize("handlers", [(), ("vacuum",)])
async def test_a_group_tells_its_end_exactly_once_however_its_runs_end(
    driver: Driver, handlers: tuple[str, ...]
) -> None:
    flow = workflow({"a": {}}, events={"group_end": handlers} if handlers else None)
    created = await driver.start(flow, 6)
    steps = await driver.claim()
    await ops.cancel_run(created.run_ids[5], now=driver.now())
    await driver.finish(completed(steps[0]), errored(steps[1]))
    await driver.finish(released(steps[5]), completed(steps[2]))
    for step in steps[3:5]:
        assert await driver.events("group_end") == []
        await driver.complete(step)
        await ops.recompute_run_status(step.run_id, now=driver.now())
    await ops.try_complete_run_group(created.group_id, now=driver.now())
    assert len(await driver.events("group_end")) == 1
    await assert_consistent()
