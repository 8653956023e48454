"""Steps: those of runs, and those in a status.

No index holds every step by status, since each step's every change would have to maintain it. So a list of steps goes
by what there is: steps in flight and in trouble have partial indexes; those that wait are found through the runs that
have not ended; and of the many that are COMPLETED the newest are found by walking back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, RunGroup, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page, rows_in_pieces

TROUBLED: Final = frozenset({RunStatus.ERROR, RunStatus.FAILED, RunStatus.CANCELLED})
UNFINISHED: Final = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.ERROR)

# Word by word as the partial indexes have it, and never as a parameter: or neither database would use them.
IS_RUNNING: Final = sa.text("runstep.status = 'RUNNING'")
IS_TROUBLED: Final = sa.text("runstep.status IN ('ERROR', 'FAILED', 'CANCELLED')")


def in_unfinished_groups(batch_id: int | None = None) -> sa.ColumnElement[bool]:
    """The condition that a run belongs to a group that has not ended: no other has runs or steps that wait or run."""
    groups = select(RunGroup.id).where(col(RunGroup.status).in_(UNFINISHED))
    if batch_id is not None:
        groups = groups.where(RunGroup.batch_id == batch_id)
    return col(WorkflowRun.run_group_id).in_(groups)


def attempts_begun(status: RunStatus, failed: int) -> int:
    """How many attempts at a step have begun, of which so many failed."""
    return failed + (status in {RunStatus.RUNNING, RunStatus.COMPLETED})


def current_progress(reported: dict[str, Any] | None, begun: datetime | None) -> dict[str, Any] | None:
    """What a handler reports of the attempt that began at this moment; None for what an earlier attempt reported."""
    if reported is None or begun is None or "at" not in reported:
        return None
    return reported if datetime.fromisoformat(reported["at"]) >= begun else None


async def list_steps(
    *,
    status: RunStatus | None = None,
    batch_id: int | None = None,
    run_group_id: int | None = None,
    paging: Paging = FIRST_PAGE,
) -> Page[RunStep]:
    """Steps, the newest first; those of a batch or group by run, the newest run first, and in the run's order."""
    scope = _scope(batch_id, run_group_id)
    by_run = bool(scope) or status is RunStatus.PENDING
    page = paging.within(_ids(status, scope, by_run=by_run)).subquery()
    rows = select(RunStep).join(page, page.c.id == RunStep.id).order_by(*_order(by_run=by_run))
    return await read_page(rows, _total(status, scope), paging)


async def get_step(step_id: int) -> RunStep:
    async with Database.session(read_only=True) as session:
        step = await session.get(RunStep, step_id)
    if step is None:
        raise NotFoundError("step", step_id)
    return step


async def steps_of_runs(run_ids: Iterable[int], *, with_tasks: bool = True) -> dict[int, list[RunStep]]:
    """The steps of each run in their order; a map step's tasks follow it, unless nobody wants them."""
    return await made_of_steps(run_ids, lambda step: step, with_tasks=with_tasks)


async def made_of_steps[T](
    run_ids: Iterable[int], make: Callable[[RunStep], T], *, with_tasks: bool = True
) -> dict[int, list[T]]:
    """What is made of the steps of each run, in their order. The steps are let go as they are read."""
    wanted = list(run_ids)
    no_tasks = [] if with_tasks else [col(RunStep.parent_step_id).is_(None)]
    query = (
        select(RunStep)
        .where(col(RunStep.workflow_run_id).in_(wanted), *no_tasks)
        .order_by(col(RunStep.workflow_run_id), col(RunStep.workflow_step_number), col(RunStep.id))
    )
    found: dict[int, list[T]] = defaultdict(list, {run_id: [] for run_id in wanted})
    async with Database.session(read_only=True) as session:
        async for step in rows_in_pieces(session, query):
            found[step.workflow_run_id].append(make(step))
    return dict(found)


def _scope(batch_id: int | None, run_group_id: int | None) -> list[sa.ColumnElement[bool]]:
    scope: list[sa.ColumnElement[bool]] = []
    if batch_id is not None:
        scope.append(col(WorkflowRun.batch_id) == batch_id)
    if run_group_id is not None:
        scope.append(col(WorkflowRun.run_group_id) == run_group_id)
    return scope


def _order(*, by_run: bool) -> tuple[Any, ...]:
    step_id = col(RunStep.id)
    if by_run:
        return col(RunStep.workflow_run_id).desc(), col(RunStep.workflow_step_number), step_id
    return (step_id.desc(),)


def _ids(status: RunStatus | None, scope: list[sa.ColumnElement[bool]], *, by_run: bool) -> SelectOfScalar[Any]:
    """The ids of the steps in the order of the list."""
    query: Any = select(RunStep.id)
    if status is RunStatus.RUNNING and not by_run:
        # The sum keeps the databases from walking back through all steps in search of the few that run.
        return _having(query, status).order_by((col(RunStep.id) + 0).desc())
    if not by_run:
        return _having(query, status).order_by(*_order(by_run=False))
    # By the run's own id, which is in the order of the index that finds the runs.
    order = col(WorkflowRun.id).desc(), col(RunStep.workflow_step_number), col(RunStep.id)
    return _of_runs(_having(query, status), status, scope).order_by(*order)


def _having(query: Any, status: RunStatus | None) -> Any:
    if status is None:
        return query
    if status is RunStatus.RUNNING:
        return query.where(IS_RUNNING)
    query = query.where(col(RunStep.status) == status)
    return query.where(IS_TROUBLED) if status in TROUBLED else query


def _of_runs(query: Any, status: RunStatus | None, scope: list[sa.ColumnElement[bool]]) -> Any:
    joined = query.join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id)).where(*scope)
    if status is RunStatus.PENDING:
        return joined.where(in_unfinished_groups(), col(WorkflowRun.status).in_(UNFINISHED))
    return joined


def _total(status: RunStatus | None, scope: list[sa.ColumnElement[bool]]) -> SelectOfScalar[int]:
    if status is not RunStatus.COMPLETED:
        return _count(status, scope)
    # Neither found by an index nor few: what is left when all others are taken away.
    others = [_count(other, scope).scalar_subquery() for other in RunStatus if other is not RunStatus.COMPLETED]
    remaining: Any = _count(None, scope).scalar_subquery()
    for other in others:
        remaining -= other
    return select(remaining)


def _count(status: RunStatus | None, scope: list[sa.ColumnElement[bool]]) -> SelectOfScalar[int]:
    query: Any = _having(select(func.count()).select_from(RunStep), status)
    return _of_runs(query, status, scope) if scope or status is RunStatus.PENDING else query
