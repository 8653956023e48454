"""Troubles of the database in words: what is the matter, who holds it, and what to do.

Errors are recognised by their codes; a driver's text differs from version to version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import asyncpg
import sqlalchemy as sa

from soliplex.ingester.lib.errors import IngesterError, LockedError
from soliplex.ingester.lib.models import connecting

_PRIMARY: Final = 0xFF
"""The first byte of SQLite's error codes is the kind; the rest is a detail of it."""
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_LOCKS: Final = Path("/proc/locks")
_MOST_NAMED: Final = 3
_WORDS: Final = {
    sqlite3.SQLITE_FULL: "the disk of {path} is full; make room and try again",
    sqlite3.SQLITE_READONLY: "{path} cannot be written; make the file and its folder writable",
    sqlite3.SQLITE_IOERR: "{path} cannot be read or written; see to its disk and try again",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened; see that it exists and may be read and written",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "{path} is not a SQLite database; restore a backup, or name another file in DOC_DB_URL",
}


class DatabaseBusyError(LockedError):
    """Another process wrote to the SQLite database for longer than we wait."""

    def __init__(self, path: Path, waited: float, holders: list[str]) -> None:
        who = ", ".join(holders[:_MOST_NAMED]) or "another process"
        super().__init__(
            f"the database {path} is locked by {who}, and stayed so for {waited:g} seconds; let that finish or end it, "
            "then try again, or raise SQLITE_BUSY_TIMEOUT_SECONDS"
        )
        self.path = path
        self.holders = holders


class DatabaseTroubleError(IngesterError):
    """The database cannot do its work; says what to do."""


def is_busy(exc: BaseException) -> bool:
    """Whether SQLite gave up waiting for another writer. Neither the database nor what was asked is at fault."""
    return any(isinstance(each, sqlite3.Error) and _code(each) in _BUSY for each in _chain(exc))


def in_words(exc: BaseException, url: str, *, waited: float) -> IngesterError | None:
    """The error for a person, where it is the database's; None for any other."""
    parsed = connecting.parse_url(url)
    for each in _chain(exc):
        match each:
            case sqlite3.Error() if parsed.database:
                return _of_sqlite(each, Path(parsed.database), waited)
            case asyncpg.PostgresError() | asyncpg.InterfaceError() | ConnectionError():
                return connecting.explain(each, parsed) if parsed.get_backend_name() == "postgresql" else None
            case _:
                continue
    return None


def wait_for_writer(url: sa.URL, seconds: float) -> None:
    """Wait until a SQLite database can be written; DatabaseBusyError if that takes longer."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    connection = sqlite3.connect(url.database, timeout=seconds, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as exc:
        if not is_busy(exc):
            raise
        raise DatabaseBusyError(Path(url.database), seconds, holders_of(Path(url.database))) from exc
    finally:
        connection.close()


def holders_of(path: Path) -> list[str]:
    """The processes that hold a lock for writing on the database's files, as far as the system tells."""
    try:
        files = {each.stat().st_ino for each in _files_of(path) if each.exists()}
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []  # this is not Linux, or this user may not read the file
    return [_named(pid) for pid in dict.fromkeys(_writers(lines, files))]


def _files_of(path: Path) -> tuple[Path, ...]:
    return path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _writers(lines: list[str], inodes: set[int]) -> Iterator[int]:
    """`1: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120`: who holds which part of which file."""
    for line in lines:
        match line.split():
            case [_, kind, _, "WRITE", pid, file, *_] if kind != "->":  # an arrow marks one that waits
                if int(file.rpartition(":")[2]) in inodes and int(pid) > 0:
                    yield int(pid)
            case _:
                continue


def _named(pid: int) -> str:
    try:
        return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return f"process {pid}"


def _of_sqlite(exc: sqlite3.Error, path: Path, waited: float) -> IngesterError | None:
    if _code(exc) in _BUSY:
        return DatabaseBusyError(path, waited, holders_of(path))
    words = _WORDS.get(_code(exc))
    return DatabaseTroubleError(f"the database {words.format(path=path)}") if words else None


def _code(exc: sqlite3.Error) -> int:
    return getattr(exc, "sqlite_errorcode", 0) & _PRIMARY


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The error, the errors of its group, and the causes of each."""
    seen: set[int] = set()
    waiting = [exc]
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        waiting.extend(more for more in (getattr(each, "orig", None), each.__cause__, each.__context__) if more)
