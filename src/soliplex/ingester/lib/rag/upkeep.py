"""Upkeep of a RAG database: compacting it, and telling whether it has changed."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.rag.indexes import merge_indexes
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.readers import forget_reader

_BLOCK: Final = 1 << 20


async def vacuum(db_path: str | Path, *, retention_seconds: int = 0) -> None:
    """Compact the database, merge its indexes and drop old versions. The caller holds its lock."""
    async with open_rag(db_path, None) as rag:
        await merge_indexes(rag.store)
        await rag.vacuum(retention_seconds)
    await forget_reader(db_path)


async def is_absent(db_path: str | Path) -> bool:
    """Whether there is certainly no such database; of one in a bucket that is not known."""
    return "://" not in str(db_path) and not await asyncio.to_thread(Path(db_path).is_dir)


def checksum(db_path: Path) -> str:
    """SHA-256 over the names and contents of all files of the database."""
    digest = hashlib.sha256()
    for path in sorted(path for path in db_path.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(db_path)).encode() + b"\x00")
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()
