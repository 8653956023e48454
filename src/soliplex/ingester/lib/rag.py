"""The RAG database (LanceDB through haiku.rag): who may write to it, and its upkeep.

One writer at a time is LanceDB's rule. Every writer, in whatever process, takes the resource lock of the database
first: steps by their `resource_key`, everyone else by `hold_rag_lock`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import LockedError, NotFoundError
from soliplex.ingester.lib.models import ResourceLock, ResourceLockKind
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.operations.locks import find_resource_lock

LOCK_TTL: Final = timedelta(minutes=5)
LOOK_AGAIN: Final = 0.25


class RagLockedError(LockedError):
    """Another writer holds the database."""

    def __init__(self, key: str, lock: ResourceLock | None) -> None:
        holder = (
            f"{lock.holder_kind} {lock.holder_id} since {lock.acquired_at:%Y-%m-%d %H:%M:%S} UTC" if lock else "another"
        )
        super().__init__(f"{key} is in use by {holder}")
        self.key = key
        self.lock = lock


def rag_path(name: str) -> str:
    """Where the database of this name lives: below LANCEDB_DIR, and nowhere else."""
    if not name or name in {".", ".."} or any(mark in name for mark in ("/", "\\", "\x00")):
        raise NotFoundError("RAG database", name)
    folder = get_settings().lancedb_dir
    return f"{folder.rstrip('/')}/{name}" if "://" in folder else str(Path(folder).absolute() / name)


def rag_resource_key(db_path: str | Path) -> str:
    """The key under which all writers of this database meet."""
    text = str(db_path)
    return f"rag:{text}" if "://" in text else f"rag:{os.path.realpath(text)}"


@asynccontextmanager
async def hold_rag_lock(
    db_path: str | Path,
    *,
    holder_kind: ResourceLockKind,
    max_wait: float | None = None,
    meta: Mapping[str, Any] | None = None,
) -> AsyncGenerator[str]:
    """Exclusive use of the database for the time of the block.

    `max_wait` is in seconds: None waits for ever, 0 fails at once with RagLockedError.
    """
    key, holder_id = rag_resource_key(db_path), f"{holder_kind}:{uuid4()}"
    await _acquire(key, holder_id, holder_kind, max_wait, meta or {})
    refreshing = asyncio.create_task(_refresh(key, holder_id))
    try:
        yield holder_id
    finally:
        refreshing.cancel()
        await asyncio.gather(refreshing, return_exceptions=True)
        await operations.release_resource_lock(key, holder_id)


async def _acquire(
    key: str, holder_id: str, kind: ResourceLockKind, max_wait: float | None, meta: Mapping[str, Any]
) -> None:
    loop = asyncio.get_running_loop()
    deadline = None if max_wait is None else loop.time() + max_wait
    while not await operations.acquire_resource_lock(key, holder_id, kind, ttl=LOCK_TTL, meta=meta):
        if deadline is not None and loop.time() >= deadline:
            raise RagLockedError(key, await find_resource_lock(key))
        await asyncio.sleep(LOOK_AGAIN)


async def _refresh(key: str, holder_id: str) -> None:
    while True:
        await asyncio.sleep(LOCK_TTL.total_seconds() / 2)
        await operations.refresh_resource_lock(key, holder_id, ttl=LOCK_TTL)


async def vacuum(db_path: str | Path, *, retention_seconds: int = 0) -> None:
    """Compact the database and drop old versions. The caller holds its lock."""
    from haiku.rag.client import HaikuRAG  # noqa: PLC0415  six seconds, and only for those who vacuum

    async with HaikuRAG(Path(db_path), config=_config(), skip_validation=True) as client:
        await client.vacuum(retention_seconds)


async def is_absent(db_path: str | Path) -> bool:
    """Whether there is certainly no such database; of one in a bucket that is not known."""
    return "://" not in str(db_path) and not await asyncio.to_thread(Path(db_path).is_dir)


DOC_HASH: Final = "doc_hash"
"""The key in the metadata of a RAG document under which the hash of its content stands."""


async def delete_documents(db_path: str | Path, doc_hashes: Sequence[str]) -> int:
    """Delete what the database holds of these documents; gives how many it did hold. The caller holds its lock."""
    # Six seconds, which the loop must not stand still for.
    client_module = await asyncio.to_thread(importlib.import_module, "haiku.rag.client")
    wanted = frozenset(doc_hashes)
    async with client_module.HaikuRAG(Path(db_path), config=_config(), skip_validation=True) as client:
        documents = await client.list_documents()
        doomed = [document.id for document in documents if document.metadata.get(DOC_HASH) in wanted]
        for document_id in doomed:
            await client.delete_document(document_id)
    return len(doomed)


def _config() -> Any:
    from haiku.rag.config import AppConfig  # noqa: PLC0415  as above

    return AppConfig.model_validate({"storage": {"auto_vacuum": False}})


def checksum(db_path: Path) -> str:
    """SHA-256 over the names and contents of all files of the database."""
    digest = hashlib.sha256()
    for path in sorted(path for path in db_path.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(db_path)).encode() + b"\x00")
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
