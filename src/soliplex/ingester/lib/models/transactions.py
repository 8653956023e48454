"""Transaction scripts: what a transaction does, written once, without saying how it reaches the database.

A script is a generator. It yields a statement with its parameters, receives the rows, and returns the result:

    def complete(step_id: int, lease: str) -> Script[bool]:
        rows = yield SQL.complete_step(step_id=step_id, lease=lease)
        return bool(rows)

A `Link` runs a whole script in one transaction. On PostgreSQL every statement is awaited on an asyncpg connection. On
SQLite the whole script runs in one hop to the thread that owns the connection: one hop a statement would cap the engine
at a twentieth of its speed. All scripts of a process share that thread, so they never wait for one another's locks.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol, override

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

    async def transact[R](self, script: Script[R], *, durable: bool = True) -> R:
        """Run the script and commit. Not durable: the commit may be lost if the machine fails, never be half done."""
        ...


class PostgresLink:
    """Runs scripts on one asyncpg connection. Not for use by two tasks at once."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def transact[R](self, script: Script[R], *, durable: bool = True) -> R:
        async with self._connection.transaction():
            if not durable:
                await self._connection.execute("SET LOCAL synchronous_commit = off")
            return await self._drive(script)

    async def _drive[R](self, script: Script[R]) -> R:
        fetch = self._connection.fetch
        try:
            call = next(script)
            while True:
                statement, parameters = call
                values = [_for_postgres(parameters[name]) for name in statement.postgres_order]
                call = script.send(await fetch(statement.postgres, *values))  # pyright: ignore[reportArgumentType]  Record is a Row
        except StopIteration as done:
            return done.value


class SqliteLink:
    """Runs scripts on one sqlite3 connection, each in one hop to the thread that owns it."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    @override
    def __repr__(self) -> str:
        return f"SqliteLink({self._connection!r})"

    async def transact[R](self, script: Script[R], *, durable: bool = True) -> R:
        del durable  # WAL commits are synced together at little cost; there is nothing to gain
        hop = asyncio.get_running_loop().run_in_executor(self._thread, self._run, script)
        try:
            return await asyncio.shield(hop)
        except asyncio.CancelledError:
            # The thread cannot be stopped in mid-transaction: whoever cancelled waits until it has ended one way or the
            # other.
            await asyncio.wait([hop])
            raise

    def _run[R](self, script: Script[R]) -> R:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = self._drive(script)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return result

    def _drive[R](self, script: Script[R]) -> R:
        execute = self._connection.execute
        try:
            call = next(script)
            while True:
                statement, parameters = call
                values = {name: _for_sqlite(value) for name, value in parameters.items()}
                call = script.send(execute(statement.sqlite, values).fetchall())
        except StopIteration as done:
            return done.value

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown(wait=False)


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
    """A JSON column, which SQLite gives as text and PostgreSQL as what the text says."""
    value = row[name]
    return json.loads(value) if isinstance(value, str) and isinstance(row, sqlite3.Row) else value
