"""Transaction scripts: what a transaction does, written once, without saying how it reaches the database.

A script is a generator. It yields a statement with its parameters, receives the rows, and returns the result:

    def complete(step_id: int, lease: str) -> Script[bool]:
        rows = yield SQL.complete_step(step_id=step_id, lease=lease)
        return bool(rows)

A `Link` runs a whole script in one transaction. On PostgreSQL every statement is awaited on an asyncpg connection. On
SQLite there are two ways, and both run the whole script in one go, since a hop to a thread for each statement would
cost far more than the statement:

- `ThreadLink`: in one hop to the thread that owns the connection. For anything that may take long.
- `LoopLink`: on the event loop itself, for the worker's claims and results. Their transactions take milliseconds, and a
  thread would spend most of those handing the interpreter's lock to and fro, row by row. Only waiting for another
  writer would block the loop, so it does not wait there: it tries again after a pause.

A single statement that only reads needs no script. On SQLite `SqliteReaders` runs it beside the scripts, on a
connection of its own: in WAL mode a reader waits for no writer.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import asyncpg

from soliplex.ingester.lib.models.columns import from_sqlite_text, to_sqlite_text
from soliplex.ingester.lib.models.statements import Call, Json


class Row(Protocol):
    """A row of a result; columns by name or position."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def keys(self) -> Any: ...


type Rows = Sequence[Row]
type Script[R] = Generator[Call, Rows, R]


def single(call: Call) -> Script[Rows]:
    """The script of one statement."""
    return (yield call)


class Link(Protocol):
    """A connection that runs scripts, each in one transaction."""

    async def transact[R](self, script: Script[R]) -> R:
        """Run the script and commit."""
        ...

    async def read(self, call: Call) -> Rows:
        """Run one statement that only reads, outside any transaction."""
        ...


class PostgresLink:
    """Runs scripts on one asyncpg connection. Not for use by two tasks at once."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def transact[R](self, script: Script[R]) -> R:
        try:
            call = next(script)
            if call.is_last:
                script.send(await self.read(call))
                raise AssertionError(f"{call.statement.name} was not the last statement")
        except StopIteration as done:
            return done.value
        try:
            async with self._connection.transaction():
                return await self._drive(script, call)
        except asyncio.CancelledError:
            # BEGIN or ROLLBACK may have been under way: the connection would go back into its pool with an open
            # transaction, whose locks nobody releases and in which the work of others would be lost.
            self._connection.terminate()
            raise

    async def read(self, call: Call) -> Rows:
        text = call.statement.postgres or call.statement.refuse("PostgreSQL")
        rows: Any = await self._connection.fetch(text, *_values(call))
        return rows

    async def _drive[R](self, script: Script[R], call: Call) -> R:
        try:
            while True:
                call = script.send(await self.read(call))
        except StopIteration as done:
            return done.value


def run_on_sqlite[R](connection: sqlite3.Connection, script: Script[R]) -> R:
    """Run the script in a transaction that has just begun, and commit."""
    try:
        result = _drive_on_sqlite(connection, script)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _drive_on_sqlite[R](connection: sqlite3.Connection, script: Script[R]) -> R:
    try:
        call = next(script)
        while True:
            call = script.send(_read_on_sqlite(connection, call))
    except StopIteration as done:
        return done.value


def _read_on_sqlite(connection: sqlite3.Connection, call: Call) -> list[sqlite3.Row]:
    text = call.statement.sqlite or call.statement.refuse("SQLite")
    values = {name: _for_sqlite(value) for name, value in call.parameters.items()}
    return connection.execute(text, values).fetchall()


class ThreadLink:
    """Runs scripts on one sqlite3 connection, each in one hop to the thread that owns it."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    async def transact[R](self, script: Script[R]) -> R:
        # Scripts ask for the registry and the database of the caller's wiring, which the thread knows by its context.
        context, run = copy_context(), partial(self._run, script)
        return await _hop(self._thread, lambda: context.run(run))

    def _run[R](self, script: Script[R]) -> R:
        self._connection.execute("BEGIN IMMEDIATE")
        return run_on_sqlite(self._connection, script)

    async def close(self) -> None:
        try:
            await _hop(self._thread, self._connection.close)
        finally:
            self._thread.shutdown(wait=False)


class SqliteReaders:
    """Runs single statements that only read, each in one hop to a thread, at most `most` at once.

    Connections are opened when as many reads run at once. The one that was used last is taken first, since its cache
    holds what the last reads needed.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], most: int) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="sqlite-reads")
        self._idle: list[sqlite3.Connection] = []

    async def read(self, call: Call) -> Rows:
        return await _hop(self._threads, partial(self._read, call))

    def _read(self, call: Call) -> Rows:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            return _read_on_sqlite(connection, call)
        finally:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close the connections, once the reads that are under way have ended."""
        await asyncio.to_thread(self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()


async def _hop[R](threads: ThreadPoolExecutor, work: Callable[[], R]) -> R:
    hop = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(hop)
    except asyncio.CancelledError:
        # A thread cannot be stopped in mid-statement: whoever cancelled waits until the work has ended one way or the
        # other.
        await asyncio.wait([hop])
        raise


class LoopLink:
    """Runs scripts on one sqlite3 connection of the event loop's thread, whose busy timeout is zero."""

    FIRST_PAUSE = 0.0005
    LONGEST_PAUSE = 0.02

    def __init__(self, connection: sqlite3.Connection, patience: float) -> None:
        self._connection = connection
        self._patience = patience

    async def transact[R](self, script: Script[R]) -> R:
        await self._begin()
        return run_on_sqlite(self._connection, script)

    async def read(self, call: Call) -> Rows:
        return _read_on_sqlite(self._connection, call)

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        pause, deadline = self.FIRST_PAUSE, loop.time() + self._patience
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as exc:
                # Only the first byte of the code is compared: the rest tells whether a recovery, a snapshot or a writer
                # is in the way.
                if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or loop.time() > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, self.LONGEST_PAUSE)
            else:
                return


def _values(call: Call) -> list[Any]:
    return [_for_postgres(call.parameters[name]) for name in call.statement.postgres_order]


def _for_postgres(value: Any) -> Any:
    return value.text() if type(value) is Json else value


def _for_sqlite(value: Any) -> Any:
    if isinstance(value, Json):
        return value.text()
    if isinstance(value, datetime):
        return to_sqlite_text(value)
    if isinstance(value, list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return value


def datetime_of(row: Row, name: str) -> datetime | None:
    """A datetime column, which SQLite gives as text."""
    value = row[name]
    return from_sqlite_text(value) if isinstance(value, str) else value


def json_of(row: Row, name: str) -> Any:
    """A JSON column, which scripts read as text (`CAST(it AS text)`): what nobody asks for need not be decoded."""
    value = row[name]
    return {} if value == "{}" else value if value is None else json.loads(value)
