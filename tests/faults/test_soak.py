"""A minute of random trouble under load."""

from __future__ import annotations

import asyncio
import random
import signal
import time

import pytest

from soliplex.ingester.lib.models import Database
from tests.support.engine import rows_of
from tests.support.faults import Fleet, WorkerProcess

SECONDS = 60
WORKERS = 3


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 4)
async def test_nothing_is_lost_in_a_minute_of_random_trouble(fleet: Fleet) -> None:
    dice = random.Random(random.random())  # the seed is the one that pytest prints
    workers = [await fleet.start(f"worker-{number}", checkin_timeout=2) for number in range(WORKERS)]
    ends_at = time.monotonic() + SECONDS
    while time.monotonic() < ends_at:
        await fleet.create("load", 15)
        number = dice.randrange(WORKERS)
        workers[number] = await _trouble(fleet, workers[number], dice)
        await asyncio.sleep(dice.uniform(0, 0.5))
    await fleet.everything_ends(within=SECONDS)

    assert await rows_of("SELECT id FROM runstep WHERE status <> 'COMPLETED' OR retry > 0") == []
    statuses = await rows_of("SELECT DISTINCT event, status FROM lifecyclehistory WHERE status <> 'COMPLETED'")
    assert statuses == []


async def _trouble(fleet: Fleet, worker: WorkerProcess, dice: random.Random) -> WorkerProcess:
    """Do something to the worker; gives the one that stands in its place."""
    kind = dice.choice(["kill", "stop", "pause", "disconnect"])
    if kind == "pause":
        await fleet.freeze(worker)
        await asyncio.sleep(dice.uniform(0, 4))
        worker.signal(signal.SIGCONT)
        return worker
    if kind == "disconnect":
        if Database.is_postgres():
            await rows_of("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                              WHERE datname = current_database() AND pid <> pg_backend_pid()""")
        return worker
    worker.signal(signal.SIGKILL if kind == "kill" else signal.SIGTERM)
    await worker.ends(-signal.SIGKILL if kind == "kill" else 0)
    return await fleet.start(worker.id, checkin_timeout=2)
