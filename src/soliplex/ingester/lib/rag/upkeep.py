"""Upkeep of a RAG database: compacting it, and writing down what it was then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from soliplex.ingester.lib.rag.database_files import files_of
from soliplex.ingester.lib.rag.fencing import Fence, FencedTable, put_up_fences
from soliplex.ingester.lib.rag.indexes import merge_indexes
from soliplex.ingester.lib.rag.opening import imported, open_rag
from soliplex.ingester.lib.rag.readers import forget_reader


async def vacuum(db_path: str | Path, *, fence: Fence, retention_seconds: int = 0) -> None:
    """Compact the database, merge its indexes and drop old versions. The caller holds its lock.

    As haiku.rag's own vacuum, but behind the fence of the caller: one that has lost the lock compacts nothing.
    """
    async with open_rag(db_path, None) as rag:
        # The indexes are merged first, which makes a new version: the fences begin with the newest one, and what was
        # compacted from another would be in vain.
        await merge_indexes(rag.store)
        tables = await put_up_fences(rag.store, fence)
        for table in (*tables.all, await tables.with_settings()):
            await _compact(table, rag.store, timedelta(seconds=retention_seconds))
    await forget_reader(db_path)


async def _compact(table: FencedTable, store: Any, retention: timedelta) -> None:
    engine = await imported("haiku.rag.store.engine")
    schema = await imported("haiku.rag.store.schema")
    target = store._config.storage.compaction_target_bytes  # noqa: SLF001  as its own vacuum does

    def compact(dataset: Any) -> None:
        if not schema.has_payload_columns(table.schema):
            dataset.optimize.compact_files()
        elif rows := engine.compaction_target_rows(dataset, target):
            dataset.optimize.compact_files(target_rows_per_fragment=rows)

    await table.maintain(compact)
    await table.maintain(lambda dataset: dataset.optimize.optimize_indices())
    await table.drop_old_versions(retention)


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
