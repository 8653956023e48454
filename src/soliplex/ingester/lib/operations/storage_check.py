"""Seeing that what the rows of a batch speak of is really stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations.batches import get_batch
from soliplex.ingester.lib.operations.deletion import delete_documents
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storage import Integrity, get_artifacts


@dataclass(frozen=True, slots=True)
class StorageCheck:
    """How the documents of a batch were found."""

    batch_id: int
    total: int
    valid: int
    missing_hashes: list[str] = field(default_factory=list[str])
    damaged_hashes: list[str] = field(default_factory=list[str])
    """Hashes of documents whose bytes are stored, but are no longer those that were stored."""
    cleanup_stats: dict[str, int] | None = None

    @property
    def missing(self) -> int:
        return len(self.missing_hashes)


async def validate_storage(batch_id: int, *, clean_up: bool = False, deep: bool = True) -> StorageCheck:
    """Look at the bytes of every document of the batch; `deep` reads them and compares their hash.

    `clean_up` deletes the rows of those that are missing or damaged: their source will be told that they are new, and
    sends them again.
    """
    await get_batch(batch_id)
    hashes = [row["doc_hash"] for row in await Database.read(SQL.batch_documents(batch_id=batch_id))]
    found = await get_artifacts().verify(hashes, deep=deep)
    missing = [doc_hash for doc_hash, state in found.items() if state is Integrity.MISSING]
    damaged = [doc_hash for doc_hash, state in found.items() if state is Integrity.DAMAGED]
    stats = (await delete_documents(missing + damaged)).statistics() if clean_up else None
    return StorageCheck(batch_id, len(hashes), len(hashes) - len(missing) - len(damaged), missing, damaged, stats)
