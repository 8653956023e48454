"""Schedules: one run for each due time, whoever notices; what was missed is caught up with once, or counted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.errors import UnknownDefinitionError
from tests.support.engine import Driver, linear, rows_of, scalar

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
START = datetime(2030, 1, 1, tzinfo=UTC)


async def add(driver: Driver, name: str = "hourly", cron: str = "0 * * * *", **facts: object) -> None:
    linear("a")
    await ops.add_schedule(name, "flow", cron, now=driver.now(), **facts)  # pyright: ignore[reportArgumentType]


async def start_due(driver: Driver) -> int:
    return await ops.start_due_schedules(now=driver.now())


async def test_a_run_is_started_when_it_is_due_and_not_before(driver: Driver) -> None:
    await add(driver, input={"n": 1}, priority=3, longest=HOUR)
    assert await start_due(driver) == 0
    driver.pass_time(HOUR)
    assert await start_due(driver) == 1
    assert await start_due(driver) == 0
    schedule = await ops.find_schedule("hourly")
    assert (schedule.last_due_at, schedule.next_due_at) == (START + HOUR, START + 2 * HOUR)
    assert schedule.last_run_id is not None
    run = await driver.run(schedule.last_run_id)
    assert (run.input, run.priority, run.deadline) == ({"n": 1}, 3, run.created_date + HOUR)
    assert run.run_params == {"schedule": "hourly", "due_at": (START + HOUR).isoformat()}
    await driver.drain()


async def test_many_workers_start_it_once(driver: Driver) -> None:
    await add(driver)
    driver.pass_time(HOUR)
    assert sum(await asyncio.gather(*(start_due(driver) for _ in range(8)))) == 1
    assert await scalar("SELECT count(*) FROM workflowrun") == 1
    await driver.drain()


async def test_what_was_missed_is_caught_up_with_once(driver: Driver) -> None:
    await add(driver)
    driver.pass_time(5 * HOUR + 30 * MINUTE)
    assert await start_due(driver) == 1
    schedule = await ops.find_schedule("hourly")
    assert (schedule.last_due_at, schedule.next_due_at, schedule.missed) == (START + 5 * HOUR, START + 6 * HOUR, 4)
    await driver.drain()


async def test_without_catching_up_what_was_missed_is_counted_and_left(driver: Driver) -> None:
    await add(driver, catch_up=False)
    driver.pass_time(5 * HOUR + 30 * MINUTE)
    assert await start_due(driver) == 0
    assert (await ops.find_schedule("hourly")).missed == 5
    driver.pass_time(30 * MINUTE)
    assert await start_due(driver) == 1
    await driver.drain()


async def test_a_clock_that_was_ahead_for_a_while_holds_nothing_up(driver: Driver) -> None:
    await add(driver)
    driver.pass_time(HOUR)
    assert await start_due(driver) == 1
    assert await ops.start_due_schedules(now=driver.now() + timedelta(days=400)) == 1
    assert await start_due(driver) == 0
    assert (await ops.find_schedule("hourly")).next_due_at == START + 2 * HOUR
    driver.pass_time(HOUR)
    assert await start_due(driver) == 1
    assert await start_due(driver) == 0
    await driver.drain()


async def test_a_schedule_that_is_paused_starts_nothing_until_it_is_resumed(driver: Driver) -> None:
    await add(driver)
    await ops.pause_schedule("hourly")
    driver.pass_time(3 * HOUR + MINUTE)
    assert await start_due(driver) == 0
    await ops.resume_schedule("hourly", now=driver.now())
    assert await start_due(driver) == 0, "what was due meanwhile is not caught up with"
    driver.pass_time(HOUR)
    assert await start_due(driver) == 1
    await driver.drain()


async def test_a_workflow_that_is_gone_is_told_of_and_others_are_started(driver: Driver) -> None:
    await add(driver)
    flow = linear("b")
    await ops.save_workflow(flow)
    await ops.add_schedule("gone", "flow", "0 * * * *", now=driver.now())
    get_registry().unregister("flow")
    await ops.delete_definition(DefinitionKind.WORKFLOW, "flow")
    driver.pass_time(HOUR)
    assert await start_due(driver) == 0
    schedule = await ops.find_schedule("gone")
    assert "'flow' does not exist" in (schedule.status_message or "")
    assert schedule.next_due_at == START + 2 * HOUR
    linear("a")
    driver.pass_time(HOUR)
    assert await start_due(driver) == 2
    assert (await ops.find_schedule("gone")).status_message is None
    await driver.drain()


async def test_schedules_are_listed_and_removed_by_name(driver: Driver) -> None:
    await add(driver, "b")
    await add(driver, "a")
    assert [each.name for each in await ops.list_schedules()] == ["a", "b"]
    await ops.remove_schedule("a")
    assert await rows_of("SELECT name FROM schedule") == [("b",)]
    for act in (ops.remove_schedule, ops.pause_schedule, ops.resume_schedule):
        with pytest.raises(NotFoundError, match="schedule 'a'"):
            await act("a")


async def test_what_cannot_be_is_refused_and_nothing_is_stored(driver: Driver) -> None:
    linear("a")
    await add(driver)
    with pytest.raises(ConflictError, match="already"):
        await add(driver)
    with pytest.raises(InvalidInputError, match="cron"):
        await add(driver, "x", "99 * * * *")
    with pytest.raises(InvalidInputError, match="time_zone"):
        await add(driver, "x", time_zone="Mars")
    with pytest.raises(InvalidInputError, match="input"):
        await add(driver, "x", input={"nul": "\x00"})
    with pytest.raises(UnknownDefinitionError):
        await ops.add_schedule("x", "unknown", "0 * * * *", now=driver.now())
    assert await scalar("SELECT count(*) FROM schedule") == 1
