"""Steps whose function only one process had, and that process is gone: they fail, and say why.

Nobody else takes steps of such a type (`this_process` in `operations/claim.py`), so they would wait for ever. A process
lives as long as one of its workers has checked in. One that starts a flow and begins to work later is given time: only
what has been ready for `patience` without such a worker fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.execution import errored
from soliplex.ingester.lib.wf.operations.claim import OF_A_PROCESS, Look, Pool
from soliplex.ingester.lib.wf.sql import SQL

_log = logging.getLogger(__name__)

AT_ONCE: Final = 100
PROCESS: Final = "process"
"""The key under which a worker's check-in names the type of steps that only its process takes."""


class Abandoned:
    """Looks for steps that no living process can execute, and remembers since when that is so."""

    def __init__(self, patience: timedelta, clock: Callable[[], datetime]) -> None:
        self._patience = patience
        self._clock = clock
        self._since: dict[str, datetime] = {}

    async def fail_those_due(self) -> int:
        """Fail the steps that have waited long enough; gives how many."""
        now = self._clock()
        gone = await _types_without_process()
        self._since = {kind: self._since.get(kind, now) for kind in gone}
        due = [kind for kind, since in self._since.items() if now - since >= self._patience]
        return sum([await _fail(kind, now) for kind in due])


async def _types_without_process() -> set[str]:
    look = Look.at(await Database.read(SQL.look_for_work()))
    ready = {*(head["step_type"] for head in look.plain), *look.keyed}
    of_processes = {kind for kind in ready if kind.startswith(OF_A_PROCESS)}
    if not of_processes:
        return set()
    return of_processes - {row["process"] for row in await Database.read(SQL.living_processes())}


async def _fail(kind: str, now: datetime) -> int:
    """Claim the steps as a worker of our own would, and record that they failed."""
    worker_id = f"abandoned:{uuid4()}"
    await operations.check_in(worker_id, now=now)
    try:
        claim = await operations.claim_steps(worker_id, Pool(types=frozenset({kind})), AT_ONCE, now=now)
        problem = PermanentError("the process that had the function of this step is gone; start the flow again")
        await operations.finish_steps([errored(step, problem, now) for step in claim.steps], now=now)
    finally:
        await operations.check_out(worker_id)
    if claim.steps:
        _log.warning("%d steps of flows failed: the process that had their functions is gone", len(claim.steps))
    return len(claim.steps)
