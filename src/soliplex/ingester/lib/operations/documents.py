"""What is known of documents and of the places they live at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func, select

from soliplex.ingester.lib.answers import KnownSource
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, Document, DocumentURI, DocumentURIHistory, HistoryAction
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.operations.batches import get_batch
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storable import checked_integer, checked_name, checked_uri, see_storable_text, unstorable_in
from soliplex.ingester.lib.wf.views import FIRST_ROWS, Page, Paging
from soliplex.ingester.lib.wf.views.paging import read_page

MOST_URIS: Final = 10_000
"""URIs that are read or deleted by one request."""


@dataclass(frozen=True, slots=True)
class DocumentDetails:
    """A document and the places it lives at."""

    document: Document
    uris: list[DocumentURI]


async def documents_of_source(source: str, *, paging: Paging = FIRST_ROWS) -> Page[DocumentURI]:
    """The URIs of a source, in their order."""
    condition = DocumentURI.source == checked_name("source", source)
    return await _uris(condition, paging, order=(col(DocumentURI.uri),))


async def documents_of_batch(batch_id: int, *, paging: Paging = FIRST_ROWS) -> Page[DocumentURI]:
    """The URIs of a batch, in the order they were first uploaded."""
    await get_batch(batch_id)
    return await _uris(DocumentURI.batch_id == batch_id, paging)


async def uris_below(source: str, beginning: str = "", *, after: str = "", most: int = MOST_URIS) -> list[str]:
    """The URIs of a source that have this beginning, in their order, at most `most`, from the one after `after` on."""
    call = SQL.uris_below(
        source=checked_name("source", source),
        beginning=beginning,
        after=after,
        most=checked_integer("limit", most, least=1),
    )
    for field, text in {"uri_prefix": beginning, "after": after}.items():
        see_storable_text(field, text)
    return [row["uri"] for row in await Database.read(call)]


async def list_sources() -> list[KnownSource]:
    """The sources that documents come from, by name."""
    return [KnownSource(row["source"], row["uris"]) for row in await Database.read(SQL.sources())]


async def find_documents(pattern: str, *, paging: Paging = FIRST_ROWS) -> Page[DocumentURI]:
    """The URIs that contain the text, whatever its case."""
    text = checked_uri(pattern, "pattern")
    # SQLite, and PostgreSQL in the C locale, know the case of ASCII letters only: so three spellings are tried.
    spellings = dict.fromkeys((text, text.lower(), text.upper()))
    condition = sa.or_(*(col(DocumentURI.uri).icontains(spelling, autoescape=True) for spelling in spellings))
    return await _uris(condition, paging)


async def _uris(condition: Any, paging: Paging, order: tuple[Any, ...] = ()) -> Page[DocumentURI]:
    rows = select(DocumentURI).where(condition).order_by(*order, col(DocumentURI.id))
    total = select(func.count()).select_from(DocumentURI).where(condition)
    return await read_page(paging.within(rows), total, paging)


async def document_info(doc_hash: str) -> DocumentDetails:
    """The document with this hash, and all its URIs."""
    name = _known_form(doc_hash)
    query = select(DocumentURI).where(DocumentURI.doc_hash == name).order_by(col(DocumentURI.id))
    async with Database.session(read_only=True) as session:
        document = await session.get(Document, name)
        uris = list((await session.exec(query)).all())
    if document is None:
        raise NotFoundError("document", doc_hash)
    return DocumentDetails(document, uris)


async def document_history(doc_hash: str) -> list[DocumentURIHistory]:
    """What happened to this content at the URIs where it lives or lived, the earliest first."""
    name = _known_form(doc_hash)
    query = (
        select(DocumentURIHistory)
        .where(DocumentURIHistory.hash == name)
        .order_by(col(DocumentURIHistory.process_date), col(DocumentURIHistory.id))
    )
    async with Database.session(read_only=True) as session:
        rows = list((await session.exec(query)).all())
        if not rows and await session.get(Document, name) is None:
            raise NotFoundError("document", doc_hash)
    return rows


async def record_history(
    doc_hash: str, action: HistoryAction, *, meta: Mapping[str, Any] | None = None, now: datetime | None = None
) -> int:
    """Note what a step did with a document, at every URI it lives at; gives how many those are."""
    return await record_histories({doc_hash: meta or {}}, action, now=now)


async def record_histories(
    documents: Mapping[str, Mapping[str, Any]], action: HistoryAction, *, now: datetime | None = None
) -> int:
    """As `record_history`, for many documents in one transaction: each with what there is to say about it."""
    noted_at = now or utcnow()

    def script() -> Script[int]:
        count = 0
        for doc_hash in sorted(documents):
            meta = Json(dict(documents[doc_hash]))
            rows = yield SQL.insert_history_of_document(hash=doc_hash, action=action.value, meta=meta, now=noted_at)
            count += len(rows)
        return count

    return await Database.transact(script()) if documents else 0


def _known_form(doc_hash: str) -> str:
    """The hash as it is stored. NotFoundError for a text that cannot be a hash."""
    if not doc_hash.isascii() or unstorable_in(doc_hash):
        raise NotFoundError("document", doc_hash)
    return doc_hash
