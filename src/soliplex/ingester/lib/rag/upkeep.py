"""Upkeep of a RAG database: compacting it, and writing down what it was then."""

from __future__ import annotations

from pathlib import Path

from soliplex.ingester.lib.rag.files import files_of
from soliplex.ingester.lib.rag.indexes import merge_indexes
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.readers import forget_reader


async def vacuum(db_path: str | Path, *, retention_seconds: int = 0) -> None:
    """Compact the database, merge its indexes and drop old versions. The caller holds its lock."""
    async with open_rag(db_path, None) as rag:
        await merge_indexes(rag.store)
        await rag.vacuum(retention_seconds)
    await forget_reader(db_path)


async def record_checksum(db_path: str | Path) -> str:
    """Write the SHA-256 of the database's files beside it: later it tells whether something else has changed them.

    The caller holds the lock of the database.
    """
    files, name = files_of(db_path)
    checksum = await files.checksum(name)
    await files.record(name, checksum)
    return checksum


async def is_absent(db_path: str | Path) -> bool:
    """Whether there is no such database."""
    files, name = files_of(db_path)
    return not await files.exists(name)
