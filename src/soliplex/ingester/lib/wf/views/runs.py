"""Runs: lists of them, and one of them.

No index holds every run by status, since its every start and end would have to maintain it. Runs that failed or were
cancelled have a partial index; those that have not ended are in groups that have not; and groups count their runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, RunGroup, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page
from soliplex.ingester.lib.wf.views.steps import UNFINISHED, in_unfinished_groups, steps_of_runs

# Word by word as the partial index has it, and never as a parameter: or neither database would use it.
IS_TROUBLED: Final = sa.text("(workflowrun.failed_steps > 0 OR workflowrun.cancel_requested_at IS NOT NULL)")

_FAILED: Final = col(RunGroup.failed_runs)
_CANCELLED: Final = col(RunGroup.cancelled_runs)
_REMAINING: Final = col(RunGroup.remaining_runs)
_COUNTED: Final[dict[RunStatus, Any]] = {
    RunStatus.COMPLETED: col(RunGroup.total_runs) - _REMAINING - _FAILED - _CANCELLED,
    RunStatus.FAILED: _FAILED,
    RunStatus.CANCELLED: _CANCELLED,
}
"""How many runs of a group are in each final status."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; what is None does not matter."""

    batch_id: int | None = None
    run_group_id: int | None = None
    status: RunStatus | None = None
    doc_id: str | None = None

    @property
    def conditions(self) -> list[Any]:
        wanted: dict[str, Any] = {
            "batch_id": self.batch_id,
            "run_group_id": self.run_group_id,
            "status": self.status,
            "doc_id": self.doc_id,
        }
        plain = [col(getattr(WorkflowRun, name)) == value for name, value in wanted.items() if value is not None]
        return [*plain, *self._ways_to_find]

    @property
    def _ways_to_find(self) -> list[Any]:
        """Conditions that follow from the wanted status and that an index can look up."""
        if self.doc_id is not None:
            return []
        if self.status in {RunStatus.FAILED, RunStatus.CANCELLED}:
            return [IS_TROUBLED]
        return [in_unfinished_groups(self.batch_id)] if self.status in UNFINISHED else []

    @property
    def total(self) -> SelectOfScalar[int]:
        """How many there are. Groups count their runs, so that few have to be looked at."""
        counted = col(RunGroup.total_runs) if self.status is None else _COUNTED.get(self.status)
        if self.doc_id is None and counted is not None:
            return self._of_groups(select(func.sum(counted)))
        return select(func.count()).select_from(WorkflowRun).where(*self.conditions)

    def _of_groups(self, query: Any) -> Any:
        if self.batch_id is not None:
            query = query.where(RunGroup.batch_id == self.batch_id)
        return query if self.run_group_id is None else query.where(RunGroup.id == self.run_group_id)


@dataclass(frozen=True, slots=True)
class RunWithSteps:
    """A run, and its steps in their order."""

    run: WorkflowRun
    steps: list[RunStep]


async def list_runs(
    *,
    batch_id: int | None = None,
    run_group_id: int | None = None,
    status: RunStatus | None = None,
    doc_id: str | None = None,
    oldest_first: bool = False,
    paging: Paging = FIRST_PAGE,
) -> Page[WorkflowRun]:
    """Runs, the newest first unless it is said otherwise."""
    wanted = RunFilter(batch_id, run_group_id, status, doc_id)
    order = col(WorkflowRun.id).asc() if oldest_first else col(WorkflowRun.id).desc()
    # The ids come out of an index alone, however far back the page lies and however many have to be put in order.
    page = paging.within(select(WorkflowRun.id).where(*wanted.conditions).order_by(order)).subquery()
    rows = select(WorkflowRun).join(page, page.c.id == WorkflowRun.id).order_by(order)
    return await read_page(rows, wanted.total, paging)


async def get_run(run_id: int) -> WorkflowRun:
    async with Database.session(read_only=True) as session:
        run = await session.get(WorkflowRun, run_id)
    if run is None:
        raise NotFoundError("workflow run", run_id)
    return run


async def get_run_with_steps(run_id: int, *, with_tasks: bool = True) -> RunWithSteps:
    """A run with its steps, and with the tasks of its map steps, unless nobody wants them: there may be very many."""
    run = await get_run(run_id)
    return RunWithSteps(run, (await steps_of_runs([run_id], with_tasks=with_tasks))[run_id])
