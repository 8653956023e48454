"""Subflows: runs that a step of another run started (`operations/parking.py`), and that nobody waits for any more."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.operations.groups import cancel_run
from soliplex.ingester.lib.wf.sql import SQL

AT_ONCE: Final = 100


async def cancel_orphaned_runs(*, now: datetime | None = None) -> int:
    """Cancel runs whose step has ended, was retried or deleted, or has waited for long enough. Gives how many."""
    rows = await Database.read(SQL.orphaned_runs(limit=AT_ONCE))
    for row in rows:
        # Each by itself: a run is locked before those that its own steps started, whatever their ids.
        await cancel_run(row["id"], now=now)
    return len(rows)
