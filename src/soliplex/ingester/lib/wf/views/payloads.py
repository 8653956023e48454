"""Large inputs, outputs and states, which rows of runs and steps refer to by an id."""

from __future__ import annotations

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.sql import SQL


async def content_of_payload(payload_id: int) -> str:
    """What the payload holds, as JSON. A list that was gathered may hold references to others."""
    rows = await Database.read(SQL.payloads_by_id(ids=[payload_id]))
    if not rows:
        raise NotFoundError("payload", payload_id)
    return rows[0]["content"]
