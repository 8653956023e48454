"""What is going on: the steps that run now, and the runs that began or ended lately.

Nothing is indexed by time: every change of a step or run would have to maintain it. What changed lately belongs to
groups that have not ended, or ended lately; and the ends of groups are events, numbered as they happen, so that the
first one of a period is found by halving, in some twenty looks at the primary key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from soliplex.ingester.lib.models import (
    Database,
    LifeCycleEvent,
    LifecycleHistory,
    RunGroup,
    RunStatus,
    RunStep,
    WorkflowRun,
)
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.pieces import ROWS, in_pieces
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page
from soliplex.ingester.lib.wf.views.steps import IS_RUNNING, UNFINISHED, steps_of_runs

CLOCKS_DIFFER: Final = timedelta(minutes=5)
"""How far the clocks of two machines may be apart: an event bears the time of the worker that wrote it."""

FEW_GROUPS: Final = 1000


class Interval(StrEnum):
    """How far back `recent` looks."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def length(self) -> timedelta:
        return timedelta(**{f"{self.value}s": 1})


@dataclass(frozen=True, slots=True)
class RunActivity:
    """A run at the step it has come to."""

    workflow_run_id: int
    run_group_id: int
    batch_id: int | None
    workflow_definition_id: str
    param_definition_id: str
    doc_hash: str | None
    """What the run is about."""
    workflow_status: RunStatus
    step_id: int | None
    step_type: str | None
    workflow_step_name: str | None
    step_status: RunStatus | None
    retry: int | None
    worker_id: str | None
    status_message: str | None
    start_date: datetime | None
    completed_date: datetime | None
    elapsed_seconds: float | None


async def running_steps(*, paging: Paging = FIRST_PAGE, now: datetime | None = None) -> Page[RunActivity]:
    """The steps that run now, the longest-running first."""
    moment = now or utcnow()
    order = col(RunStep.start_date), col(RunStep.id)
    rows: Any = (
        select(RunStep, WorkflowRun, RunGroup.param_definition_id)
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .join(RunGroup, col(RunGroup.id) == col(WorkflowRun.run_group_id))
        .where(IS_RUNNING)  # pyright: ignore[reportArgumentType]  text is a condition too
        .order_by(*order)
    )
    total: Any = select(func.count()).select_from(RunStep).where(IS_RUNNING)  # pyright: ignore[reportArgumentType]
    page = await read_page(paging.within(rows), total, paging)
    return page.with_items([_running(step, run, params, moment) for step, run, params in page.items])


async def ended_since(since: datetime) -> list[sa.ColumnElement[bool]]:
    """The conditions that a run ended no earlier than this."""
    return [await in_groups_active_since(since), col(WorkflowRun.completed_date) >= since]


async def recent_runs(
    interval: Interval, *, status: RunStatus | None = None, paging: Paging = FIRST_PAGE, now: datetime | None = None
) -> Page[RunActivity]:
    """The runs that began or ended within the interval, those that changed last first, at the step each has come to."""
    moment = now or utcnow()
    since = moment - interval.length
    began, ended = col(WorkflowRun.start_date), col(WorkflowRun.completed_date)
    is_wanted = [await in_groups_active_since(since), sa.or_(began >= since, ended >= since)]
    if status is not None:
        is_wanted.append(col(WorkflowRun.status) == status)
    rows = select(WorkflowRun).where(*is_wanted)
    rows = rows.order_by(func.coalesce(ended, began).desc(), col(WorkflowRun.id).desc())
    total = select(func.count()).select_from(WorkflowRun).where(*is_wanted)
    page = await read_page(paging.within(rows), total, paging)
    return page.with_items(await _activities(page.items, moment))


async def in_groups_active_since(since: datetime) -> sa.ColumnElement[bool]:
    """The condition that a run belongs to a group that has not ended, or ended no earlier than this."""
    first = await first_event_since(since)
    unfinished = select(RunGroup.id).where(col(RunGroup.status).in_(UNFINISHED))
    ended = select(LifecycleHistory.run_group_id).where(
        col(LifecycleHistory.id) >= first,
        col(LifecycleHistory.event) == LifeCycleEvent.GROUP_END,
        col(LifecycleHistory.start_date) >= since,
    )
    active = sa.union(unfinished, ended)
    async with Database.session(read_only=True) as session:
        found: Any = await session.exec(active.limit(FEW_GROUPS + 1))  # pyright: ignore[reportCallIssue, reportArgumentType]
        group_ids = [row[0] for row in found]
    # Of groups it knows by their ids, PostgreSQL knows how many runs they have; else it would look at all runs by date.
    return col(WorkflowRun.run_group_id).in_(group_ids if len(group_ids) <= FEW_GROUPS else active)


async def first_event_since(since: datetime) -> int:
    """The id before which no event bears this moment or a later one, found by halving."""
    early = since - CLOCKS_DIFFER
    event_id = col(LifecycleHistory.id)
    async with Database.session(read_only=True) as session:
        low = (await session.exec(select(func.min(event_id)))).one() or 0
        high = ((await session.exec(select(func.max(event_id)))).one() or 0) + 1
        while low < high:
            middle = (low + high) // 2
            found = await _event_from(session, middle)
            if found is None or found[1] >= early:
                high = middle
            else:
                low = found[0] + 1
    return low


async def _event_from(session: AsyncSession, event_id: int) -> tuple[int, datetime] | None:
    """The first event with this id or a higher one: groups that were deleted leave gaps."""
    query = (
        select(LifecycleHistory.id, LifecycleHistory.start_date)
        .where(col(LifecycleHistory.id) >= event_id)
        .order_by(col(LifecycleHistory.id))
        .limit(1)
    )
    row = (await session.exec(query)).first()
    return (row[0] or 0, row[1]) if row is not None else None


async def _activities(runs: Sequence[WorkflowRun], now: datetime) -> list[RunActivity]:
    steps = await steps_of_runs(run.id for run in runs if run.id is not None)
    params = await _parameter_sets({run.run_group_id for run in runs})
    return [
        _at_step(run, _current(steps[run.id or 0]), params.get(run.run_group_id, ""), now)
        async for some in in_pieces(runs, ROWS)
        for run in some
    ]


async def _parameter_sets(group_ids: set[int]) -> dict[int, str]:
    query = select(RunGroup.id, RunGroup.param_definition_id).where(col(RunGroup.id).in_(group_ids))
    async with Database.session(read_only=True) as session:
        return {group_id: params for group_id, params in await session.exec(query) if group_id is not None}


def _current(steps: Sequence[RunStep]) -> RunStep | None:
    """The step that began last."""
    begun = [step for step in steps if step.start_date is not None]
    return max(begun, key=lambda step: (step.start_date, step.workflow_step_number), default=None)


def _at_step(run: WorkflowRun, step: RunStep | None, params: str, now: datetime) -> RunActivity:
    """A run with its own times: it has been at work since its first step."""
    end = run.completed_date or now
    return RunActivity(
        workflow_run_id=run.id or 0,
        run_group_id=run.run_group_id,
        batch_id=run.batch_id,
        workflow_definition_id=run.workflow_definition_id,
        param_definition_id=params,
        doc_hash=run.doc_id,
        workflow_status=run.status,
        step_id=step.id if step else None,
        step_type=step.step_type if step else None,
        workflow_step_name=step.workflow_step_name if step else None,
        step_status=step.status if step else None,
        retry=step.retry if step else None,
        worker_id=step.worker_id if step else None,
        status_message=run.status_message or (step.status_message if step else None),
        start_date=run.start_date,
        completed_date=run.completed_date,
        elapsed_seconds=(end - run.start_date).total_seconds() if run.start_date else None,
    )


def _running(step: RunStep, run: WorkflowRun, params: str, now: datetime) -> RunActivity:
    """A running step with the step's own times."""
    whole = _at_step(run, step, params, now)
    elapsed = (now - step.start_date).total_seconds() if step.start_date else None
    return replace(whole, start_date=step.start_date, elapsed_seconds=elapsed, status_message=step.status_message)
