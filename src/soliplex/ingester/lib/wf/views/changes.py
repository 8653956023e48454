"""What has changed since a moment: groups, runs, and the steps in flight. For those who follow along.

Rows tell the state they have come to, and when (`status_date`); nothing else is recorded of a change. So whoever asks
again from an earlier moment on is told again of what changed since, and of nothing that has been overtaken. Moments are
those of the workers' clocks: who follows along asks a little further back than where it left off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from pydantic_core import to_jsonable_python
from sqlalchemy.orm import defer
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
from soliplex.ingester.lib.pieces import ROWS
from soliplex.ingester.lib.wf.views.activity import first_event_since
from soliplex.ingester.lib.wf.views.paging import rows_in_pieces
from soliplex.ingester.lib.wf.views.steps import IS_RUNNING, UNFINISHED, attempts_begun, current_progress

LATE: Final = 200
"""So many events are looked at again: of two transactions, the one that numbered its event first may commit last."""
AT_ONCE: Final = 5000
MOST_GROUPS: Final = 10_000


_STEP_FACTS: Final = (
    "id",
    "workflow_run_id",
    "parent_step_id",
    "item_index",
    "workflow_step_name",
    "step_type",
    "status",
    "status_date",
    "status_message",
    "retry",
    "retries",
    "repeats",
    "awaits",
    "worker_id",
    "start_date",
    "completed_date",
    "progress",
)
_RUN_FACTS: Final = ("run_group_id", "batch_id", "workflow_definition_id")
_NOT_TOLD_OF_RUNS: Final = (WorkflowRun.input, WorkflowRun.output, WorkflowRun.run_params, WorkflowRun.status_meta)
"""What may be large, and is not read for those who only follow along."""


@dataclass(frozen=True, slots=True)
class StepState:
    """A step as those who follow along see it: no input and no output, which may be large."""

    id: int
    workflow_run_id: int
    parent_step_id: int | None
    """Of a task: the map step that it belongs to."""
    item_index: int | None
    workflow_step_name: str
    step_type: str
    status: RunStatus
    status_date: datetime | None
    status_message: str | None
    retry: int
    """Attempts that failed."""
    retries: int
    """How many attempts the step may have."""
    repeats: int
    awaits: str | None
    worker_id: str | None
    start_date: datetime | None
    completed_date: datetime | None
    reported: dict[str, Any] | None
    run_group_id: int
    batch_id: int | None
    workflow_definition_id: str

    @property
    def progress(self) -> dict[str, Any] | None:
        """What its handler reports while it runs: `fraction`, `text`, and when (`at`)."""
        return current_progress(self.reported, self.start_date)

    @property
    def attempts(self) -> int:
        """Attempts that have begun."""
        return attempts_begun(self.status, self.retry)

    def as_json(self) -> dict[str, Any]:
        """The state as it is told to those who follow along."""
        facts = {name: getattr(self, name) for name in (*_STEP_FACTS[1:], *_RUN_FACTS, "attempts")}
        del facts["status_date"]
        return to_jsonable_python({"step_id": self.id, **facts})


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


async def existing_groups(among: Collection[int]) -> frozenset[int]:
    """Those of the groups that there are."""
    number = col(RunGroup.id)
    async with Database.session(read_only=True) as session:
        return frozenset(each for each in await session.exec(select(number).where(number.in_(among))) if each)


async def changed_runs(
    among: Collection[int],
    since: datetime,
    *,
    after: tuple[datetime, int] | None = None,
    or_running: bool = False,
    run_id: int | None = None,
) -> list[WorkflowRun]:
    """Runs of these groups that began or ended since, by the time of it; at most AT_ONCE, those after the one named.

    With `or_running`, also those that go on since earlier: their steps may have changed.
    """
    when, number, status = col(WorkflowRun.status_date), col(WorkflowRun.id), col(WorkflowRun.status)
    has_changed = sa.and_(when >= since, status != RunStatus.PENDING)
    query = (
        select(WorkflowRun)
        .options(*(defer(each) for each in _NOT_TOLD_OF_RUNS))  # pyright: ignore[reportArgumentType]  they are columns
        .where(col(WorkflowRun.run_group_id).in_(among))
        .where(sa.or_(has_changed, status == RunStatus.RUNNING) if or_running else has_changed)
        .order_by(when, number)
        .limit(AT_ONCE)
    )
    if run_id is not None:
        query = query.where(number == run_id)
    if after is not None:
        query = query.where(sa.or_(when > after[0], sa.and_(when == after[0], number > after[1])))
    async with Database.session(read_only=True) as session:
        return [run async for run in rows_in_pieces(session, query)]


async def newest_runs(limit: int = 100) -> list[WorkflowRun]:
    """The runs that were made last, and those of the groups that ended last: so many of each; the newest first."""
    number, event = col(WorkflowRun.id), col(LifecycleHistory.id)
    ended = select(LifecycleHistory.run_group_id).where(col(LifecycleHistory.event) == LifeCycleEvent.GROUP_END)
    query = select(WorkflowRun).options(*(defer(each) for each in _NOT_TOLD_OF_RUNS))  # pyright: ignore[reportArgumentType]  as above
    query = query.order_by(number.desc()).limit(limit)
    async with Database.session(read_only=True) as session:
        groups = (await session.exec(ended.order_by(event.desc()).limit(limit))).all()
        found = [
            *await session.exec(query),
            *await session.exec(query.where(col(WorkflowRun.run_group_id).in_(groups))),
        ]
    by_id = {run.id: run for run in found if run.id is not None}
    return [by_id[run_id] for run_id in sorted(by_id, reverse=True)]


async def steps_in_flight(among: Collection[int] | None = None) -> list[StepState]:
    """The steps that run now, by id: all, or those of these groups."""
    query = _steps().where(IS_RUNNING).order_by(col(RunStep.id) + 0).limit(AT_ONCE)
    return await _read(query if among is None else query.where(col(WorkflowRun.run_group_id).in_(among)))


async def steps_by_id(step_ids: Iterable[int]) -> list[StepState]:
    wanted = list(step_ids)
    return await _read(_steps().where(col(RunStep.id).in_(wanted)).order_by(col(RunStep.id))) if wanted else []


async def begun_steps_of_runs(run_ids: Iterable[int], since: datetime | None = None) -> list[StepState]:
    """The steps of these runs that were begun, or those whose status changed since; of each run in their order."""
    wanted = list(run_ids)
    if not wanted:
        return []
    order = col(RunStep.workflow_run_id), col(RunStep.workflow_step_number), col(RunStep.id)
    query = _steps().where(col(RunStep.workflow_run_id).in_(wanted), col(RunStep.start_date).is_not(None))
    if since is not None:
        query = query.where(col(RunStep.status_date) >= since)
    return await _read(query.order_by(*order))


async def newest_steps_of_runs(
    run_ids: Collection[int], status: RunStatus, limit: int, *, named: str | None = None
) -> list[StepState]:
    """Of these runs, the steps that ended last with this status, or, where it is RUNNING, began last.

    Of this name, where one is given. Map steps may have more tasks than anybody holds, so the database chooses.
    """
    began = col(RunStep.start_date)
    query = _steps().where(col(RunStep.workflow_run_id).in_(run_ids), began.is_not(None))
    order = began
    if status is not RunStatus.RUNNING:
        query, order = query.where(col(RunStep.status) == status), col(RunStep.completed_date)
    if named is not None:
        query = query.where(col(RunStep.workflow_step_name) == named)
    return await _read(query.order_by(order.desc(), col(RunStep.id).desc()).limit(limit))


def _steps() -> Any:
    facts = [col(getattr(RunStep, name)) for name in _STEP_FACTS]
    of_run = [col(getattr(WorkflowRun, name)) for name in _RUN_FACTS]
    return sa.select(*facts, *of_run).join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))


async def _read(query: Any) -> list[StepState]:
    found: list[StepState] = []
    async with Database.session(read_only=True) as session:
        rows = await session.stream(query.execution_options(yield_per=ROWS))
        async for piece in rows.partitions():
            found += [StepState(*row) for row in piece]
            await asyncio.sleep(0)
    return found
