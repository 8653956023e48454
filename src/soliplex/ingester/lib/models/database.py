"""The database of a wiring: engine, sessions, and links for the workflow engine's scripts.

`Database` is a front: each of its methods goes to the database that is open in the current wiring.

SQLite runs in WAL mode with foreign keys on; every writing transaction begins with BEGIN IMMEDIATE, since one that
upgrades from a read fails at once under contention, whatever the busy timeout. A private in-memory database
(`:memory:`) is a file in a temporary folder that is removed on close, so that all connections see it and it behaves
like any other.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from soliplex.ingester.lib.config import DatabaseSettings
from soliplex.ingester.lib.errors import ConfigurationError, IngesterError
from soliplex.ingester.lib.models import connecting
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import (
    Link,
    LoopLink,
    PostgresLink,
    Rows,
    Script,
    SqliteReaders,
    ThreadLink,
)
from soliplex.ingester.lib.wiring import current_wiring


class NotInitializedError(IngesterError):
    """The database is used before `await Database.initialize()`, or after `close()`."""

    def __init__(self) -> None:
        super().__init__("the database is not open: await Database.initialize() first")


@dataclass(slots=True)
class _Open:
    url: sa.URL
    engine: AsyncEngine
    busy_timeout: float
    scripts: ThreadLink | None = None
    """None on PostgreSQL, and so are `readers`."""
    readers: SqliteReaders | None = None
    temporary: Path | None = None
    number: int = field(default_factory=count().__next__)


@dataclass(slots=True)
class _Slot:
    """Where a wiring keeps its database."""

    opened: _Open | None = None


class Database:
    """Engine and sessions of the current wiring. Open once with `initialize`, close with `close`."""

    @classmethod
    async def initialize(cls, url: str | None = None, *, migrate: bool | None = None) -> None:
        """Open the database; without a URL, the one of the settings.

        The schema of a SQLite database is brought up to date here. A PostgreSQL database must be up to date already
        (`si-cli db-init`), unless `migrate` says otherwise: several programs may share it.
        """
        wiring = current_wiring()
        slot, settings = wiring.kept(_Slot), wiring.settings
        target = connecting.parse_url(url or settings.doc_db_url)
        if slot.opened is not None:
            if slot.opened.url == target:
                return
            raise IngesterError(f"the database is open already at {slot.opened.url}; use Database.reset to change it")
        opened = await _open(target, settings)
        try:
            await _prepare_schema(opened.engine, migrate=migrate)
        except BaseException:
            await _close(opened)
            raise
        slot.opened = opened

    @classmethod
    async def close(cls) -> None:
        slot = current_wiring().kept(_Slot)
        opened, slot.opened = slot.opened, None
        if opened is not None:
            await _close(opened)

    @classmethod
    async def reset(cls, url: str | None = None) -> None:
        """Close, and open anew; primarily for tests."""
        await cls.close()
        await cls.initialize(url)

    @classmethod
    def engine(cls) -> AsyncEngine:
        return cls._opened().engine

    @classmethod
    def url(cls) -> sa.URL:
        """The URL of the open database, password included."""
        return cls._opened().engine.url

    @classmethod
    def identity(cls) -> int:
        """Changes whenever another database is opened: for caches of what a database holds."""
        return cls._opened().number

    @classmethod
    def is_postgres(cls) -> bool:
        return cls.engine().dialect.name == "postgresql"

    @classmethod
    def path(cls) -> Path | None:
        """The file of a SQLite database."""
        url = cls._opened().engine.url
        return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None

    @classmethod
    @asynccontextmanager
    async def session(cls, *, read_only: bool = False) -> AsyncGenerator[AsyncSession]:
        """A session whose transaction commits at the end of the block and rolls back on an exception.

        A read-only one takes no write lock on SQLite.
        """
        engine = cls.engine()
        bind = engine.execution_options(read_only=True) if read_only else engine
        async with AsyncSession(bind, expire_on_commit=False) as session:
            try:
                yield session
                await session.commit()
            except BaseException:
                await session.rollback()
                raise

    @classmethod
    @asynccontextmanager
    async def link(cls, *, durable: bool = True) -> AsyncGenerator[Link]:
        """A connection for a worker's scripts, its own until the block ends.

        Not durable: a commit may be lost if the machine fails, though never be half done.
        """
        opened = cls._opened()
        if opened.scripts is not None:
            async with _loop_link(opened, durable=durable) as link:
                yield link
        else:
            async with _postgres_link(opened.engine, durable=durable) as link:
                yield link

    @classmethod
    async def transact[R](cls, script: Script[R]) -> R:
        """Run a script in a transaction of its own."""
        opened = cls._opened()
        if opened.scripts is not None:
            return await opened.scripts.transact(script)
        async with opened.engine.connect() as connection:
            raw: Any = await connection.get_raw_connection()
            return await PostgresLink(raw.driver_connection).transact(script)

    @classmethod
    async def read(cls, call: Call) -> Rows:
        """The rows of one statement that only reads. It waits for no transaction that writes."""
        opened = cls._opened()
        if opened.readers is not None:
            return await opened.readers.read(call)
        async with opened.engine.connect() as connection:
            raw: Any = await connection.get_raw_connection()
            return await PostgresLink(raw.driver_connection).read(call)

    @classmethod
    def is_open(cls) -> bool:
        return current_wiring().kept(_Slot).opened is not None

    @staticmethod
    def _opened() -> _Open:
        opened = current_wiring().kept(_Slot).opened
        if opened is None:
            raise NotInitializedError
        return opened


def get_session() -> AbstractAsyncContextManager[AsyncSession]:
    """As `Database.session()`."""
    return Database.session()


async def get_engine() -> AsyncEngine:
    """The engine, opened from the settings when it is not open yet."""
    if not Database.is_open():
        await Database.initialize()
    return Database.engine()


@asynccontextmanager
async def engine_for(url: sa.URL) -> AsyncGenerator[AsyncEngine]:
    """An engine for the time of the block, whatever the state of the schema: for migrations."""
    opened = await _open(url, current_wiring().settings)
    try:
        yield opened.engine
    finally:
        await _close(opened)


async def _open(url: sa.URL, settings: DatabaseSettings) -> _Open:
    busy = settings.sqlite_busy_timeout_seconds
    if url.get_backend_name() == "postgresql":
        engine = _postgres_engine(url, settings)
        await connecting.check_postgres(engine)
        return _Open(url, engine, busy)
    temporary = None
    location = url
    if not url.database or url.database == ":memory:":
        temporary = Path(tempfile.mkdtemp(prefix="soliplex-memory-"))
        location = url.set(database=str(temporary / "memory.db"))
    connecting.make_room_for(location)
    thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-scripts")
    opening = thread.submit(_script_connection, location, busy)
    try:
        connection = await asyncio.wrap_future(opening)
    except BaseException:
        thread.submit(_close_if_opened, opening)  # after the opening, which may be under way
        thread.shutdown(wait=False)
        raise
    readers = SqliteReaders(partial(_reading_connection, location, busy), settings.db_pool_size)
    return _Open(url, _sqlite_engine(location, settings), busy, ThreadLink(connection, thread), readers, temporary)


def _close_if_opened(opening: Future[sqlite3.Connection]) -> None:
    """Close what was opened for someone who was cancelled meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _close(opened: _Open) -> None:
    try:
        if opened.readers is not None:
            await opened.readers.close()
        if opened.scripts is not None:
            await opened.scripts.close()
    finally:
        await opened.engine.dispose()
        if opened.temporary is not None:
            shutil.rmtree(opened.temporary, ignore_errors=True)


async def _prepare_schema(engine: AsyncEngine, *, migrate: bool | None) -> None:
    # Imported here: Alembic is slow to import, and a look at the schema is all that most commands need.
    from soliplex.ingester.lib.models import schema  # noqa: PLC0415

    state = await schema.state_of(engine)
    if state.is_current:
        return
    if migrate or (migrate is None and engine.dialect.name == "sqlite"):
        await schema.upgrade(engine)
        return
    raise ConfigurationError(
        "DOC_DB_URL", f"the database's schema is {state}", "run `si-cli db-init` to bring it up to date"
    )


def _postgres_engine(url: sa.URL, settings: DatabaseSettings) -> AsyncEngine:
    engine = create_async_engine(
        url,
        pool_recycle=settings.db_pool_recycle_seconds,
        pool_size=settings.db_pool_size,
        max_overflow=settings.db_max_overflow,
    )
    _ping_what_was_idle(engine)
    return engine


def _ping_what_was_idle(engine: AsyncEngine) -> None:
    """Ping a pooled connection before it is used, unless it was used a moment ago."""
    dialect = engine.dialect

    @event.listens_for(engine.sync_engine, "checkin")
    def note_time(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: Any) -> None:
        if connection.driver_connection.is_closed():
            # Scripts use the driver's connection directly, so SQLAlchemy has not noticed that it was closed.
            raise DisconnectionError
        if time.monotonic() - record.info.get("idle_since", time.monotonic()) < _IDLE:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as exc:
            raise DisconnectionError from exc  # the pool then tries another, or connects anew


def _sqlite_engine(url: sa.URL, settings: DatabaseSettings) -> AsyncEngine:
    engine = create_async_engine(url, pool_size=settings.db_pool_size, max_overflow=settings.db_max_overflow)
    busy = settings.sqlite_busy_timeout_seconds

    @event.listens_for(engine.sync_engine, "do_connect")
    def open_(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
        options["async_creator_fn"] = connecting.SqliteConnection

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own: `begin` below does
        cursor = connection.cursor()
        for pragma in connecting.sqlite_pragmas(busy):
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: sa.Connection) -> None:
        read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _reading_connection(url: sa.URL, busy_timeout: float) -> sqlite3.Connection:
    """A connection that any thread may use, one after the other, and that refuses to write."""
    connection = _script_connection(url, busy_timeout, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _script_connection(url: sa.URL, busy_timeout: float, *, check_same_thread: bool = True) -> sqlite3.Connection:
    assert url.database
    connection = sqlite3.connect(
        url.database, isolation_level=None, cached_statements=256, check_same_thread=check_same_thread
    )
    connection.row_factory = sqlite3.Row
    try:
        for pragma in connecting.sqlite_pragmas(busy_timeout):
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


@asynccontextmanager
async def _loop_link(opened: _Open, *, durable: bool) -> AsyncGenerator[Link]:
    connection = _script_connection(opened.engine.url, opened.busy_timeout)
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        if not durable:
            # In WAL mode, NORMAL leaves out the sync at commit; the next durable commit syncs what came before it too.
            connection.execute("PRAGMA synchronous = NORMAL")
        yield LoopLink(connection, opened.busy_timeout)
    finally:
        connection.close()


_IDLE = 1.0

# The engine's statements find a few rows by their indexes, one after the other. The planner, whose statistics lag
# behind tables that change so fast, would rather read a whole table or index, and hash or merge it.
_OFF = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
_SET = {
    **dict.fromkeys(_OFF, "off"),
    "plan_cache_mode": "force_generic_plan",
    # A process that stands still in mid-transaction, or is cut off, must not hold its rows until the server's keepalive
    # gives up on it, which takes hours. The statements of a script follow one another within milliseconds.
    "idle_in_transaction_session_timeout": "'10s'",
}
_TUNING = "; ".join(f"SET {name} = {value}" for name, value in _SET.items())
_UNTUNING = "; ".join(f"RESET {name}" for name in (*_SET, "synchronous_commit"))


@asynccontextmanager
async def _postgres_link(engine: AsyncEngine, *, durable: bool) -> AsyncGenerator[Link]:
    async with engine.connect() as connection:
        raw: Any = await connection.get_raw_connection()
        driver = raw.driver_connection
        await driver.execute(f"{_TUNING}; SET synchronous_commit = {'on' if durable else 'off'}")
        try:
            yield PostgresLink(driver)
        finally:
            try:
                await driver.execute(_UNTUNING)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await connection.invalidate()  # the connection is broken: it must not go back to the pool
