"""Deadlines: a run that has not ended when its time is over fails, with all that waits or runs in it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.wf.operations.finish import Finished, settlement_for_runs
from soliplex.ingester.lib.wf.sql import SQL

AT_ONCE: Final = 100
"""Runs that one transaction ends."""
MESSAGE: Final = "the deadline of the run has passed"


async def end_overdue_runs(*, now: datetime | None = None) -> Finished | None:
    """End runs whose deadline has passed, a hundred at most. None: no deadline had passed."""
    moment = now or utcnow()
    rows = await Database.read(SQL.overdue_runs(now=moment, limit=AT_ONCE))
    return await Database.transact(_end([row["id"] for row in rows], moment)) if rows else None


def _end(run_ids: list[int], now: datetime) -> Script[Finished]:
    settlement = yield from settlement_for_runs(run_ids, now)
    overdue = [row["id"] for row in (yield SQL.mark_overdue(ids=sorted(run_ids), message=MESSAGE, now=now))]
    leases = [row["lease_token"] for row in (yield SQL.leases_of_runs(ids=overdue))]
    yield SQL.take_back_running_steps(ids=overdue, now=now)
    settlement.stop(overdue)
    yield from settlement.settle()
    finished = settlement.finished
    if leases:
        freed = yield SQL.drop_locks_of_leases(leases=sorted(leases))
        finished.freed_keys = {row["resource_key"] for row in freed}
    yield from settlement.close()
    return finished
