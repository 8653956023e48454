"""How Alembic reaches the database: on a connection it is given, or on one of its own made from DOC_DB_URL."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import sqlalchemy as sa
from alembic import context

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import connecting, metadata
from soliplex.ingester.lib.models.columns import UtcDateTime
from soliplex.ingester.lib.models.database import engine_for


def render_item(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    """Write our own types into new migrations by their short names."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "UtcDateTime()"
    if kind == "type" and isinstance(item, sa.JSON):
        return "JSON"
    return False


def number_revision(_migration: Any, _revision: Any, directives: list[Any]) -> None:
    """Number new migrations 0001, 0002, …"""
    newest = context.script.get_current_head()
    if directives:
        directives[0].rev_id = f"{int(newest or 0) + 1:04}"


def run(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        render_item=render_item,
        process_revision_directives=number_revision,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on_own_connection() -> None:
    url = connecting.parse_url(get_settings().doc_db_url)
    async with engine_for(url) as engine, engine.begin() as connection:
        await connection.run_sync(run)


if context.config.attributes.get("connection") is not None:
    run(context.config.attributes["connection"])
else:
    asyncio.run(run_on_own_connection())
