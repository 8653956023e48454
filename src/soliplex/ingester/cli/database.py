"""`si-cli db-init`, and the opening of the database for all commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from soliplex.ingester.cli.output import echo

if TYPE_CHECKING:
    import asyncio

BETWEEN_ATTEMPTS = 2.0
PATIENCE_OF_WORKERS = 120.0
"""Seconds that a worker waits for its database: after a power cut, services start in any order."""


@asynccontextmanager
async def open_database(*, patience: float = 0, stopping: asyncio.Event | None = None) -> AsyncGenerator[None]:
    """The database of the settings, open for the time of the block.

    If the database is away, `patience` says how many seconds to wait for it, unless the event says to stop.
    """
    from soliplex.ingester.lib.models import Database

    await _initialize(patience, stopping)
    try:
        yield
    finally:
        await Database.close()


@asynccontextmanager
async def open_database_if_there(left_out: str) -> AsyncGenerator[bool]:
    """As `open_database`, for commands that tell of more than the database: whether it is there, and can be opened.

    Where it cannot be opened, a message says what is left out.
    """
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.errors import IngesterError
    from soliplex.ingester.lib.models import connecting

    url = connecting.parse_url(get_settings().doc_db_url)
    async with AsyncExitStack() as stack:
        is_there = connecting.may_be_there(url)
        if is_there:
            try:
                await stack.enter_async_context(open_database())
            except IngesterError as exc:
                echo(f"{left_out} are left out: {exc}", err=True)
                is_there = False
        yield is_there


async def _initialize(patience: float, stopping: asyncio.Event | None) -> None:
    import asyncio

    from soliplex.ingester.lib.models import Database
    from soliplex.ingester.lib.models.connecting import DatabaseAwayError

    is_told_to_stop = stopping or asyncio.Event()
    until, told = asyncio.get_running_loop().time() + patience, ""
    while True:
        try:
            await Database.initialize()
        except DatabaseAwayError as error:
            if asyncio.get_running_loop().time() > until or is_told_to_stop.is_set():
                raise
            if str(error) != told:
                told = str(error)
                echo(f"waiting up to {patience:g} seconds for the database: {told}", err=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(is_told_to_stop.wait(), BETWEEN_ATTEMPTS)
        else:
            return


async def db_init() -> None:
    """Create the database and bring its schema up to date.

    Safe to run again, and by several processes at once. The database is the one of DOC_DB_URL; a PostgreSQL database
    that does not exist is created when the user may do so.
    """
    from soliplex.ingester.lib.config import get_settings, mask_password
    from soliplex.ingester.lib.models import connecting, schema
    from soliplex.ingester.lib.models.database import engine_for

    url = connecting.parse_url(get_settings().doc_db_url)
    if url.get_backend_name() == "postgresql" and await schema.create_database(url):
        echo(f"created database {url.database}")
    async with engine_for(url) as engine:
        before = await schema.upgrade(engine)
    shown = mask_password(url.render_as_string(hide_password=True))
    if before.is_current:
        echo(f"{shown} is {before}")
    else:
        echo(f"{shown} is now at revision {schema.head()} (it was {before})")
