"""The database itself: opening and closing, transactions, and clear words when it cannot be used."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlmodel import col, select

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import ConfigurationError, IngesterError
from soliplex.ingester.lib.models import (
    Database,
    NotInitializedError,
    RunGroup,
    RunStatus,
    WorkerCheckin,
    connecting,
    get_engine,
    get_session,
)
from soliplex.ingester.lib.models.database import engine_for
from soliplex.ingester.lib.models.statements import Json, Statement
from soliplex.ingester.lib.models.transactions import Script, single
from soliplex.ingester.lib.wf.sql import SQL
from tests.support.databases import PostgresServer

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
async def closed_afterwards() -> Any:
    yield
    await Database.close()


def checking_in(worker_id: str) -> Any:
    return SQL.check_in(worker_id=worker_id, hostname=None, pid=None, meta=Json({}), now=NOW)


def plain(text: str) -> Statement:
    """A statement of the test's own, without parameters."""
    return Statement("of a test", text, text, ())


async def workers() -> list[str]:
    async with Database.session(read_only=True) as session:
        return sorted((await session.exec(select(WorkerCheckin.id))).all())


# --- opening and closing


async def test_a_database_is_opened_used_and_closed(database_url: str) -> None:
    await Database.initialize(database_url)
    async with Database.session() as session:
        session.add(WorkerCheckin(id="one"))
    assert await workers() == ["one"]
    await Database.close()
    await Database.close()
    with pytest.raises(NotInitializedError):
        Database.engine()
    await Database.initialize(database_url)
    assert await workers() == ["one"]


async def test_opening_twice_is_the_same_as_once_but_not_for_another_database(
    database_url: str, tmp_path: Path
) -> None:
    await Database.initialize(database_url)
    engine = Database.engine()
    await Database.initialize(database_url)
    assert Database.engine() is engine
    with pytest.raises(IngesterError, match=r"is open already at .* use Database\.reset"):
        await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/other.db")
    assert Database.engine() is engine


async def test_a_reset_opens_another_database(database_url: str, tmp_path: Path) -> None:
    await Database.initialize(database_url)
    before = Database.identity()
    await Database.transact(single(checking_in("one")))
    await Database.reset(f"sqlite+aiosqlite:///{tmp_path}/other.db")
    assert await workers() == []
    assert Database.path() == tmp_path / "other.db"
    assert Database.identity() != before


async def test_the_database_of_the_settings_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOC_DB_URL", f"sqlite+aiosqlite:///{tmp_path}/from/settings.db")
    get_settings.cache_clear()
    engine = await get_engine()
    assert await get_engine() is engine is Database.engine()
    async with get_session() as session:
        assert (await session.exec(select(RunGroup))).all() == []
    assert (tmp_path / "from" / "settings.db").is_file()


async def test_a_private_database_is_seen_by_sessions_and_scripts_alike_and_leaves_nothing() -> None:
    await Database.initialize("sqlite+aiosqlite:///:memory:")
    path = Database.path()
    assert path is not None
    await Database.transact(single(checking_in("by script")))
    async with get_session() as session:
        session.add(WorkerCheckin(id="by session"))
    async with Database.link() as link:
        rows = await link.transact(single(SQL.last_checkins()))
    assert sorted(row["id"] for row in rows) == ["by script", "by session"]
    assert await workers() == ["by script", "by session"]
    await Database.close()
    assert not path.parent.exists()
    await Database.initialize("sqlite+aiosqlite:///:memory:")
    assert await workers() == []


async def test_closing_leaves_no_thread(tmp_path: Path) -> None:
    await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    await Database.transact(single(checking_in("one")))
    await Database.read(SQL.last_checkins())
    opened = [thread for thread in threading.enumerate() if thread.name.startswith(("sqlite-scripts", "sqlite-reads"))]
    assert len(opened) == 2
    await Database.close()
    for thread in opened:
        thread.join(5)
        assert not thread.is_alive()


# --- transactions


async def test_a_session_commits_at_its_end_and_rolls_back_on_an_exception(database: type[Database]) -> None:
    async with database.session() as session:
        session.add(WorkerCheckin(id="kept"))

    async def stumble() -> None:
        async with database.session() as session:
            session.add(WorkerCheckin(id="dropped"))
            await session.flush()
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        await stumble()
    assert await workers() == ["kept"]


async def test_a_script_commits_at_its_end_and_rolls_back_on_an_exception(database: type[Database]) -> None:
    def stumbling() -> Script[None]:
        yield checking_in("dropped")
        raise RuntimeError("half way")

    def failing() -> Script[None]:
        yield checking_in("dropped too")
        yield plain("SELECT nothing FROM nowhere")()

    await database.transact(single(checking_in("kept")))
    with pytest.raises(RuntimeError, match="half way"):
        await database.transact(stumbling())
    with pytest.raises((asyncpg.UndefinedTableError, sqlite3.OperationalError)):
        await database.transact(failing())
    async with database.link() as link:
        with pytest.raises(RuntimeError, match="half way"):
            await link.transact(stumbling())
        await link.transact(single(checking_in("kept too")))
    assert await workers() == ["kept", "kept too"]


@pytest.mark.parametrize("durable", [True, False])
async def test_a_link_runs_scripts_one_after_the_other(database: type[Database], durable: bool) -> None:
    async with database.link(durable=durable) as link:
        for number in range(3):
            await link.transact(single(checking_in(f"worker-{number}")))
    assert len(await workers()) == 3


async def test_a_connection_goes_back_to_the_pool_as_it_came(database: type[Database]) -> None:
    if not database.is_postgres():
        return
    names = ("enable_seqscan", "plan_cache_mode", "synchronous_commit")
    async with database.engine().connect() as connection:
        before = [(await connection.exec_driver_sql(f"SHOW {name}")).scalar() for name in names]
    async with database.link(durable=False):
        pass
    async with database.engine().connect() as connection:
        assert [(await connection.exec_driver_sql(f"SHOW {name}")).scalar() for name in names] == before


async def test_a_cancelled_session_leaves_nothing_behind(database: type[Database]) -> None:
    is_inside, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        async with database.session() as session:
            session.add(WorkerCheckin(id="dropped"))
            await session.flush()
            is_inside.set()
            await never.wait()

    task = asyncio.create_task(hang())
    await is_inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await database.transact(single(checking_in("next")))
    assert await workers() == ["next"]


async def test_a_cancelled_script_is_rolled_back_on_postgres(postgres_database: type[Database]) -> None:
    async def hang() -> None:
        def script() -> Script[None]:
            yield checking_in("dropped")
            yield plain("SELECT pg_sleep(60)")()

        await postgres_database.transact(script())

    task = asyncio.create_task(hang())
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    async with postgres_database.engine().connect() as connection:
        while not (await connection.exec_driver_sql(sleeping)).scalar():
            await connection.rollback()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = (
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND datname = current_database()"
    )
    async with postgres_database.engine().connect() as connection:
        assert (await connection.exec_driver_sql(left)).scalar() == 0
    await postgres_database.transact(single(checking_in("next")))
    assert await workers() == ["next"]


async def test_a_script_that_is_cancelled_at_any_moment_leaves_no_transaction_open(
    postgres_database: type[Database],
) -> None:
    def script() -> Script[None]:
        yield checking_in("one")
        yield checking_in("two")

    await postgres_database.transact(script())
    for turns in range(40):
        task = asyncio.create_task(postgres_database.transact(script()))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # Each connection of the pool: one that came back with a transaction would hide in it what this one writes.
        async with AsyncExitStack() as stack:
            for _ in range(3):
                connection = await stack.enter_async_context(postgres_database.engine().connect())
                raw: Any = await connection.get_raw_connection()
                await raw.driver_connection.fetch("SELECT 1")
                assert not raw.driver_connection.is_in_transaction(), f"cancelled after {turns} turns of the loop"


async def connect_and_ask(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        await connection.exec_driver_sql("SELECT 1")


async def open_database(_: AsyncEngine) -> None:
    await Database.initialize()
    await Database.close()


@pytest.mark.parametrize("use", [connect_and_ask, open_database])
async def test_a_connection_to_sqlite_is_closed_at_whichever_moment_its_user_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[AsyncEngine], Coroutine[Any, Any, None]]
) -> None:
    opened, closed = list[sqlite3.Connection](), set[int]()

    class Watched(sqlite3.Connection):
        def close(self) -> None:
            closed.add(id(self))
            super().close()

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = Watched(*arguments, **options)
        opened.append(connection)  # held here, so that no garbage collection closes it
        return connection

    before = set(threading.enumerate())
    async with engine_for(connecting.parse_url(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")) as engine:
        await use(engine)
        monkeypatch.setattr(sqlite3, "connect", connect)
        for turns in range(20):
            task = asyncio.create_task(use(engine))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await Database.close()
            await engine.dispose()  # the next one has to connect again
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("asyncio_"):  # this loop's own: they end with it, and one of them waits here
            await asyncio.to_thread(thread.join)
    assert opened
    assert {id(each) for each in opened} <= closed


async def test_a_cancelled_script_is_waited_for_on_sqlite(tmp_path: Path) -> None:
    """Its thread cannot be stopped in the middle: whoever cancels gets the database back when it has ended."""
    await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    is_inside, may_go_on = threading.Event(), threading.Event()

    def script() -> Script[None]:
        yield checking_in("first")
        is_inside.set()
        may_go_on.wait(10)
        yield checking_in("second")

    task = asyncio.create_task(Database.transact(script()))
    await asyncio.to_thread(is_inside.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await workers() in ([], ["first", "second"])
    await Database.transact(single(checking_in("next")))


async def test_writers_of_one_process_take_turns(database: type[Database]) -> None:
    async def add(number: int) -> None:
        if number % 2:
            await database.transact(single(checking_in(f"worker-{number}")))
        else:
            async with database.session() as session:
                session.add(WorkerCheckin(id=f"worker-{number}"))

    await asyncio.gather(*(add(number) for number in range(30)))
    assert len(await workers()) == 30


# --- values


async def test_moments_come_back_aware_and_in_utc(database: type[Database]) -> None:
    elsewhere = datetime(2030, 6, 1, 14, 30, 15, 123456, tzinfo=timezone(timedelta(hours=2)))
    async with database.session() as session:
        session.add(WorkerCheckin(id="one", first_checkin=elsewhere, last_checkin=elsewhere + timedelta(days=1)))
    async with database.session(read_only=True) as session:
        row = await session.get_one(WorkerCheckin, "one")
        later = select(WorkerCheckin.id).where(col(WorkerCheckin.last_checkin) > elsewhere + timedelta(hours=23))
        assert (await session.exec(later)).all() == ["one"]
    assert row.first_checkin == elsewhere
    assert row.first_checkin.tzinfo is UTC
    assert row.first_checkin.isoformat() == "2030-06-01T12:30:15.123456+00:00"


async def test_a_naive_moment_is_refused_before_it_is_stored(database: type[Database]) -> None:
    with pytest.raises(StatementError, match="naive datetime"):
        async with database.session() as session:
            session.add(WorkerCheckin(id="one", first_checkin=datetime(2030, 1, 1)))  # noqa: DTZ001
    assert await workers() == []


async def test_enums_and_json_come_back_as_they_were_given(database: type[Database]) -> None:
    async with database.session() as session:
        group = RunGroup(
            workflow_definition_id="w", param_definition_id="p", status=RunStatus.RUNNING, status_meta={"ä": [1, None]}
        )
        session.add(group)
    async with database.session(read_only=True) as session:
        read = await session.get_one(RunGroup, group.id)
    assert read.status is RunStatus.RUNNING
    assert read.status_meta == {"ä": [1, None]}
    assert read.model_dump()["status"] is RunStatus.RUNNING


# --- SQLite


async def pragmas(name: str) -> dict[str, Any]:
    """The value of the pragma on every kind of connection."""
    async with Database.engine().connect() as connection:
        values = {"session": (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar()}
    values["scripts"] = (await Database.transact(single(plain(f"PRAGMA {name}")())))[0][0]
    async with Database.link() as link:
        values["link"] = (await link.transact(single(plain(f"PRAGMA {name}")())))[0][0]
    return values


async def test_every_sqlite_connection_is_set_up_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_BUSY_TIMEOUT_SECONDS", "7")
    get_settings.cache_clear()
    await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    assert set((await pragmas("journal_mode")).values()) == {"wal"}
    assert set((await pragmas("foreign_keys")).values()) == {1}
    assert set((await pragmas("synchronous")).values()) == {2}
    # A link waits on the event loop, not inside of SQLite, where it would stop everything else.
    assert await pragmas("busy_timeout") == {"session": 7000, "scripts": 7000, "link": 0}


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    await Database.transact(single(checking_in("before")))
    async with Database.session() as writing:
        writing.add(WorkerCheckin(id="not yet"))
        await writing.flush()
        async with asyncio.timeout(60):
            assert await workers() == ["before"]
    assert await workers() == ["before", "not yet"]


async def test_a_read_waits_neither_for_a_writer_nor_for_a_script_that_does(database: type[Database]) -> None:
    await database.transact(single(checking_in("before")))
    async with database.session() as writing:
        writing.add(WorkerCheckin(id="not yet"))
        await writing.flush()
        waiting = asyncio.create_task(database.transact(single(checking_in("not yet"))))
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert [row["id"] for row in await database.read(SQL.last_checkins())] == ["before"]
        assert not waiting.done()
    await waiting
    assert sorted(row["id"] for row in await database.read(SQL.last_checkins())) == ["before", "not yet"]


async def test_as_many_reads_at_once_as_there_are_see_the_same(database: type[Database]) -> None:
    await database.transact(single(checking_in("one")))
    found = await asyncio.gather(*(database.read(SQL.last_checkins()) for _ in range(50)))
    assert [[row["id"] for row in rows] for rows in found] == [["one"]] * 50


async def test_a_read_refuses_to_write_on_sqlite(tmp_path: Path) -> None:
    await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await Database.read(checking_in("one"))


async def test_a_link_waits_for_another_writer_without_holding_up_the_loop(tmp_path: Path) -> None:
    await Database.initialize(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    async with Database.link() as link:
        async with Database.session() as writing:
            writing.add(WorkerCheckin(id="first"))
            await writing.flush()
            waiting = asyncio.create_task(link.transact(single(checking_in("second"))))
            async with asyncio.timeout(60):
                assert await workers() == []
            assert not waiting.done()
        await waiting
    assert await workers() == ["first", "second"]


WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from soliplex.ingester.lib.models import Database, WorkerCheckin
from soliplex.ingester.lib.models.database import engine_for
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import single
from soliplex.ingester.lib.wf.sql import SQL

async def main(url, name):
    await Database.initialize(url)
    async with Database.link() as link:
        for number in range(40):
            def call(kind):
                return SQL.check_in(worker_id=f"{name}-{kind}-{number}", hostname=None, pid=None, meta=Json({}),
                                    now=datetime.now(UTC))
            await asyncio.gather(Database.transact(single(call("script"))), link.transact(single(call("link"))))
            async with Database.session() as session:
                session.add(WorkerCheckin(id=f"{name}-session-{number}"))
    await Database.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_that_write_at_once_do_not_fail(database_url: str) -> None:
    started = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITER, database_url, name),
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stderr=asyncio.subprocess.PIPE,
        )
        for name in ("one", "two")
    ]
    errors = [(await process.communicate())[1].decode() for process in started]
    assert [process.returncode for process in started] == [0, 0], errors
    await Database.initialize(database_url)
    assert len(await workers()) == 2 * 40 * 3


# --- what can be wrong


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    with postgres_server.copy_of(postgres_template) as url:
        yield url


@pytest.fixture
async def postgres_database(postgres_url: str) -> type[Database]:
    await Database.initialize(postgres_url)
    return Database


async def refused(url: str, *facts: str) -> ConfigurationError:
    """Opening the database fails with one line that names the setting and these facts."""
    with pytest.raises(ConfigurationError) as caught:
        await Database.initialize(url)
    message = str(caught.value)
    assert message.startswith("DOC_DB_URL: ")
    assert len(message.splitlines()) == 1
    assert caught.value.fix
    for fact in facts:
        assert fact in message
    with pytest.raises(NotInitializedError):
        Database.engine()
    return caught.value


MALFORMED = [
    ("documents.db", "names no database driver"),
    ("mysql://localhost/x", "'mysql' is not a supported database"),
    ("sqlite:///", "names no database file"),
    ("sqlite://data/x.db", "two slashes"),
    ("postgresql+psycopg2://u@h/d", "cannot be used"),
    ("postgresql://user:secret@host:port/db", "port"),
    ("postgresql://user:secret@host", "names no database"),
]


@pytest.mark.parametrize(("url", "fact"), MALFORMED)
async def test_a_malformed_url_is_refused(url: str, fact: str) -> None:
    error = await refused(url, fact)
    assert "secret" not in str(error)


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


async def test_a_server_that_does_not_answer_is_named() -> None:
    port = closed_port()
    url = f"postgresql+asyncpg://user:secret@127.0.0.1:{port}/documents"
    error = await refused(url, f"127.0.0.1:{port} cannot be reached", "start the server, or correct host and port")
    assert "secret" not in str(error)


async def test_a_database_that_does_not_exist_is_named_and_not_created(postgres_server: PostgresServer) -> None:
    url = postgres_server.url_of("nowhere")
    await refused(url, "database 'nowhere' does not exist", "si-cli db-init")
    await refused(url, "database 'nowhere' does not exist")


@pytest.fixture
def empty_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.copy_of("template0") as url:
        yield url


async def test_a_postgres_database_that_is_not_up_to_date_is_left_alone(empty_postgres: str) -> None:
    await refused(empty_postgres, "schema is empty", "si-cli db-init")
    await Database.initialize(empty_postgres, migrate=True)
    assert await workers() == []
    await Database.close()


async def test_a_server_that_is_too_old_is_named(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "OLDEST_POSTGRES", 990000)
    await refused(postgres_url, "is too old", "use PostgreSQL 99 or newer")


@pytest.fixture
def password_needed(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a user who needs a password, with a wrong one."""
    path = Path(asyncio.run(_hba_file(postgres_server)))
    if not os.access(path, os.W_OK):
        pytest.skip("the server's pg_hba.conf is not on this machine")
    rules = path.read_text("utf-8")
    path.write_text("local all careful scram-sha-256\nhost all careful all scram-sha-256\n" + rules, "utf-8")
    postgres_server.run(
        "DROP ROLE IF EXISTS careful", "CREATE ROLE careful LOGIN PASSWORD 'right'", "SELECT pg_reload_conf()"
    )
    yield postgres_server.url.set(username="careful", password="wrong").render_as_string(hide_password=False)
    path.write_text(rules, "utf-8")
    postgres_server.run("DROP ROLE careful", "SELECT pg_reload_conf()")


async def _hba_file(server: PostgresServer) -> str:
    connection = await server._connect()
    try:
        return await connection.fetchval("SHOW hba_file")
    finally:
        await connection.close()


async def test_a_wrong_password_is_said_to_be_one(password_needed: str) -> None:
    error = await refused(password_needed, "refused user 'careful'", "correct user and password")
    assert "wrong" not in str(error)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a database\n" * 50, "utf-8")
    before = path.read_bytes()
    await refused(f"sqlite+aiosqlite:///{path}", "is not a SQLite database", "name another file, or restore a backup")
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["notes.txt"]


@pytest.fixture
def damaged(sqlite_template: Path, tmp_path: Path) -> Path:
    """A database whose head is whole and whose first page is not."""
    path = tmp_path / "damaged.db"
    content = bytearray(sqlite_template.read_bytes())
    content[100:4000] = b"\xff" * 3900
    path.write_bytes(content)
    return path


async def test_a_damaged_database_is_said_to_be_damaged(damaged: Path) -> None:
    before = content_of(damaged)
    await refused(f"sqlite+aiosqlite:///{damaged}", "is not a SQLite database, or it is damaged", "restore a backup")
    assert content_of(damaged) == before


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    await refused(f"sqlite+aiosqlite:///{tmp_path}", "is a folder", "name a file in it")


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    await refused(f"sqlite+aiosqlite:///{tmp_path}/file/below/x.db", "cannot be created", "or set DATA_DIR")
    assert names_in(tmp_path) == ["file"]


READ_ONLY = """
import asyncio, os, sys
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.models import Database

asyncio.get_event_loop_policy()
if os.getuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(Database.initialize(sys.argv[1]))
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_cannot_be_written_is_named(kind: str, sqlite_template: Path) -> None:
    """In a process of its own, without the rights of an administrator, for whom nothing is read-only."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "x.db"
        if kind == "file":
            path.write_bytes(sqlite_template.read_bytes())
            path.chmod(0o444)
        folder.chmod(0o755 if kind == "file" else 0o555)
        command = [sys.executable, "-W", "ignore", "-c", READ_ONLY, f"sqlite+aiosqlite:///{path}"]
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), "DATA_DIR": str(folder)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        folder.chmod(0o755)
        assert done.stdout.startswith("DOC_DB_URL: "), done.stderr
        assert "is read-only; make it writable, or set DATA_DIR" in done.stdout
        assert names_in(folder) == (["x.db"] if kind == "file" else [])


# --- si-cli db-init

type Cli = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def db_init(tmp_path: Path) -> Cli:
    for kind in ("workflows", "params"):
        (tmp_path / "here" / "config" / kind).mkdir(parents=True)

    def run(url: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "soliplex.ingester.cli", "db-init"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "DOC_DB_URL": url}
        return subprocess.run(
            command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    return run


def test_the_command_makes_the_schema_and_may_be_given_again(empty_database_url: str, db_init: Cli) -> None:
    first = db_init(empty_database_url)
    assert (first.returncode, first.stderr) == (0, "")
    assert "it was empty" in first.stdout
    again = db_init(empty_database_url)
    assert (again.returncode, again.stderr) == (0, "")
    assert "is up to date at revision" in again.stdout


def test_the_command_creates_a_postgres_database_that_is_not_there(
    postgres_server: PostgresServer, db_init: Cli
) -> None:
    name = postgres_server.new_name()
    try:
        first, again = db_init(postgres_server.url_of(name)), db_init(postgres_server.url_of(name))
        assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
        assert f"created database {name}" in first.stdout
        assert "created" not in again.stdout
    finally:
        postgres_server.run(f"DROP DATABASE IF EXISTS {name}")


def fails_with_one_line(done: subprocess.CompletedProcess[str], *facts: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: DOC_DB_URL: ")
    for fact in facts:
        assert fact in line


@pytest.mark.parametrize(("url", "fact"), MALFORMED[:3])
def test_the_command_says_what_is_wrong_with_the_url(url: str, fact: str, db_init: Cli, tmp_path: Path) -> None:
    before = names_in(tmp_path)
    fails_with_one_line(db_init(url), fact)
    assert names_in(tmp_path) == before


def test_the_command_says_that_the_server_cannot_be_reached(db_init: Cli) -> None:
    port = closed_port()
    fails_with_one_line(db_init(f"postgresql://user@127.0.0.1:{port}/x"), f"127.0.0.1:{port} cannot be reached")


def test_the_command_leaves_a_file_that_is_no_database_alone(db_init: Cli, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes\n" * 500, "utf-8")
    before = names_in(tmp_path)
    fails_with_one_line(db_init(f"sqlite:///{path}"), "is not a SQLite database")
    assert names_in(tmp_path) == before


def test_the_command_says_that_a_folder_cannot_be_made(db_init: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    fails_with_one_line(db_init(f"sqlite:///{tmp_path}/file/x.db"), "cannot be created")


def test_the_command_says_that_the_password_is_wrong(db_init: Cli, password_needed: str) -> None:
    done = db_init(password_needed)
    fails_with_one_line(done, "refused user 'careful'")
    assert "wrong" not in done.stderr


def test_the_command_does_not_touch_a_schema_newer_than_itself(database_url: str, db_init: Cli) -> None:
    url = sa.make_url(database_url)
    asyncio.run(_set_revision(url, "9999"))
    fails_with_one_line(db_init(database_url), "9999", "upgrade soliplex-ingester")


async def _set_revision(url: sa.URL, revision: str) -> None:
    from soliplex.ingester.lib.models.database import engine_for

    async with engine_for(url) as engine, engine.begin() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
