"""When a group will have ended, by how fast it went on lately: what `si-cli ingest` estimates while it watches.

Of a group of few runs, the steps are counted by name, and the tasks of its map steps. Of a larger one its runs are: the
group's own counters tell how many have ended, and how fast is seen from the runs around the place it has come to, since
runs begin in the order of their ids. So the cost does not grow with the number of runs; it grows with the number of
tasks of map steps, which have to be passed over to find the steps of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func

from soliplex.ingester.lib.models import Database, RunGroup, RunStep, WorkflowRun
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.answers import GroupEta
from soliplex.ingester.lib.wf.remaining import Remaining, Share
from soliplex.ingester.lib.wf.views.groups import get_run_group

RECENT: Final = timedelta(minutes=15)
FEW_RUNS: Final = 2_000
AROUND: Final = 2_000
"""Runs or tasks on each side of the place that a group or map step has come to."""
MOST_MAPS: Final = 20


@dataclass(frozen=True, slots=True)
class _Stage:
    """How far a stage of a group is, and how much of it ended lately."""

    name: str
    total: int
    ended: int
    recent: int
    first_recent: datetime | None

    def shares(self, now: datetime) -> tuple[Share, Share]:
        """How far the stage was when the first of its recent items had ended, and how far it is now."""
        assert self.first_recent is not None
        then = self.ended - self.recent + 1
        return (
            Share(self.name, then, self.total, then, self.first_recent.timestamp()),
            Share(self.name, self.ended, self.total, self.ended, now.timestamp()),
        )


@dataclass(slots=True)
class _Seen:
    """What is known of how a group gets on."""

    stages: list[_Stage] = field(default_factory=list[_Stage])
    awaiting: int = 0
    """Steps that wait for a signal."""


async def eta_of_group(run_group_id: int, *, now: datetime | None = None) -> GroupEta:
    """When the group will have ended; None, with the reason, where that cannot be known."""
    moment = now or utcnow()
    group = await get_run_group(run_group_id)
    if group.status.is_final:
        return _eta(group, 0.0, group.completed_date, None)
    seen = await (_steps(run_group_id, moment) if group.total_runs <= FEW_RUNS else _runs(group, moment))
    if seen.awaiting:
        return _eta(group, None, None, f"steps wait for a signal: {seen.awaiting}")
    seconds = _estimate(seen.stages, moment)
    if seconds is None:
        return _eta(group, None, None, _why_unknown(seen.stages))
    return _eta(group, seconds, moment + timedelta(seconds=seconds), None)


def _eta(group: RunGroup, seconds: float | None, ends_at: datetime | None, reason: str | None) -> GroupEta:
    return GroupEta(group.id or 0, group.total_runs, group.remaining_runs, seconds, ends_at, reason)


def _estimate(stages: Sequence[_Stage], now: datetime) -> float | None:
    """The time that is left, by how far each stage has come since its first recent item ended."""
    going_on = [stage.shares(now) for stage in stages if stage.first_recent is not None and stage.ended < stage.total]
    if not going_on:
        return None
    remaining = Remaining()
    for shares in zip(*going_on, strict=True):
        remaining.note(shares, max(share.at for share in shares))
    return remaining.seconds(now.timestamp())


def _why_unknown(stages: Sequence[_Stage]) -> str:
    if not any(stage.ended for stage in stages):
        return "nothing has ended yet"
    if not any(stage.recent for stage in stages if stage.ended < stage.total):
        return f"nothing has ended in the last {RECENT // timedelta(minutes=1)} minutes"
    return "too little has ended to go by"


async def _steps(run_group_id: int, now: datetime) -> _Seen:
    name, ended = col(RunStep.workflow_step_name), col(RunStep.completed_date)
    is_recent = ended >= now - RECENT
    query: Any = (
        sa.select(
            name,
            func.count(),
            func.count(ended),
            func.count(sa.case((is_recent, 1))),
            func.min(sa.case((is_recent, ended))),
            func.count(col(RunStep.awaits)),
        )
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(col(WorkflowRun.run_group_id) == run_group_id, col(RunStep.parent_step_id).is_(None))
        .group_by(name)
    )
    rows = await _rows(query)
    seen = _Seen([_Stage(*row[:5]) for row in rows], sum(row[5] for row in rows))
    seen.stages += await _maps(run_group_id, now)
    return seen


async def _maps(run_group_id: int, now: datetime) -> list[_Stage]:
    """The map steps of a group that wait for their tasks."""
    query: Any = (
        sa.select(col(RunStep.id), col(RunStep.remaining_tasks))
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(col(WorkflowRun.run_group_id) == run_group_id, col(RunStep.remaining_tasks) > 0)
        .order_by(col(RunStep.remaining_tasks).desc())
        .limit(MOST_MAPS)
    )
    return [await _map(step_id, remaining, now) for step_id, remaining in await _rows(query)]


async def _map(step_id: int, remaining: int, now: datetime) -> _Stage:
    own, index, ended = col(RunStep.parent_step_id) == step_id, col(RunStep.item_index), col(RunStep.completed_date)
    ((last,),) = await _rows(sa.select(func.max(index)).where(own))
    done = last + 1 - remaining
    recent: Any = sa.select(func.count(), func.min(ended)).where(own, ended >= now - RECENT)
    ((count, first),) = await _rows(recent.where(index.between(done - AROUND, done + AROUND)))
    return _Stage(f"tasks of {step_id}", last + 1, done, count, first)


async def _runs(group: RunGroup, now: datetime) -> _Seen:
    own, number, ended = col(WorkflowRun.run_group_id) == group.id, col(WorkflowRun.id), col(WorkflowRun.completed_date)
    ((first_id, last_id),) = await _rows(sa.select(func.min(number), func.max(number)).where(own))
    done = group.total_runs - group.remaining_runs
    place = first_id + (last_id - first_id) * done // group.total_runs
    recent: Any = sa.select(func.count(), func.min(ended)).where(own, ended >= now - RECENT)
    ((count, first),) = await _rows(recent.where(number.between(place - AROUND, place + AROUND)))
    return _Seen([_Stage("runs", group.total_runs, done, count, first)])


async def _rows(query: Any) -> list[Any]:
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())
