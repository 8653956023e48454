"""Uploading documents, sent by a client or fetched: bytes first, made durable under their hash, then their rows.

    receive (hash while it comes) ──▶ keep (durable) ──▶ rows (document, URI, history) ──▶ still there? ──▶ done

A crash before the rows leaves bytes without a row, which `cleanup_orphans` finds. A deletion of the same content that
comes between keeping and recording may take the bytes along: then they are kept once more, from the spool, which stays
until all is done. A small document is not spooled but held in memory. Small documents that arrive together are kept
together, and all that arrive together are recorded together (`recording`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from soliplex.ingester.lib.mime import detect_mime_type, needs_file
from soliplex.ingester.lib.operations.batches import require_batch
from soliplex.ingester.lib.operations.errors import BeingRemovedError
from soliplex.ingester.lib.operations.recording import Arrival, Uploaded, record
from soliplex.ingester.lib.storable import checked_integer, checked_meta, checked_name, checked_uri
from soliplex.ingester.lib.storage import Artifacts, Received, get_artifacts

LOOK_AGAIN: Final = 0.05
LONGEST_WAIT: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """What is to be known of a document besides its bytes."""

    uri: str
    source: str
    batch_id: int
    mime_type: str | None = None
    """What the sender says it is; it counts where the bytes and the name do not say."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    priority: int | None = None
    """The priority of its runs, in place of the batch's. 0 takes back what an upload said before, None leaves it."""

    def checked(self) -> NewDocument:
        """The same, or InvalidInputError for what cannot be stored."""
        return replace(
            self,
            uri=checked_uri(self.uri),
            source=checked_name("source", self.source),
            mime_type=checked_name("mime_type", self.mime_type) if self.mime_type else None,
            meta=checked_meta("doc_meta", self.meta),
            priority=None if self.priority is None else checked_integer("priority", self.priority),
        )


async def upload_document(content: AsyncIterable[bytes], new: NewDocument, *, limit: int | None = None) -> Uploaded:
    """Take a document in from wherever its bytes come. `limit` is the most bytes it may have."""
    new = new.checked()
    await require_batch(new.batch_id)  # checked before the bytes are sent
    return await upload_received(await get_artifacts().receive(content, limit=limit, hold=True), new)


async def upload_received(received: Received, new: NewDocument) -> Uploaded:
    """Keep a document that has arrived for a batch that is there, and record it. Its spool is gone afterwards."""
    artifacts = get_artifacts()
    try:
        new = new.checked()
        if received.held is not None and needs_file(received.head):
            received = await artifacts.as_file(received)
        arrival = _arrival(received, new, await _mime_type(received, new))
        return await _keep_and_record(artifacts, received, lambda: record(arrival))
    except BaseException:
        await artifacts.discard(received)
        raise


async def keep_received[R](received: Received, record_it: Callable[[], Awaitable[R]]) -> R:
    """Keep a document that has arrived, and record it by a transaction of the caller's own. Its spool is gone then.

    The transaction may be asked for more than once: if the same content is being deleted, it raises BeingRemovedError.
    """
    artifacts = get_artifacts()
    try:
        return await _keep_and_record(artifacts, received, record_it)
    except BaseException:
        await artifacts.discard(received)
        raise


async def _mime_type(received: Received, new: NewDocument) -> str:
    # Where all bytes are in memory, detecting takes less time than a hop to a thread.
    if received.held is not None or received.size <= len(received.head):
        return detect_mime_type(received.path, new.uri, declared=new.mime_type, head=received.head)
    return await asyncio.to_thread(detect_mime_type, received.path, new.uri, declared=new.mime_type, head=received.head)


def _arrival(received: Received, new: NewDocument, mime_type: str) -> Arrival:
    return Arrival(
        doc_hash=received.hash,
        size=received.size,
        mime_type=mime_type,
        uri=new.uri,
        source=new.source,
        batch_id=new.batch_id,
        meta=new.meta,
        priority=new.priority,
    )


async def _keep_and_record[R](artifacts: Artifacts, received: Received, record_it: Callable[[], Awaitable[R]]) -> R:
    waited = 0.0
    while True:
        await artifacts.keep_copy(received)
        try:
            recorded = await record_it()
        except BeingRemovedError:
            if waited >= LONGEST_WAIT:
                raise
            await asyncio.sleep(LOOK_AGAIN)
            waited += LOOK_AGAIN
            continue
        if not await artifacts.release(received):
            await artifacts.keep_copy(received)
            await artifacts.discard(received)
        return recorded
