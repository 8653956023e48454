"""In which RAG databases a document can be found."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from soliplex.ingester.lib.answers import HeldIn
from soliplex.ingester.lib.operations.documents import document_info
from soliplex.ingester.lib.operations.placing import databases_of
from soliplex.ingester.lib.operations.removals import RAG
from soliplex.ingester.lib.rag.readers import TROUBLES, Reader, can_be_read, read
from soliplex.ingester.lib.rag.scopes import quoted
from soliplex.ingester.lib.rag.writing import rag_id


async def databases_holding(doc_hash: str) -> list[HeldIn]:
    """The RAG databases that runs stored the document into, by name, and what each of them has of it now."""
    await document_info(doc_hash)
    keys = {key for _, key in await databases_of([doc_hash])}
    return [await _held(key.removeprefix(RAG), doc_hash) for key in sorted(keys)]


async def _held(path: str, doc_hash: str) -> HeldIn:
    name = path.rpartition("/")[2]
    if not await can_be_read(path):
        return HeldIn(db=name, is_there=False, problem="the database is not there, or has been deleted")
    try:
        return await read(path, partial(_in_database, name=name, doc_hash=doc_hash))
    except TROUBLES as exc:
        return HeldIn(db=name, is_there=False, problem=f"the database cannot be read: {type(exc).__name__}")


async def _in_database(reader: Reader, *, name: str, doc_hash: str) -> HeldIn:
    document_id = rag_id(doc_hash)
    query = reader.documents.query().select(["title", "updated_at"]).where(f"id IN ({quoted([document_id])})").limit(1)
    rows: list[dict[str, Any]] = await query.to_list()
    if not rows:
        return HeldIn(db=name, is_there=False)
    chunks = await reader.chunks.count_rows(f"document_id IN ({quoted([document_id])})")
    return HeldIn(
        db=name, is_there=True, title=rows[0]["title"], chunks=chunks, updated_at=_moment(rows[0].get("updated_at"))
    )


def _moment(value: Any) -> datetime | None:
    """A moment in UTC: haiku.rag writes it either as text or as a timestamp."""
    found = datetime.fromisoformat(value) if isinstance(value, str) and value else value
    if not isinstance(found, datetime):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
