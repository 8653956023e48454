"""A connection for scripts that is kept open, and opened anew after it broke."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import Final

import asyncpg
from sqlalchemy.exc import SQLAlchemyError

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import Link, Rows, Script
from soliplex.ingester.lib.models.troubles import is_busy

_log = logging.getLogger(__name__)

TROUBLES_OF_THE_DATABASE: Final = (
    OSError,
    TimeoutError,
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg may say of a connection that was cut at an awkward moment
    sqlite3.Error,
)
"""What reaching the database may raise. A worker waits and tries again; it never ends for one of these."""

_ABOUT_THE_DATA: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,  # larger than PostgreSQL can hold: a list of JSON has at most 256 MiB
    sqlite3.IntegrityError,
    sqlite3.DataError,
)


def is_about_the_data(exc: BaseException) -> bool:
    """Whether what was to be written is at fault, and trying again cannot help."""
    return isinstance(exc, _ABOUT_THE_DATA)


FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
_ENOUGH: Final = 5
"""So many failures in a row, while the database answers, mean that the attempt itself is at fault."""
_LONGEST_DOUBT: Final = 10.0


async def insist[R](attempt: Callable[[], Awaitable[R]]) -> R:
    """Make the attempt, again and again while the database cannot be reached: that is no step's nor event's fault."""
    pause = FIRST_PAUSE
    for number in count(1):
        try:
            return await attempt()
        except TROUBLES_OF_THE_DATABASE as exc:
            # While another process writes, SQLite can be read but not written: that will pass.
            is_ours = is_about_the_data(exc) or (number >= _ENOUGH and not is_busy(exc) and await _database_answers())
            if is_ours:
                raise
            _log.warning("the database is in trouble, trying again: %s", exc)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    raise AssertionError("unreachable")


async def _database_answers() -> bool:
    try:
        async with Database.session(read_only=True) as session:
            await session.connection()
    except TROUBLES_OF_THE_DATABASE:
        return False
    return True


class Doubts:
    """Leases of claims that failed. A claim whose commit succeeded and whose answer was lost holds steps in vain."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def add(self, lease: str) -> None:
        self._until[lease] = time.monotonic() + _LONGEST_DOUBT

    def leases(self) -> list[str]:
        """The leases that are still in doubt: a slow server may commit a claim after the connection has broken."""
        self._until = {lease: until for lease, until in self._until.items() if until > time.monotonic()}
        return list(self._until)


class SteadyLink:
    """Runs scripts on one connection, one at a time. After an error the next script gets a new connection."""

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._stack = AsyncExitStack()
        self._link: Link | None = None
        self._using = asyncio.Lock()

    async def transact[R](self, script: Script[R]) -> R:
        return await self._use(lambda link: link.transact(script))

    async def read(self, call: Call) -> Rows:
        return await self._use(lambda link: link.read(call))

    async def _use[R](self, action: Callable[[Link], Awaitable[R]]) -> R:
        async with self._using:
            if self._link is None:
                self._link = await self._stack.enter_async_context(Database.link(durable=self._durable))
            try:
                return await action(self._link)
            except BaseException as exc:
                if not is_about_the_data(exc):
                    await self._drop()
                raise

    async def close(self) -> None:
        async with self._using:
            await self._drop()

    async def _drop(self) -> None:
        self._link = None
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            await stack.aclose()
        except TROUBLES_OF_THE_DATABASE:
            return  # the connection is gone, which is what was wanted
