"""Taking documents in: bytes first, made durable under their hash, then the rows that speak of them.

    receive (hash while it comes) ──▶ keep (durable) ──▶ rows (document, URI, history) ──▶ still there? ──▶ done

A crash before the rows leaves bytes without a row, which `cleanup_orphans` finds. A deletion of the same content that
comes between keeping and recording may take the bytes along: then they are kept once more, from the spool, which stays
until all is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.mime import detect_mime_type
from soliplex.ingester.lib.models import Database, HistoryAction
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Row, Script, json_of
from soliplex.ingester.lib.operations.batches import require_batch
from soliplex.ingester.lib.operations.checks import checked_meta, checked_name, checked_uri
from soliplex.ingester.lib.operations.errors import BeingRemovedError
from soliplex.ingester.lib.operations.removals import ARTIFACTS
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storage import Artifacts, Received, get_artifacts

TRIES: Final = 20
LOOK_AGAIN: Final = 0.05
LONGEST_WAIT: Final = 30.0


class Change(Enum):
    """What an upload changed at its URI."""

    CREATED = auto()
    UPDATED = auto()
    MOVED = auto()
    """The same content, which lived in another batch."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """What is to be known of a document besides its bytes."""

    uri: str
    source: str
    batch_id: int
    mime_type: str | None = None
    """What the sender says it is; it counts where the bytes and the name do not say."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def checked(self) -> NewDocument:
        """The same, or InvalidInputError for what cannot be stored."""
        return replace(
            self,
            uri=checked_uri(self.uri),
            source=checked_name("source", self.source),
            mime_type=checked_name("mime_type", self.mime_type) if self.mime_type else None,
            meta=checked_meta("doc_meta", self.meta),
        )


@dataclass(frozen=True, slots=True)
class Ingested:
    """Where the document lives now."""

    uri_id: int
    uri: str
    source: str
    doc_hash: str
    version: int
    batch_id: int
    change: Change


async def ingest_document(content: AsyncIterable[bytes], new: NewDocument, *, limit: int | None = None) -> Ingested:
    """Take a document in from wherever its bytes come. `limit` is the most bytes it may have."""
    new = new.checked()
    await require_batch(new.batch_id)  # before the bytes are sent for nothing
    return await ingest_received(await get_artifacts().receive(content, limit=limit), new)


async def ingest_received(received: Received, new: NewDocument) -> Ingested:
    """Keep a document that has arrived for a batch that is there, and record it. Its spool is gone afterwards."""
    artifacts = get_artifacts()
    try:
        new = new.checked()
        mime_type = await _mime_type(received, new)
        return await _keep_and_record(artifacts, received, replace(new, mime_type=mime_type))
    except BaseException:
        await artifacts.discard(received)
        raise


async def _mime_type(received: Received, new: NewDocument) -> str:
    if received.size <= len(received.head):  # all of it is here: not worth a thread
        return detect_mime_type(received.path, new.uri, declared=new.mime_type, head=received.head)
    return await asyncio.to_thread(detect_mime_type, received.path, new.uri, declared=new.mime_type, head=received.head)


async def _keep_and_record(artifacts: Artifacts, received: Received, new: NewDocument) -> Ingested:
    waited = 0.0
    while True:
        await artifacts.keep_copy(received)
        try:
            ingested = await Database.transact(_record(received, new, utcnow()))
        except BeingRemovedError:
            if waited >= LONGEST_WAIT:
                raise
            await asyncio.sleep(LOOK_AGAIN)
            waited += LOOK_AGAIN
            continue
        if not await artifacts.release(received):
            await artifacts.keep_copy(received)
            await artifacts.discard(received)
        return ingested


def _record(received: Received, new: NewDocument, now: datetime) -> Script[Ingested]:
    if not (yield SQL.find_batch(batch_id=new.batch_id)):
        raise NotFoundError("batch", new.batch_id)
    yield SQL.hold_contents(hashes=[received.hash])
    for removal in (yield SQL.removals_of(hash=received.hash)):
        if removal["target"] == ARTIFACTS and removal["started_at"] is not None:
            raise BeingRemovedError(received.hash)
    yield from _record_document(received, new)
    row, change = yield from _record_uri(received.hash, new)
    if change in _RECORDED:
        yield SQL.insert_history(
            uri_id=row["id"],
            version=row["version"],
            hash=received.hash,
            now=now,
            action=_RECORDED[change].value,
            batch_id=new.batch_id,
            meta=Json({}),
        )
    return Ingested(row["id"], new.uri, new.source, received.hash, row["version"], new.batch_id, change)


_RECORDED: Final = {Change.CREATED: HistoryAction.CREATED, Change.UPDATED: HistoryAction.UPDATED}


def _record_document(received: Received, new: NewDocument) -> Script[None]:
    for _ in range(TRIES):
        rows = yield SQL.insert_document(
            hash=received.hash, mime_type=new.mime_type, size=received.size, meta=Json(dict(new.meta))
        )
        if rows:
            return
        rows = yield SQL.lock_document(hash=received.hash)
        if rows:
            yield from _merge_meta(rows[0], new.meta)
            return
        # Deleted while we waited for it.
    raise ConflictError(f"document {received.hash} comes and goes: try again later")


def _merge_meta(document: Row, meta: Mapping[str, Any]) -> Script[None]:
    """What is said last of a document holds; what is not said again stays."""
    before = json_of(document, "doc_meta")
    merged = {**before, **meta}
    if merged != before:
        yield SQL.set_document_meta(hash=document["hash"], meta=Json(merged))


def _record_uri(doc_hash: str, new: NewDocument) -> Script[tuple[Row, Change]]:
    for _ in range(TRIES):
        rows = yield SQL.lock_uri(uri=new.uri, source=new.source)
        if rows:
            return (yield from _change_uri(rows[0], doc_hash, new.batch_id))
        rows = yield SQL.insert_uri(hash=doc_hash, uri=new.uri, source=new.source, batch_id=new.batch_id)
        if rows:
            return rows[0], Change.CREATED
        # Another upload was first: what it made is changed.
    raise ConflictError(f"URI {new.uri!r} comes and goes: try again later")


def _change_uri(row: Row, doc_hash: str, batch_id: int) -> Script[tuple[Row, Change]]:
    if row["doc_hash"] != doc_hash:
        rows = yield SQL.replace_content(id=row["id"], hash=doc_hash, batch_id=batch_id)
        return rows[0], Change.UPDATED
    if row["batch_id"] != batch_id:
        # It is processed where it was uploaded to last.
        rows = yield SQL.move_uri(id=row["id"], batch_id=batch_id)
        return rows[0], Change.MOVED
    return row, Change.NOTHING
