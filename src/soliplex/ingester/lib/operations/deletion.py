"""Deleting: a URI, and with the last URI of a document the document itself, its runs, and all that is stored of it.

With a URI go the contents that it had before, unless they live elsewhere or another URI can be rolled back to them.
Where a document lives on is told to RAG databases.

Rows go in one transaction, with a number of statements that does not depend on how many there are. Locks are taken in
the order batches, documents, URIs, runs, groups. What was found before the locks were held may have changed meanwhile;
then the transaction begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import batched
from typing import Final

from soliplex.ingester.lib.errors import ConflictError, DocumentURINotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.operations.forgetting import forget_runs_of_documents
from soliplex.ingester.lib.operations.removals import (
    ARTIFACTS,
    PLACES,
    RAG,
    Removal,
    finish_removals,
    request_removals,
)
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storage import StrayKind, find_strays, get_artifacts, remove_strays

AT_ONCE: Final = 5_000
"""How many URIs one transaction deletes, so that nobody waits long for it."""
TRIES: Final = 20


@dataclass(slots=True)
class Deleted:
    """How many rows of each kind were deleted."""

    document_uris: int = 0
    uri_history: int = 0
    documents: int = 0
    workflow_runs: int = 0
    run_steps: int = 0
    lifecycle_history: int = 0
    versions: int = 0
    """Versions of URIs that live on, to which they can now not be rolled back any more."""
    removals: list[Removal] = field(default_factory=list[Removal])
    """What is stored of the documents, and still has to be removed."""

    def statistics(self) -> dict[str, int]:
        counted = {
            "deleted_document_uris": self.document_uris,
            "deleted_uri_history": self.uri_history,
            "deleted_documents": self.documents,
            "deleted_workflow_runs": self.workflow_runs,
            "deleted_run_steps": self.run_steps,
            "deleted_lifecycle_history": self.lifecycle_history,
        }
        return {**counted, "total_deleted": sum(counted.values())}

    def add(self, other: Deleted) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class _ChangedMeanwhileError(Exception):
    """What was found without a lock had changed by the time the lock was held."""


async def delete_document_uri_by_uri(uri: str, source: str) -> dict[str, int]:
    """Delete a URI with its history; with the last URI of a document, everything that is known and stored of it.

    The contents of its earlier versions go too, where nothing else leads to them any more.
    """
    deleted = await _delete(SQL.uris_by_name(source=source, uris=[uri]))
    if not deleted.document_uris:
        raise DocumentURINotFoundError(uri, source)
    await finish_removals(deleted.removals)
    return deleted.statistics()


async def delete_uris(source: str, uris: Sequence[str]) -> Deleted:
    """Delete many URIs of a source as `delete_document_uri_by_uri` does, passing over those that are gone already."""
    total = Deleted()
    for some in batched(uris, AT_ONCE):
        deleted = await _delete(SQL.uris_by_name(source=source, uris=list(some)))
        await finish_removals(deleted.removals)
        total.add(deleted)
    return total


async def delete_documents(hashes: Sequence[str]) -> Deleted:
    """Delete documents with all their URIs."""
    total = Deleted()
    for some in batched(hashes, AT_ONCE):
        deleted = await _delete(SQL.uris_of_documents(hashes=list(some)))
        await finish_removals(deleted.removals)
        total.add(deleted)
    return total


async def cleanup_orphans() -> dict[str, int]:
    """Delete documents that live at no URI, with what older versions of URIs tell of them, and finish old removals.

    The content of an older version is such a document, unless it lives somewhere else: afterwards the URI cannot be
    rolled back to it. `deleted_versions` says of how many versions that is so. Bytes that crashes left behind go too:
    spools that nobody will keep, blobs of documents that have no row.
    """
    total = Deleted()
    while True:
        deleted = await Database.transact(_delete_orphans(utcnow()))
        if not deleted.documents:
            break
        await finish_removals(deleted.removals)
        total.add(deleted)
    await finish_removals()
    strays = await _remove_strays()
    return {
        "deleted_documents": total.documents,
        "deleted_history": total.uri_history,
        "deleted_versions": total.versions,
        "deleted_strays": strays,
    }


async def _delete(find: Call) -> Deleted:
    for _ in range(TRIES):
        try:
            return await Database.transact(_delete_script(find, utcnow()))
        except _ChangedMeanwhileError:
            continue
    raise ConflictError("the documents are being changed by others all the time: try again later")


def _delete_script(find: Call, now: datetime) -> Script[Deleted]:
    found = yield find
    if not found:
        return Deleted()
    for batch_id in sorted({row["batch_id"] for row in found if row["batch_id"] is not None}):
        yield SQL.share_batch(batch_id=batch_id)
    hashes = sorted({row["doc_hash"] for row in found})
    ids = sorted(row["id"] for row in found)
    earlier = [row["hash"] for row in (yield SQL.contents_of_uris(ids=ids))]
    yield SQL.lock_documents(hashes=sorted({*hashes, *earlier}))
    held = yield SQL.lock_uris(ids=ids)
    if _facts(held) != _facts(found):
        raise _ChangedMeanwhileError
    history = yield SQL.delete_history_of_uris(ids=ids)
    yield SQL.delete_uris(ids=ids)
    left = yield SQL.hashes_without_uris(hashes=hashes)
    # Contents of earlier versions go, too: searches still find one whose successor was never stored.
    unreachable = yield SQL.hashes_without_history(hashes=earlier)
    doomed = {row["hash"] for row in (*left, *unreachable)}
    deleted = yield from _delete_documents(sorted(doomed), now)
    deleted.document_uris, deleted.uri_history = len(ids), len(history)
    deleted.removals += yield from _tell_places(sorted({*hashes, *earlier} - doomed), now)
    return deleted


def _tell_places(hashes: list[str], now: datetime) -> Script[list[Removal]]:
    """Have RAG databases told, of documents that live on elsewhere, that they do not live here any more."""
    if not hashes:
        return []
    places = [(row["doc_hash"], PLACES) for row in (yield SQL.living_documents(hashes=hashes))]
    yield from request_removals(places, now)
    return places


def _facts(rows: Sequence[Row]) -> set[tuple[int, str, int | None]]:
    return {(row["id"], row["doc_hash"], row["batch_id"]) for row in rows}


def _delete_orphans(now: datetime) -> Script[Deleted]:
    found = yield SQL.orphans(limit=AT_ONCE)
    hashes = [row["hash"] for row in found]
    yield SQL.lock_documents(hashes=hashes)
    # An upload may have given one of the documents a URI before the document was locked.
    left = yield SQL.hashes_without_uris(hashes=hashes)
    doomed = [row["hash"] for row in left]
    history = yield SQL.delete_history_of_documents(hashes=doomed)
    deleted = yield from _delete_documents(doomed, now)
    deleted.uri_history = len(history)
    deleted.versions = len({(row["doc_uri_id"], row["version"]) for row in history})
    return deleted


def _delete_documents(hashes: list[str], now: datetime) -> Script[Deleted]:
    """Delete documents that have no URI, with their runs; the caller holds them."""
    if not hashes:
        return Deleted()
    forgotten = yield from forget_runs_of_documents(hashes, now)
    databases = [
        (doc_hash, key) for doc_hash, keys in forgotten.resources.items() for key in sorted(keys) if key.startswith(RAG)
    ]
    removals = [*((doc_hash, ARTIFACTS) for doc_hash in hashes), *databases]
    yield SQL.drop_removals(hashes=hashes, target=PLACES)
    yield from request_removals(removals, now)
    yield SQL.delete_documents(hashes=hashes)
    return Deleted(
        documents=len(hashes),
        workflow_runs=forgotten.deleted.runs,
        run_steps=forgotten.deleted.steps,
        lifecycle_history=forgotten.deleted.events,
        removals=removals,
    )


async def _remove_strays() -> int:
    artifacts = get_artifacts()
    strays = [stray async for stray in find_strays(artifacts)]
    spools = [stray for stray in strays if stray.kind is StrayKind.SPOOL]
    # Blobs go by way of removals: one of them may be uploaded again at this moment.
    blobs = [(doc_hash, ARTIFACTS) for stray in strays if (doc_hash := artifacts.layout.hash_of(stray.key))]
    await Database.transact(request_removals(sorted(set(blobs)), utcnow()))
    return await remove_strays(artifacts, spools) + await finish_removals(set(blobs))
