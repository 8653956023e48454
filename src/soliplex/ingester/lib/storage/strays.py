"""What crashes leave behind: spools that nobody will keep, and blobs of documents that no row tells of.

Both are looked for among what is old enough: what was stored a moment ago may belong to a row about to be committed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlmodel import col, select

from soliplex.ingester.lib.models import Database, Document
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.storage.artifacts import Artifacts
from soliplex.ingester.lib.storage.blob_keys import Layout
from soliplex.ingester.lib.storage.blobs import Blob
from soliplex.ingester.lib.storage.fs import unlink_all
from soliplex.ingester.lib.storage.threads import in_thread

OLD_ENOUGH: Final = timedelta(hours=24)
"""What is younger than this may belong to an upload that goes on: no upload takes a day."""
ASKED_AT_ONCE: Final = 500

type Known = Callable[[Collection[str]], Awaitable[set[str]]]


class StrayKind(StrEnum):
    """Where a stray lies."""

    SPOOL = "spool"
    BLOB = "blob"


@dataclass(frozen=True, slots=True)
class Stray:
    """Bytes that belong to nothing: a key of the store, or the name of a file in the spool."""

    kind: StrayKind
    key: str
    size: int


async def known_documents(doc_hashes: Collection[str]) -> set[str]:
    """Which of the hashes have a row."""
    query = select(Document.hash).where(col(Document.hash).in_(doc_hashes))
    async with Database.session(read_only=True) as session:
        return set(await session.exec(query))


async def find_strays(
    artifacts: Artifacts,
    *,
    older_than: timedelta = OLD_ENOUGH,
    known: Known = known_documents,
    now: datetime | None = None,
) -> AsyncIterator[Stray]:
    """Every left-over spool, and every blob of ours whose document is not known."""
    before = (now or utcnow()) - older_than
    for stray in await in_thread(_old_spools, artifacts.spool.folder, before):
        yield stray
    some: list[Blob] = []
    async for blob in artifacts.store.list(""):
        if Layout.hash_of(blob.key) and (blob.modified is None or blob.modified <= before):
            some.append(blob)
        if len(some) == ASKED_AT_ONCE:
            for stray in await _unknown(some, known):
                yield stray
            some.clear()
    for stray in await _unknown(some, known):
        yield stray


async def remove_strays(artifacts: Artifacts, strays: Iterable[Stray]) -> int:
    """Delete what `find_strays` found; the number that was still there."""
    found = tuple(strays)
    spools = [artifacts.spool.folder / stray.key for stray in found if stray.kind is StrayKind.SPOOL]
    blobs = [stray.key for stray in found if stray.kind is StrayKind.BLOB]
    return await in_thread(unlink_all, spools) + await artifacts.store.delete(blobs)


async def _unknown(blobs: Sequence[Blob], known: Known) -> Sequence[Stray]:
    hashes = {doc_hash for blob in blobs if (doc_hash := Layout.hash_of(blob.key))}
    there = await known(hashes) if hashes else set[str]()
    return [Stray(StrayKind.BLOB, blob.key, blob.size) for blob in blobs if Layout.hash_of(blob.key) not in there]


def _old_spools(folder: Path, before: datetime) -> Sequence[Stray]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
    except FileNotFoundError:
        return ()
    return [
        Stray(StrayKind.SPOOL, name, status.st_size)
        for name, status in found
        if datetime.fromtimestamp(status.st_mtime, UTC) <= before
    ]
