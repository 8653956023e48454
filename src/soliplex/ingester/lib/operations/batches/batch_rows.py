"""Batches as rows: starting one, finding and listing them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlmodel import col, func, select

from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database, DocumentBatch
from soliplex.ingester.lib.storable import LARGEST_INTEGER, checked_meta, checked_name
from soliplex.ingester.lib.wf.views import FIRST_ROWS, Page, Paging
from soliplex.ingester.lib.wf.views.paging import read_page


async def create_batch(source: str, name: str, batch_params: Mapping[str, Any] | None = None) -> int:
    """Start a batch; gives its id. The values of `batch_params` are texts, kept with it for whoever looks at it."""
    batch = DocumentBatch(
        source=checked_name("source", source),
        name=checked_name("name", name),
        batch_params=_texts("batch_params", checked_meta("batch_params", batch_params or {})),
    )
    async with Database.session() as session:
        session.add(batch)
    assert batch.id is not None
    return batch.id


def _texts(field: str, values: Mapping[str, Any]) -> dict[str, str]:
    for name, value in values.items():
        if not isinstance(value, str):
            raise InvalidInputError(field, f"{name!r} must be a text; write it in quotes")
    return dict(values)


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
    known = _seen_in(Database.identity())
    if batch_id not in known:
        await get_batch(batch_id)
        known.add(batch_id)


@lru_cache(maxsize=16)
def _seen_in(_database: int) -> set[int]:
    return set()


async def list_batches(*, source: str | None = None, paging: Paging = FIRST_ROWS) -> Page[DocumentBatch]:
    """Batches, in the order they were started."""
    rows = select(DocumentBatch).order_by(col(DocumentBatch.id))
    total = select(func.count()).select_from(DocumentBatch)
    if source is not None:
        rows, total = rows.where(DocumentBatch.source == source), total.where(DocumentBatch.source == source)
    return await read_page(paging.within(rows), total, paging)


async def unfinished_batch(source: str, name: str) -> int | None:
    """The newest batch of this source and name, if it has not been completed."""
    newest = (
        select(DocumentBatch)
        .where(DocumentBatch.source == source, DocumentBatch.name == name)
        .order_by(col(DocumentBatch.id).desc())
        .limit(1)
    )
    async with Database.session(read_only=True) as session:
        batch = (await session.exec(newest)).first()
    return batch.id if batch and batch.completed_date is None else None
