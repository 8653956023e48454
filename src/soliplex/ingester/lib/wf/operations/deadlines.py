"""Ending runs at once, with all that waits or runs in them: at their deadline, or because somebody wants it so.

What runs is taken back without asking its worker, which may be stopped, or stuck in a call; a worker that lives notices
within about a second, and stops it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.wf.operations.finish import Finished, Settlement, settlement_for_runs
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL, work_is_ready

AT_ONCE: Final = 100
"""Runs that one transaction ends."""
MESSAGE: Final = "the deadline of the run has passed"


async def end_overdue_runs(*, now: datetime | None = None) -> Finished | None:
    """End runs whose deadline has passed, a hundred at most. None: no deadline had passed."""
    moment = now or utcnow()
    rows = await Database.read(SQL.overdue_runs(now=moment, limit=AT_ONCE))
    return await Database.transact(_end([row["id"] for row in rows], moment)) if rows else None


async def cancel_run_at_once(run_id: int, *, now: datetime | None = None) -> bool:
    """Cancel a run so that it has ended when this returns. False: it had ended before, or is not there."""
    finished = await Database.transact(_cancel(run_id, now or utcnow()))
    work_is_ready()
    return run_id in finished.ended_runs


def _end(run_ids: list[int], now: datetime) -> Script[Finished]:
    settlement = yield from settlement_for_runs(run_ids, now)
    overdue = yield SQL.mark_overdue(ids=sorted(run_ids), message=MESSAGE, now=now)
    return (yield from _stop(settlement, [row["id"] for row in overdue], now))


def _cancel(run_id: int, now: datetime) -> Script[Finished]:
    settlement = yield from settlement_for_runs([run_id], now)
    stopping = yield SQL.mark_runs_stopping(ids=[run_id], now=now)
    finished = yield from _stop(settlement, [row["id"] for row in stopping], now)
    yield SQL.notify(channel=WORK_CHANNEL, types="")
    return finished


def _stop(settlement: Settlement, run_ids: list[int], now: datetime) -> Script[Finished]:
    leases = [row["lease_token"] for row in (yield SQL.leases_of_runs(ids=run_ids))]
    yield SQL.take_back_running_steps(ids=run_ids, now=now)
    settlement.stop(run_ids)
    yield from settlement.settle()
    finished = settlement.finished
    if leases:
        freed = yield SQL.drop_locks_of_leases(leases=sorted(leases))
        finished.freed_keys = {row["resource_key"] for row in freed}
    yield from settlement.close()
    return finished
