"""The life of a run: the events that were recorded, and those that its rows tell without a record.

A step's start and end are written as events only where a handler asks for them, since the step's own row says as much.
Here the two are put together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from sqlmodel import col, select

from soliplex.ingester.lib.models import Database, LifeCycleEvent, LifecycleHistory, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.pieces import ROWS, in_pieces
from soliplex.ingester.lib.wf.views.paging import rows_in_pieces
from soliplex.ingester.lib.wf.views.runs import get_run_with_steps

_ENDS = {
    RunStatus.COMPLETED: (LifeCycleEvent.ITEM_END, LifeCycleEvent.STEP_END),
    RunStatus.FAILED: (LifeCycleEvent.ITEM_FAILED, LifeCycleEvent.STEP_FAILED),
    RunStatus.CANCELLED: (LifeCycleEvent.ITEM_FAILED, None),
}


async def lifecycle_of_run(run_id: int, *, with_tasks: bool = True) -> list[LifecycleHistory]:
    """The events of a run and its steps by their date. One that no row of its own records has a negative id.

    Those of the tasks of map steps are among them, unless nobody wants them: there may be very many.
    """
    whole = await get_run_with_steps(run_id, with_tasks=with_tasks)
    query = select(LifecycleHistory).where(col(LifecycleHistory.workflow_run_id) == run_id)
    async with Database.session(read_only=True) as session:
        recorded = [event async for event in rows_in_pieces(session, query)]
    if not with_tasks:
        steps = {None, *(step.id for step in whole.steps)}
        recorded = [event for event in recorded if event.step_id in steps]
    known = {(row.event, row.step_id) for row in recorded}
    implied = in_pieces(implied_events(whole.run, whole.steps), ROWS)
    told = [each async for some in implied for each in some if (each.event, each.step_id) not in known]
    return sorted([*recorded, *told], key=_order)


def implied_events(run: WorkflowRun, steps: Iterable[RunStep]) -> Iterator[LifecycleHistory]:
    """The events that a run's row and its steps' rows tell of."""
    if run.start_date is not None:
        yield _event(LifeCycleEvent.ITEM_START, run, run.start_date)
    if run.completed_date is not None:
        yield _event(_ENDS[run.status][0], run, run.completed_date, message=run.status_message)
    for step in steps:
        yield from _events_of_step(run, step)


def _events_of_step(run: WorkflowRun, step: RunStep) -> Iterator[LifecycleHistory]:
    if step.start_date is not None:
        yield _event(LifeCycleEvent.STEP_START, run, step.start_date, step=step)
    end = _ENDS[step.status][1] if step.completed_date is not None else None
    if end is not None and step.completed_date is not None:
        yield _event(end, run, step.completed_date, step=step, message=step.status_message)


def _event(
    event: LifeCycleEvent, run: WorkflowRun, at: datetime, *, step: RunStep | None = None, message: str | None = None
) -> LifecycleHistory:
    return LifecycleHistory(
        id=_id(event, step.id if step else run.id, is_of_step=step is not None),
        event=event,
        run_group_id=run.run_group_id,
        workflow_run_id=run.id,
        step_id=step.id if step else None,
        start_date=at,
        completed_date=at,
        status=RunStatus.COMPLETED,
        status_date=at,
        status_message=message,
        status_meta={"step": step.workflow_step_name} if step else {},
        available_at=at,
    )


_STARTS = (LifeCycleEvent.ITEM_START, LifeCycleEvent.STEP_START)


def _id(event: LifeCycleEvent, owner_id: int | None, *, is_of_step: bool) -> int:
    """A number for an event that has no row, since clients want one: never a row's, and the same each time."""
    return -(4 * (owner_id or 0) + 2 * is_of_step + (event not in _STARTS))


_IN_A_MOMENT = (
    LifeCycleEvent.GROUP_START,
    LifeCycleEvent.ITEM_START,
    LifeCycleEvent.STEP_END,
    LifeCycleEvent.STEP_FAILED,
    LifeCycleEvent.STEP_START,
    LifeCycleEvent.ITEM_END,
    LifeCycleEvent.ITEM_FAILED,
    LifeCycleEvent.GROUP_END,
)
"""What comes first where events bear the same moment: a step may end and the next begin in one transaction."""


def _order(row: LifecycleHistory) -> tuple[datetime, int, int]:
    return row.start_date, _IN_A_MOMENT.index(row.event), row.step_id or 0
