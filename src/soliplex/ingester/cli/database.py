"""`si-cli db-init`, and the opening of the database for all commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from soliplex.ingester.cli.output import echo


@asynccontextmanager
async def open_database() -> AsyncGenerator[None]:
    """The database of the settings, open for the time of the block."""
    from soliplex.ingester.lib.models import Database

    await Database.initialize()
    try:
        yield
    finally:
        await Database.close()


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
