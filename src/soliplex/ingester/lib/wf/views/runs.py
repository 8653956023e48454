"""Runs: lists of them, one of them, and how many are in each status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlmodel import col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, RunGroup, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page
from soliplex.ingester.lib.wf.views.steps import steps_of_runs


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; what is None does not matter."""

    batch_id: int | None = None
    run_group_id: int | None = None
    status: RunStatus | None = None
    doc_id: str | None = None

    @property
    def conditions(self) -> list[sa.ColumnElement[bool]]:
        wanted: dict[str, Any] = {
            "batch_id": self.batch_id,
            "run_group_id": self.run_group_id,
            "status": self.status,
            "doc_id": self.doc_id,
        }
        return [col(getattr(WorkflowRun, name)) == value for name, value in wanted.items() if value is not None]

    @property
    def total(self) -> SelectOfScalar[int]:
        """How many there are. Groups count their runs, so of all of them none needs to be looked at."""
        if not self.conditions:
            return select(func.sum(RunGroup.total_runs))
        return select(func.count()).select_from(WorkflowRun).where(*self.conditions)


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
    paging: Paging = FIRST_PAGE,
) -> Page[WorkflowRun]:
    """Runs, the newest first."""
    wanted = RunFilter(batch_id, run_group_id, status, doc_id)
    newest_first = col(WorkflowRun.id).desc()
    # The ids come out of an index alone, however far back the page lies and however many have to be put in order.
    page = paging.within(select(WorkflowRun.id).where(*wanted.conditions).order_by(newest_first)).subquery()
    rows = select(WorkflowRun).join(page, page.c.id == WorkflowRun.id).order_by(newest_first)
    return await read_page(rows, wanted.total, paging)


async def get_run(run_id: int) -> WorkflowRun:
    async with Database.session(read_only=True) as session:
        run = await session.get(WorkflowRun, run_id)
    if run is None:
        raise NotFoundError("workflow run", run_id)
    return run


async def get_run_with_steps(run_id: int) -> RunWithSteps:
    run = await get_run(run_id)
    return RunWithSteps(run, (await steps_of_runs([run_id]))[run_id])


async def count_runs_by_status(batch_id: int) -> dict[RunStatus, int]:
    """How many runs of a batch are in each status that any of them is in."""
    status = col(WorkflowRun.status)
    query = (
        select(status, func.count())
        # Naming every status makes it a handful of walks in the index by status and batch.
        .where(status.in_(list(RunStatus)), col(WorkflowRun.batch_id) == batch_id)
        .group_by(status)
    )
    async with Database.session(read_only=True) as session:
        return {RunStatus(each): count for each, count in await session.exec(query)}
