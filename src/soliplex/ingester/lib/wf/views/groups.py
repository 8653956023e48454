"""Run groups: lists of them, one of them, and how its runs fare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlmodel import col, func, select

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, RunGroup, RunStatus, WorkflowRun
from soliplex.ingester.lib.wf.views.expressions import seconds_between
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page


@dataclass(frozen=True, slots=True)
class RunGroupStats:
    """How many runs of a group are in each status, and how long those took that have ended."""

    run_group_id: int
    group_status: RunStatus
    counts: dict[RunStatus, int]
    """Every status, also those no run is in."""
    average_duration: float | None
    min_duration: float | None
    max_duration: float | None

    @property
    def total_runs(self) -> int:
        return sum(self.counts.values())


async def list_run_groups(
    *,
    batch_id: int | None = None,
    status: RunStatus | None = None,
    oldest_first: bool = False,
    paging: Paging = FIRST_PAGE,
) -> Page[RunGroup]:
    """Run groups, the newest first unless it is said otherwise."""
    wanted = {"batch_id": batch_id, "status": status}
    conditions = [col(getattr(RunGroup, name)) == value for name, value in wanted.items() if value is not None]
    order = col(RunGroup.id).asc() if oldest_first else col(RunGroup.id).desc()
    rows = paging.within(select(RunGroup).where(*conditions).order_by(order))
    return await read_page(rows, select(func.count()).select_from(RunGroup).where(*conditions), paging)


async def get_run_group(run_group_id: int) -> RunGroup:
    async with Database.session(read_only=True) as session:
        group = await session.get(RunGroup, run_group_id)
    if group is None:
        raise NotFoundError("run group", run_group_id)
    return group


async def run_group_stats(run_group_id: int) -> RunGroupStats:
    """Count the runs of a group by status, with the shortest, longest and average time of those that were executed."""
    group = await get_run_group(run_group_id)
    status = col(WorkflowRun.status)
    took = seconds_between(WorkflowRun.start_date, WorkflowRun.completed_date)
    query: Any = (
        select(status, func.count(), func.count(took), func.sum(took), func.min(took), func.max(took))  # pyright: ignore[reportCallIssue, reportArgumentType]  six columns, where the stubs end at four
        .where(col(WorkflowRun.run_group_id) == run_group_id)
        .group_by(status)
    )
    async with Database.session(read_only=True) as session:
        rows = list((await session.exec(query)).all())
    timed = sum(row[2] for row in rows)
    return RunGroupStats(
        run_group_id=run_group_id,
        group_status=group.status,
        counts=dict.fromkeys(RunStatus, 0) | {RunStatus(row[0]): row[1] for row in rows},
        average_duration=sum(row[3] or 0 for row in rows) / timed if timed else None,
        min_duration=min((row[4] for row in rows if row[4] is not None), default=None),
        max_duration=max((row[5] for row in rows if row[5] is not None), default=None),
    )
