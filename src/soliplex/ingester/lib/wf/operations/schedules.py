"""Schedules: workflows that are started at due times, each time once, whichever worker notices first.

A worker that finds a schedule due holds its row, starts the run and writes down the next due time, in one transaction.
The run's key names the schedule and the due time, so that no two runs are ever started for the same one. What was due
while no worker was there is started once, late, if the schedule catches up; else it is counted as missed.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any, Final

from sqlmodel import col, select

from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database, Schedule
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row, Script, datetime_of, json_of, single
from soliplex.ingester.lib.storable import as_storable_json, checked_integer, checked_name
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.cron import LATE, Due, DueTimes
from soliplex.ingester.lib.wf.definitions import ParameterSet
from soliplex.ingester.lib.wf.errors import DefinitionError, UnknownDefinitionError
from soliplex.ingester.lib.wf.operations.definitions import find_workflow, learn_definitions, pin
from soliplex.ingester.lib.wf.operations.payloads import refuse_references
from soliplex.ingester.lib.wf.operations.runs import NewRun, Start, start_one
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL, work_is_ready

_log = logging.getLogger(__name__)

AT_ONCE: Final = 100
NAME_OF_KEY: Final = "schedule"


async def add_schedule(
    name: str,
    workflow_id: str,
    cron: str,
    *,
    time_zone: str = "UTC",
    param_id: str | None = None,
    input: Any = None,  # noqa: A002  as that of a run
    priority: int = 0,
    longest: timedelta | None = None,
    catch_up: bool = True,
    now: datetime | None = None,
) -> Schedule:
    """Start the workflow at every due time from now on. `longest` is how long a run may take before it fails."""
    moment = now or utcnow()
    times = DueTimes.parse(cron, time_zone)
    await learn_definitions()
    await find_workflow(workflow_id)
    if param_id is not None:
        get_registry().parameter_set(param_id)
    if longest is not None and longest <= timedelta():
        raise InvalidInputError("longest", f"is {longest}; give more than 0")
    schedule = Schedule(
        name=checked_name("name", name),
        workflow_id=workflow_id,
        param_id=param_id,
        cron=cron,
        time_zone=time_zone,
        input=_checked(input),
        priority=checked_integer("priority", priority),
        deadline_seconds=longest.total_seconds() if longest else None,
        catch_up=catch_up,
        created_date=moment,
        next_due_at=times.after(moment),
    )
    async with Database.session() as session:
        if (await session.exec(select(Schedule.id).where(Schedule.name == name))).first() is not None:
            raise ConflictError(f"there is a schedule {name!r} already; remove it first, or choose another name")
        session.add(schedule)
    return schedule


def _checked(value: Any) -> Any:
    refuse_references("input", as_storable_json("input", value))
    return value


async def list_schedules() -> list[Schedule]:
    """All schedules, by name."""
    async with Database.session(read_only=True) as session:
        return list((await session.exec(select(Schedule).order_by(col(Schedule.name)))).all())


async def find_schedule(name: str) -> Schedule:
    async with Database.session(read_only=True) as session:
        found = (await session.exec(select(Schedule).where(Schedule.name == name))).first()
    if found is None:
        raise NotFoundError("schedule", name)
    return found


async def pause_schedule(name: str) -> None:
    """Start nothing until the schedule is resumed. What is due meanwhile is not caught up with."""
    await _set_next(name, None)


async def resume_schedule(name: str, *, now: datetime | None = None) -> None:
    """Go on with the next due time."""
    schedule = await find_schedule(name)
    if schedule.next_due_at is None:
        await _set_next(name, DueTimes.parse(schedule.cron, schedule.time_zone).after(now or utcnow()))


async def _set_next(name: str, due: datetime | None) -> None:
    if not await Database.transact(single(SQL.set_next_due(name=name, due=due))):
        raise NotFoundError("schedule", name)


async def remove_schedule(name: str) -> None:
    """Forget the schedule. Runs that it has started go on."""
    if not await Database.transact(single(SQL.delete_schedule(name=name))):
        raise NotFoundError("schedule", name)


async def start_due_schedules(*, now: datetime | None = None) -> int:
    """Start what is due; gives how many runs."""
    moment = now or utcnow()
    rows = await Database.read(SQL.due_schedules(now=moment, ahead=moment + LATE, limit=AT_ONCE))
    started = 0
    for row in rows:
        if row["is_ahead"]:
            await _set_back(row, moment)
        else:
            started += await _start_due(row, moment)
    if started:
        work_is_ready()
    return started


async def _set_back(row: Row, now: datetime) -> None:
    """Go on from now with a schedule whose last due time is yet to come: some worker's clock was ahead."""
    due = DueTimes.parse(row["cron"], row["time_zone"]).after(now)
    _log.warning("schedule %r was started by a clock that was ahead; it goes on with %s", row["name"], due)
    await Database.transact(single(SQL.set_schedule_back(id=row["id"], due=due, now=now)))


async def _start_due(row: Row, now: datetime) -> bool:
    try:
        start = await _start_of(row, now)
    except (UnknownDefinitionError, DefinitionError, InvalidInputError) as exc:
        _log.warning("schedule %r cannot be started: %s", row["name"], exc)
        return await Database.transact(_run(row, None, str(exc), now))
    return await Database.transact(_run(row, start, None, now))


async def _start_of(row: Row, now: datetime) -> Start:
    await learn_definitions()
    workflow = await find_workflow(row["workflow_id"])
    params: ParameterSet | None = get_registry().parameter_set(row["param_id"]) if row["param_id"] else None
    deadline = now + timedelta(seconds=row["deadline_seconds"]) if row["deadline_seconds"] else None
    return Start(
        workflow=workflow,
        params=params,
        priority=row["priority"],
        now=now,
        deadline=deadline,
        definition_id=await pin(workflow),
    )


def _run(row: Row, start: Start | None, problem: str | None, now: datetime) -> Script[bool]:
    """Start the run, unless another worker has done so meanwhile. Where nothing is to be started, only say why."""
    held = yield SQL.hold_due_schedule(id=row["id"], now=now)
    if not held:
        return False
    since = datetime_of(held[0], "next_due_at")
    assert since is not None, "only a schedule that is due is held"
    due = DueTimes.parse(row["cron"], row["time_zone"]).due(since, now)
    is_wanted = start is not None and (row["catch_up"] or not due.is_late)
    run_id = (yield from _started(row, start, due)) if is_wanted and start is not None else None
    yield SQL.advance_schedule(
        id=row["id"],
        next_due_at=due.next,
        last_due_at=due.at,
        last_run_id=run_id,
        missed=due.missed - (1 if run_id is not None and due.is_late else 0),
        message=problem,
    )
    return run_id is not None


def _started(row: Row, start: Start, due: Due) -> Script[int]:
    at = due.at.isoformat()
    run = NewRun(
        input=json_of(row, "input"),
        key=f"{NAME_OF_KEY}:{row['id']}:{at}",
        params={"schedule": row["name"], "due_at": at},
    )
    started = yield from start_one(start, f"schedule {row['name']}", run)
    yield SQL.notify(channel=WORK_CHANNEL, types="")
    return started.run_id
