"""How long batches took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, DocumentBatch, RunGroup
from soliplex.ingester.lib.wf.views import FIRST_PAGE, Page, Paging
from soliplex.ingester.lib.wf.views.paging import read_page


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """How long a batch took, and what its runs came to."""

    batch_id: int
    name: str
    source: str
    start_date: datetime
    completed_date: datetime | None
    duration: float | None
    total_runs: int
    remaining_runs: int
    failed_runs: int
    seconds_per_document: float | None


async def batch_times(*, oldest_first: bool = False, paging: Paging = FIRST_PAGE) -> Page[BatchTimes]:
    """How long batches took, the newest first unless it is said otherwise."""
    order = col(DocumentBatch.id).asc() if oldest_first else col(DocumentBatch.id).desc()
    rows = paging.within(select(DocumentBatch).order_by(order))
    page = await read_page(rows, select(func.count()).select_from(DocumentBatch), paging)
    runs = await _runs_of_batches([batch.id for batch in page.items if batch.id is not None])
    return page.with_items([_times(batch, runs.get(batch.id or 0, (0, 0, 0))) for batch in page.items])


async def _runs_of_batches(batch_ids: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """How many runs each batch has, how many of them have not ended, and how many failed; groups count their runs."""
    batch_id = col(RunGroup.batch_id)
    counters = (RunGroup.total_runs, RunGroup.remaining_runs, RunGroup.failed_runs)
    query: Any = (
        sa.select(batch_id, *(func.sum(each) for each in counters)).where(batch_id.in_(batch_ids)).group_by(batch_id)
    )
    async with Database.session(read_only=True) as session:
        return {row[0]: (row[1], row[2], row[3]) for row in (await session.exec(query)).all()}


def _times(batch: DocumentBatch, runs: tuple[int, int, int]) -> BatchTimes:
    total, remaining, failed = runs
    return BatchTimes(
        batch_id=batch.id or 0,
        name=batch.name,
        source=batch.source,
        start_date=batch.start_date,
        completed_date=batch.completed_date,
        duration=batch.duration,
        total_runs=total,
        remaining_runs=remaining,
        failed_runs=failed,
        seconds_per_document=batch.duration / total if batch.duration is not None and total else None,
    )
