"""Signals: sending one, and bringing it to the step that waits for it.

`operations/parking.py` draws how the two meet.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json, to_json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.wf.operations.finish import Finished, settlement_for_runs
from soliplex.ingester.lib.wf.operations.parking import resume
from soliplex.ingester.lib.wf.operations.payloads import refuse_references
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.waiting import check_payload, own_key
from soliplex.ingester.lib.wf.wakeup import SIGNALS, WORK_CHANNEL, work_is_ready

AT_ONCE: Final = 500
"""Signals that one transaction delivers."""


async def send_signal(key: str, payload: Any = None, *, now: datetime | None = None) -> int:
    """Resume the step that waits for this key, or the next one that will. Gives the signal's id."""
    own_key(key)
    refuse_references("payload", check_payload(payload))
    call = SQL.insert_signal(key=key, payload=None if payload is None else Json(payload), now=now or utcnow())

    def script() -> Script[int]:
        rows = yield call
        yield SQL.notify(channel=WORK_CHANNEL, types=to_json([SIGNALS]))
        return rows[0]["id"]

    signal_id = await Database.transact(script())
    work_is_ready([SIGNALS])
    return signal_id


async def deliver_signals(*, now: datetime | None = None) -> Finished | None:
    """Bring new signals to the steps that wait for them, some hundreds at most. None: there was no new signal."""
    if not await Database.read(SQL.any_new_signal()):
        return None
    return await Database.transact(_deliver(now or utcnow()))


def _deliver(now: datetime) -> Script[Finished]:
    found = yield SQL.pair_new_signals(limit=AT_ONCE)
    held_runs = {pair["workflow_run_id"] for pair in found if pair["step_id"] is not None}
    settlement = yield from settlement_for_runs(held_runs, now)
    held = yield SQL.try_to_hold_keys(keys=sorted({pair["key"] for pair in found}))
    keys = {row["key"] for row in held}
    # The signals are paired once more: while the keys are held, no step can begin to wait for one of them.
    pairs = [pair for pair in (yield SQL.pair_new_signals(limit=AT_ONCE)) if pair["key"] in keys]
    unwanted = [pair["signal_id"] for pair in pairs if pair["step_id"] is None]
    if unwanted:
        yield SQL.delete_signals_of_tasks(ids=unwanted)  # of steps that were cancelled meanwhile: nobody will want them
        yield SQL.shelve_signals(ids=unwanted)
    wanted = [pair for pair in pairs if pair["workflow_run_id"] in held_runs]
    yield from resume(wanted, settlement)
    yield from settlement.settle()
    return (yield from settlement.close())
