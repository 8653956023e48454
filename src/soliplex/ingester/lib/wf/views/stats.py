"""How much was done, how well and how fast: by group, by batch, or lately.

A page is counted where a step says in its output how many pages it saw (`{"pages": 12}`); a run has as many as the step
that saw most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func

from soliplex.ingester.lib.models import Database, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.views.activity import Interval, ended_since, in_groups_active_since
from soliplex.ingester.lib.wf.views.expressions import EpochSecond, JsonNumber, seconds_between
from soliplex.ingester.lib.wf.views.groups import get_run_group

_BUCKETS: Final = {
    Interval.MINUTE: timedelta(seconds=1),
    Interval.HOUR: timedelta(minutes=1),
    Interval.DAY: timedelta(hours=1),
    Interval.WEEK: timedelta(days=1),
}
_SECONDS_PER_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class StepDurations:
    """How long the steps of one type took, in seconds."""

    step_type: str
    count: int
    longest: float
    shortest: float
    average: float
    pages: int
    pages_per_min: float | None
    total_duration: float
    """The sum over all steps, however many ran side by side."""
    wall_clock_time: float
    """From the first start to the last end."""


@dataclass(frozen=True, slots=True)
class StepStats:
    """How many steps of a group, of one name, are in a status."""

    name: str | None
    """The name of the group."""
    param_definition_id: str
    workflow_step_name: str
    status: RunStatus
    count: int
    pages: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """What ended within a piece of the interval."""

    start: datetime
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class Throughput:
    """How many runs, one for each document, ended lately."""

    interval: Interval
    since: datetime
    until: datetime
    completed: int
    failed: int
    cancelled: int
    documents_per_minute: float
    buckets: list[Bucket]


@dataclass(frozen=True, slots=True)
class TypeThroughput:
    """How many steps and tasks of one type ended lately, and when."""

    step_type: str
    completed: int
    failed: int
    cancelled: int
    per_minute: float
    """Steps completed per minute."""
    average_seconds: float | None
    """How long those steps took on average that were executed to an end."""
    buckets: list[Bucket]


@dataclass(frozen=True, slots=True)
class StepRates:
    """How the steps of one type end."""

    step_type: str
    completed: int
    failed: int
    cancelled: int
    unfinished: int
    retried: int
    """How many of all these steps needed more than one attempt."""
    success_rate: float | None
    """Completed among completed and failed; None while none has ended."""
    failure_rate: float | None


async def step_durations(run_group_id: int) -> list[StepDurations]:
    """The durations of a group's executed steps, by type in the order of the workflow."""
    await get_run_group(run_group_id)
    pages = _pages_of_runs(run_group_id)
    took = seconds_between(RunStep.start_date, RunStep.completed_date)
    query: Any = (
        sa.select(
            col(RunStep.step_type),
            func.count(),
            func.max(took),
            func.min(took),
            func.sum(took),
            func.sum(func.coalesce(pages.c.pages, 0)),
            func.min(col(RunStep.start_date)),
            func.max(col(RunStep.completed_date)),
        )
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .outerjoin(pages, pages.c.run_id == col(WorkflowRun.id))
        .where(col(WorkflowRun.run_group_id) == run_group_id, col(RunStep.parent_step_id).is_(None))
        .where(col(RunStep.start_date).is_not(None), col(RunStep.completed_date).is_not(None))
        .group_by(col(RunStep.step_type))
        .order_by(func.min(col(RunStep.workflow_step_number)), col(RunStep.step_type))
    )
    return [_durations(row) for row in await _rows(query)]


async def step_stats(run_group_id: int) -> list[StepStats]:
    """How many of a group's steps are in which status, by name in the order of the workflow."""
    group = await get_run_group(run_group_id)
    pages = _pages_of_runs(run_group_id)
    name, status = col(RunStep.workflow_step_name), col(RunStep.status)
    query: Any = (
        sa.select(name, status, func.count(), func.sum(func.coalesce(pages.c.pages, 0)))
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .outerjoin(pages, pages.c.run_id == col(WorkflowRun.id))
        .where(col(WorkflowRun.run_group_id) == run_group_id, col(RunStep.parent_step_id).is_(None))
        .group_by(name, status)
        .order_by(func.min(col(RunStep.workflow_step_number)), name, status)
    )
    return [
        StepStats(group.name, group.param_definition_id, row[0], RunStatus(row[1]), row[2], int(row[3] or 0))
        for row in await _rows(query)
    ]


async def throughput(interval: Interval, *, now: datetime | None = None) -> Throughput:
    """The runs that ended within the interval, and when."""
    until = now or utcnow()
    since = until - interval.length
    bucket, status = _bucket_of(WorkflowRun.completed_date, interval, since), col(WorkflowRun.status)
    query: Any = (
        sa.select(bucket, status, func.count())
        .where(*await ended_since(since), col(WorkflowRun.completed_date) <= until)
        .group_by(bucket, status)
    )
    counts = {(int(row[0]), RunStatus(row[1])): row[2] for row in await _rows(query)}
    buckets = _buckets(interval, since, counts)
    completed = sum(each.completed for each in buckets)
    return Throughput(
        interval=interval,
        since=since,
        until=until,
        completed=completed,
        failed=sum(each.failed for each in buckets),
        cancelled=sum(each.cancelled for each in buckets),
        documents_per_minute=completed / (interval.length.total_seconds() / _SECONDS_PER_MINUTE),
        buckets=buckets,
    )


async def throughput_by_type(interval: Interval, *, now: datetime | None = None) -> list[TypeThroughput]:
    """The steps and tasks that ended within the interval, and when, by type.

    They are found through runs that ended since, or go on: steps are not indexed by time.
    """
    until = now or utcnow()
    since = until - interval.length
    step_type, status, ended = col(RunStep.step_type), col(RunStep.status), col(RunStep.completed_date)
    bucket = _bucket_of(RunStep.completed_date, interval, since)
    took = seconds_between(RunStep.start_date, RunStep.completed_date)
    may_hold = sa.or_(col(WorkflowRun.completed_date) >= since, col(WorkflowRun.status) == RunStatus.RUNNING)
    query: Any = (
        sa.select(step_type, bucket, status, func.count(), func.count(took), func.sum(took))
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(await in_groups_active_since(since), may_hold, ended >= since, ended <= until)
        .group_by(step_type, bucket, status)
        .order_by(step_type)
    )
    rows = await _rows(query)
    return [
        _of_type(each, [row[1:] for row in rows if row[0] == each], interval, since)
        for each in dict.fromkeys(row[0] for row in rows)
    ]


async def step_rates(
    *,
    run_group_id: int | None = None,
    batch_id: int | None = None,
    interval: Interval = Interval.DAY,
    now: datetime | None = None,
) -> list[StepRates]:
    """How steps end, by type: of a group, of a batch, or else of the runs that ended within the interval."""
    step_type, status = col(RunStep.step_type), col(RunStep.status)
    is_retried = sa.case((col(RunStep.retry) > 0, 1), else_=0)
    query: Any = (
        sa.select(step_type, status, func.count(), func.sum(is_retried))
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(*await _runs_of(run_group_id, batch_id, (now or utcnow()) - interval.length))
        .where(col(RunStep.parent_step_id).is_(None))
        .group_by(step_type, status)
        .order_by(step_type)
    )
    rows = await _rows(query)
    return [_rates(each, [row for row in rows if row[0] == each]) for each in dict.fromkeys(row[0] for row in rows)]


async def _runs_of(run_group_id: int | None, batch_id: int | None, since: datetime) -> list[sa.ColumnElement[bool]]:
    if run_group_id is not None:
        await get_run_group(run_group_id)
        return [col(WorkflowRun.run_group_id) == run_group_id]
    return [col(WorkflowRun.batch_id) == batch_id] if batch_id is not None else await ended_since(since)


def _pages_of_runs(run_group_id: int) -> sa.Subquery:
    run_id = col(RunStep.workflow_run_id)
    return (
        sa.select(run_id.label("run_id"), func.max(JsonNumber(RunStep.output, sa.literal("pages"))).label("pages"))
        .join(WorkflowRun, col(WorkflowRun.id) == run_id)
        .where(col(WorkflowRun.run_group_id) == run_group_id, col(RunStep.output).is_not(None))
        .group_by(run_id)
        .subquery()
    )


async def _rows(query: Any) -> Sequence[Any]:
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


def _durations(row: Any) -> StepDurations:
    step_type, count, longest, shortest, total, pages, began, ended = row
    wall_clock = (ended - began).total_seconds()
    return StepDurations(
        step_type=step_type,
        count=count,
        longest=longest,
        shortest=shortest,
        average=total / count,
        pages=int(pages or 0),
        pages_per_min=pages / wall_clock * _SECONDS_PER_MINUTE if pages and wall_clock else None,
        total_duration=total,
        wall_clock_time=wall_clock,
    )


def _bucket_of(moment: Any, interval: Interval, since: datetime) -> Any:
    """The number of the bucket that a moment falls into."""
    return (EpochSecond(moment) - int(since.timestamp())) // int(_BUCKETS[interval].total_seconds())


def _buckets(interval: Interval, since: datetime, counts: dict[tuple[int, RunStatus], int]) -> list[Bucket]:
    length = _BUCKETS[interval]
    start = datetime.fromtimestamp(int(since.timestamp()), tz=since.tzinfo)
    return [_bucket(start + number * length, number, counts) for number in range(interval.length // length + 1)]


def _of_type(step_type: str, rows: Sequence[Any], interval: Interval, since: datetime) -> TypeThroughput:
    buckets = _buckets(interval, since, {(int(row[0]), RunStatus(row[1])): row[2] for row in rows})
    completed, timed = sum(each.completed for each in buckets), sum(row[3] for row in rows)
    return TypeThroughput(
        step_type=step_type,
        completed=completed,
        failed=sum(each.failed for each in buckets),
        cancelled=sum(each.cancelled for each in buckets),
        per_minute=completed / (interval.length.total_seconds() / _SECONDS_PER_MINUTE),
        average_seconds=sum(row[4] or 0.0 for row in rows) / timed if timed else None,
        buckets=buckets,
    )


def _bucket(start: datetime, number: int, counts: dict[tuple[int, RunStatus], int]) -> Bucket:
    ended = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
    return Bucket(start, *(counts.get((number, status), 0) for status in ended))


def _rates(step_type: str, rows: Iterable[Any]) -> StepRates:
    counts = dict.fromkeys(RunStatus, 0)
    retried = 0
    for _, status, count, again in rows:
        counts[RunStatus(status)] += count
        retried += int(again)
    completed, failed = counts[RunStatus.COMPLETED], counts[RunStatus.FAILED]
    decided = completed + failed
    return StepRates(
        step_type=step_type,
        completed=completed,
        failed=failed,
        cancelled=counts[RunStatus.CANCELLED],
        unfinished=counts[RunStatus.PENDING] + counts[RunStatus.RUNNING] + counts[RunStatus.ERROR],
        retried=retried,
        success_rate=completed / decided if decided else None,
        failure_rate=failed / decided if decided else None,
    )
