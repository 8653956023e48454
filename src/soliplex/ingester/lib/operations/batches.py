"""Batches: documents that come in together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlmodel import col, func, select

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, DocumentBatch, DocumentURI, RunStatus, WorkflowRun
from soliplex.ingester.lib.operations.checks import LARGEST_INTEGER, checked_meta, checked_name
from soliplex.ingester.lib.wf.views import FIRST_ROWS, Page, Paging, count_runs_by_status, list_runs
from soliplex.ingester.lib.wf.views.paging import read_page

RUNS_SHOWN: Final = Paging(1, 100)
"""How many of a batch's runs its status shows; `list_runs` pages through all of them."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch has come."""

    batch: DocumentBatch
    document_count: int
    workflow_count: dict[RunStatus, int]
    workflows: list[WorkflowRun]
    """The newest runs."""

    @property
    def parsed(self) -> int:
        """How many runs have completed."""
        return self.workflow_count.get(RunStatus.COMPLETED, 0)

    @property
    def remaining(self) -> int:
        return max(0, self.document_count - self.parsed)


async def create_batch(source: str, name: str, batch_params: Mapping[str, Any] | None = None) -> int:
    """Start a batch; gives its id."""
    batch = DocumentBatch(
        source=checked_name("source", source),
        name=checked_name("name", name),
        batch_params=checked_meta("batch_params", batch_params or {}),
    )
    async with Database.session() as session:
        session.add(batch)
    assert batch.id is not None
    return batch.id


async def get_batch(batch_id: int) -> DocumentBatch:
    batch = None
    if 0 < batch_id <= LARGEST_INTEGER:
        async with Database.session(read_only=True) as session:
            batch = await session.get(DocumentBatch, batch_id)
    if batch is None:
        raise NotFoundError("batch", batch_id)
    return batch


async def require_batch(batch_id: int) -> None:
    """As `get_batch`, for those who come again and again: batches are never deleted, so one that was seen is there."""
    database = Database.identity()
    if database not in _seen:
        _seen.clear()
    known = _seen.setdefault(database, set())
    if batch_id not in known:
        await get_batch(batch_id)
        known.add(batch_id)


_seen: Final[dict[int, set[int]]] = {}


async def list_batches(*, source: str | None = None, paging: Paging = FIRST_ROWS) -> Page[DocumentBatch]:
    """Batches, in the order they were started."""
    rows = select(DocumentBatch).order_by(col(DocumentBatch.id))
    total = select(func.count()).select_from(DocumentBatch)
    if source is not None:
        rows, total = rows.where(DocumentBatch.source == source), total.where(DocumentBatch.source == source)
    return await read_page(paging.within(rows), total, paging)


async def batch_status(batch_id: int, *, paging: Paging = RUNS_SHOWN) -> BatchStatus:
    """How many documents a batch has, and how their runs fare."""
    batch = await get_batch(batch_id)
    count = select(func.count()).select_from(DocumentURI).where(DocumentURI.batch_id == batch_id)
    async with Database.session(read_only=True) as session:
        documents = (await session.exec(count)).one()
    runs = await list_runs(batch_id=batch_id, paging=paging)
    return BatchStatus(batch, documents, await count_runs_by_status(batch_id), runs.items)
