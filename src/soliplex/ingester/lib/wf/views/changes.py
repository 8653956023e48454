"""What has changed since a moment: groups, runs, and the steps in flight. For those who follow along.

Rows tell the state they have come to, and when (`status_date`); nothing else is recorded of a change. So whoever asks
again from an earlier moment on is told again of what changed since, and of nothing that has been overtaken. Moments are
those of the workers' clocks: who follows along asks a little further back than where it left off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func, select

from soliplex.ingester.lib.models import (
    Database,
    LifeCycleEvent,
    LifecycleHistory,
    RunGroup,
    RunStatus,
    RunStep,
    WorkflowRun,
)
from soliplex.ingester.lib.wf.views.activity import first_event_since
from soliplex.ingester.lib.wf.views.steps import IS_RUNNING, UNFINISHED

LATE: Final = 200
"""So many events are looked at again: of two transactions, the one that numbered its event first may commit last."""
AT_ONCE: Final = 5000
MOST_GROUPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ActiveGroups:
    """The groups in which something may have changed, and up to which event that is known."""

    ids: frozenset[int]
    last_event: int


async def groups_active_since(since: datetime) -> ActiveGroups:
    """Groups that have not ended, or ended no earlier than this."""
    return await groups_active_after(await first_event_since(since))


async def groups_active_after(event_id: int) -> ActiveGroups:
    """Groups that have not ended, or whose end is told by a later event than this one."""
    number = col(LifecycleHistory.id)
    ended = select(LifecycleHistory.run_group_id).where(
        number > event_id - LATE, col(LifecycleHistory.event) == LifeCycleEvent.GROUP_END
    )
    unfinished = select(RunGroup.id).where(col(RunGroup.status).in_(UNFINISHED))
    newest_first = col(RunGroup.id).desc()
    async with Database.session(read_only=True) as session:
        last = (await session.exec(select(func.max(number)))).one() or 0
        ids = [*await session.exec(unfinished.order_by(newest_first).limit(MOST_GROUPS)), *await session.exec(ended)]
    return ActiveGroups(frozenset(each for each in ids if each is not None), last)


async def changed_groups(among: Collection[int], since: datetime | None = None) -> list[RunGroup]:
    """Those of the groups whose status changed since, or all of them, by the time of the change."""
    when = col(RunGroup.status_date)
    query = select(RunGroup).where(col(RunGroup.id).in_(among)).order_by(when, col(RunGroup.id))
    if since is not None:
        query = query.where(when >= since)
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


async def changed_runs(
    among: Collection[int], since: datetime, *, after: tuple[datetime, int] | None = None
) -> list[WorkflowRun]:
    """Runs of these groups that began or ended since, by the time of it; at most AT_ONCE, those after the one named."""
    when, run_id = col(WorkflowRun.status_date), col(WorkflowRun.id)
    query = (
        select(WorkflowRun)
        .where(col(WorkflowRun.run_group_id).in_(among), when >= since)
        .where(col(WorkflowRun.status) != RunStatus.PENDING)
        .order_by(when, run_id)
        .limit(AT_ONCE)
    )
    if after is not None:
        query = query.where(sa.or_(when > after[0], sa.and_(when == after[0], run_id > after[1])))
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


async def steps_in_flight() -> list[RunStep]:
    """The steps that run now, by id."""
    query: Any = select(RunStep).where(IS_RUNNING).order_by(col(RunStep.id) + 0)  # pyright: ignore[reportArgumentType]
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query.limit(AT_ONCE))).all())


async def steps_by_id(step_ids: Iterable[int]) -> list[RunStep]:
    query = select(RunStep).where(col(RunStep.id).in_(list(step_ids))).order_by(col(RunStep.id))
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


async def runs_by_id(run_ids: Iterable[int]) -> dict[int, WorkflowRun]:
    query = select(WorkflowRun).where(col(WorkflowRun.id).in_(list(run_ids)))
    async with Database.session(read_only=True) as session:
        return {run.id: run for run in await session.exec(query) if run.id is not None}
