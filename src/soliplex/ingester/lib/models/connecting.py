"""Reaching a database: what its URL must look like, and clear words when it cannot be reached.

Every failure here is a ConfigurationError that names DOC_DB_URL and the fix.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any, Final

import aiosqlite
import asyncpg
import sqlalchemy as sa
from sqlalchemy import exc as errors
from sqlalchemy.ext.asyncio import AsyncEngine

from soliplex.ingester.lib.config.checks import Unfit
from soliplex.ingester.lib.config.database_url import normalise_database_url
from soliplex.ingester.lib.errors import ConfigurationError

SETTING: Final = "DOC_DB_URL"
OLDEST_POSTGRES: Final = 140000
"""PostgreSQL 14, as the server reports it; pgmq asks for the same."""


def parse_url(text: str) -> sa.URL:
    """The URL with its async driver."""
    try:
        return sa.make_url(normalise_database_url(text))
    except Unfit as exc:
        raise ConfigurationError(SETTING, exc.problem, exc.fix) from exc
    except (errors.ArgumentError, ValueError) as exc:
        fix = "write sqlite+aiosqlite:///path/documents.db or postgresql+asyncpg://user:password@host/database"
        raise ConfigurationError(SETTING, "it is not a database URL", fix) from exc


def may_be_there(url: sa.URL) -> bool:
    """Whether there may be such a database. Of an embedded one it can be seen; opening it would create it."""
    is_a_file = url.get_backend_name() == "sqlite"
    return not is_a_file or bool(url.database and Path(url.database).is_file())


def sqlite_pragmas(busy_timeout_seconds: float) -> tuple[str, ...]:
    return (
        f"PRAGMA busy_timeout = {int(busy_timeout_seconds * 1000)}",  # first: even the switch to WAL may have to wait
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",  # what was acknowledged survives a power cut
        "PRAGMA foreign_keys = ON",
        "PRAGMA temp_store = MEMORY",
        "PRAGMA cache_size = -65536",
    )


class SqliteConnection(aiosqlite.Connection):
    """A connection whose file is closed also when whoever asked for it was cancelled while its thread opened it.

    aiosqlite itself then forgets what the thread opened, and the file stays open until garbage is collected.
    """

    def __init__(self, database: str, **options: Any) -> None:
        self._opened: sqlite3.Connection | None = None
        super().__init__(lambda: self._open(database, options), iter_chunk_size=64)
        self._thread.daemon = True  # it must not keep a process alive that ends without closing its connections

    def stop(self) -> asyncio.Future[Any] | None:
        self._tx.put_nowait((None, self._close))  # after the opening, which may still wait in this queue
        return super().stop()

    def _open(self, database: str, options: dict[str, Any]) -> sqlite3.Connection:
        self._opened = sqlite3.connect(database, **options)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def make_room_for(url: sa.URL) -> None:
    """Create the folder of a SQLite database, and see that the file can be written."""
    assert url.database
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        problem = f"the folder {path.parent} cannot be created ({exc.strerror})"
        raise ConfigurationError(SETTING, problem, "choose a folder that can be written, or set DATA_DIR") from exc
    if path.is_dir():
        raise ConfigurationError(SETTING, f"{path} is a folder", "name a file in it")
    target = path if path.exists() else path.parent
    if not os.access(target, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise ConfigurationError(
            SETTING, f"{target} is read-only", "make it writable, or set DATA_DIR to a folder that is"
        )
    _check_is_database(path)


def _check_is_database(path: Path) -> None:
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError as exc:
        if exc.sqlite_errorcode in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
            problem = f"{path} is not a SQLite database, or it is damaged"
            raise ConfigurationError(SETTING, problem, "name another file, or restore a backup") from exc


async def check_postgres(engine: AsyncEngine) -> None:
    """See that the server answers and is new enough."""
    try:
        async with engine.connect() as connection:
            version = int((await connection.exec_driver_sql("SHOW server_version_num")).scalar_one())
    except (OSError, TimeoutError, errors.DBAPIError, asyncpg.PostgresError) as exc:
        await engine.dispose()
        raise explain(exc, engine.url) from exc
    if version < OLDEST_POSTGRES:
        await engine.dispose()
        problem = f"PostgreSQL {version // 10000} is too old"
        raise ConfigurationError(SETTING, problem, f"use PostgreSQL {OLDEST_POSTGRES // 10000} or newer")


class DatabaseAwayError(ConfigurationError):
    """PostgreSQL takes no connection at the moment: it may be about to start, and waiting may help."""


def explain(exc: BaseException, url: sa.URL) -> ConfigurationError:
    """Why PostgreSQL could not be reached, and what to do about it."""
    cause = _cause(exc)
    where = f"{url.host or url.query.get('host', 'localhost')}:{url.port or 5432}"
    match cause:
        case asyncpg.InvalidCatalogNameError():
            return ConfigurationError(
                SETTING, f"database {url.database!r} does not exist", "create it with `si-cli db-init`"
            )
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return ConfigurationError(
                SETTING, f"PostgreSQL at {where} refused user {url.username!r}", "correct user and password"
            )
        case asyncpg.TooManyConnectionsError() | asyncpg.CannotConnectNowError():
            return DatabaseAwayError(
                SETTING, f"PostgreSQL at {where} takes no connection now: {cause}", "try again later"
            )
        case OSError() | TimeoutError():
            problem = f"PostgreSQL at {where} cannot be reached ({_reason(cause)})"
            return DatabaseAwayError(SETTING, problem, "start the server, or correct host and port")
        case _:
            return ConfigurationError(SETTING, f"PostgreSQL at {where} answered: {_reason(cause)}", "correct the URL")


def _cause(exc: BaseException) -> BaseException:
    """The driver's own error, below SQLAlchemy's wrapping."""
    current: BaseException | None = exc
    found = exc
    while current is not None:
        if isinstance(current, asyncpg.PostgresError | OSError | TimeoutError):
            found = current
        current = current.__cause__ or getattr(current, "orig", None)
    return found


def _reason(exc: BaseException) -> str:
    text: Any = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    return str(text).splitlines()[0]
