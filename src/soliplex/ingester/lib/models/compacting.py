"""Space that deletions left in the database of documents, given back.

SQLite keeps the pages of deleted rows in its file for rows to come, and only VACUUM writes a file without them; this
takes as much room on the disk as what is left, and keeps other writers waiting meanwhile. PostgreSQL frees pages by
itself (autovacuum) and keeps them for rows to come; asked for it, it does so at once, and tells its planner of it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from soliplex.ingester.lib.models.database import Database
from soliplex.ingester.lib.models.troubles import DatabaseBusyError, holders_of, is_busy

WORTH_IT: Final = 0.01
"""Share of free pages from which a file is written anew: a large one is not, for the sake of a few pages."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of the database's size."""

    name: str
    bytes_before: int
    bytes_after: int
    bytes_free: int | None
    """Bytes of deleted rows in the file before; None on PostgreSQL, which does not tell."""
    is_done: bool
    """Whether anything was worth doing."""
    is_held_back: bool = False
    """Whether somebody reads what was there before, so that the file cannot shrink yet."""


async def compact_database(*, wait: float) -> Compacted:
    """Give back what deletions left. DatabaseBusyError where another process writes for longer than `wait` seconds."""
    path = Database.path()
    return await (_compact_postgres() if path is None else asyncio.to_thread(_compact_sqlite, path, wait))


def _compact_sqlite(path: Path, wait: float) -> Compacted:
    before = _size(path)
    # A connection of its own: that of the pool would keep the copy in memory.
    connection = sqlite3.connect(path, timeout=wait, isolation_level=None)
    try:
        pages, free, size = (_pragma(connection, name) for name in ("page_count", "freelist_count", "page_size"))
        is_worth_it = free > pages * WORTH_IT
        if is_worth_it:
            connection.execute("VACUUM")
        # The file itself shrinks when what VACUUM wrote is taken over from the log.
        is_held_back = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    except sqlite3.OperationalError as exc:
        if is_busy(exc):
            raise DatabaseBusyError(path, wait, holders_of(path)) from exc
        raise
    finally:
        connection.close()
    return Compacted(str(path), before, _size(path), free * size, is_worth_it, is_held_back)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _size(path: Path) -> int:
    """The size of the file with its write-ahead log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in files if each.exists())


async def _compact_postgres() -> Compacted:
    size = sa.text("SELECT pg_database_size(current_database())")
    async with Database.engine().connect() as plain:
        connection = await plain.execution_options(isolation_level="AUTOCOMMIT")  # VACUUM takes no transaction
        before = int((await connection.execute(size)).scalar_one())
        await connection.execute(sa.text("VACUUM (ANALYZE)"))
        after = int((await connection.execute(size)).scalar_one())
    return Compacted(str(Database.url().database), before, after, None, is_done=True)
