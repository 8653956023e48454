"""Looking into scripts while they run: which statements they make, and holding one where another is to come between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, override

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import PostgresLink, Rows, Script


def recorded[R](script: Script[R], into: list[str]) -> Script[R]:
    """The script, with the names of its statements noted as they are run."""
    try:
        call = next(script)
        while True:
            into.append(call.statement.name)
            call = script.send((yield call))
    except StopIteration as done:
        return done.value


@contextmanager
def recorded_statements(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """The names of all statements run through the database within the block."""
    names: list[str] = []
    transact = Database.transact

    async def recording[R](script: Script[R]) -> R:
        return await transact(recorded(script, names))

    with monkeypatch.context() as patch:
        patch.setattr(Database, "transact", recording)
        yield names


@dataclass
class Gate:
    """Holds a task's script before a statement, until it is opened."""

    before: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)


_gate: ContextVar[Gate | None] = ContextVar("_gate", default=None)


class _GatedLink(PostgresLink):
    @override
    async def read(self, call: Call) -> Rows:
        gate = _gate.get()
        if gate is not None and call.statement.name == gate.before:
            gate.reached.set()
            await gate.opened.wait()
        return await super().read(call)


@contextmanager
def gated_links(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Within the block, tasks started with `gated` on PostgreSQL stop at their gates."""
    with monkeypatch.context() as patch:
        patch.setattr("soliplex.ingester.lib.models.database.PostgresLink", _GatedLink)
        yield


type Operation = Callable[[], Coroutine[Any, Any, Any]]


def gated(operation: Operation, gate: Gate) -> asyncio.Task[Any]:
    """Start the operation in a task of its own that stops at the gate."""

    async def run() -> Any:
        _gate.set(gate)
        return await operation()

    return asyncio.create_task(run())


@asynccontextmanager
async def another_connection() -> AsyncGenerator[Any]:
    """A connection of the driver's own kind to the open PostgreSQL database."""
    async with Database.engine().connect() as connection:
        raw: Any = await connection.get_raw_connection()
        yield raw.driver_connection


async def wait_until_blocked(task: asyncio.Task[Any], gate: Gate | None = None, *, others: int = 0) -> None:
    """Wait until the task has ended, has reached the gate, or waits in the database, beside others that do."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with another_connection() as connection:
        while not task.done() and not (gate and gate.reached.is_set()):
            if await connection.fetchval(query) > others:
                return


_HOLD_STARTS = """
CREATE FUNCTION wait_for_the_test() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
CREATE TRIGGER wait_for_the_test BEFORE INSERT ON lifecyclehistory
   FOR EACH ROW WHEN (NEW.event = 'group_start') EXECUTE FUNCTION wait_for_the_test();
"""


@asynccontextmanager
async def starts_held() -> AsyncGenerator[None]:
    """Until the block ends, a claim that starts a group waits within its statement, when it holds all that it needs."""
    async with another_connection() as connection:
        await connection.execute(_HOLD_STARTS)
        await connection.execute("SELECT pg_advisory_lock(1)")
        try:
            yield
        finally:
            await connection.execute("SELECT pg_advisory_unlock(1)")
            await connection.execute("DROP FUNCTION wait_for_the_test CASCADE")


async def meet(first: tuple[Operation, str], second: tuple[Operation, str]) -> tuple[Any, Any]:
    """Bring both operations to just before their statements, as far as they get, then let both go on."""
    gate, later_gate = Gate(first[1]), Gate(second[1])
    task = gated(first[0], gate)
    await wait_until_blocked(task, gate)
    later_task = gated(second[0], later_gate)
    await wait_until_blocked(later_task, later_gate)
    later_gate.opened.set()
    await wait_until_blocked(later_task)
    gate.opened.set()
    return await task, await later_task
