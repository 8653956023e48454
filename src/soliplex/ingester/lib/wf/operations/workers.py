"""Workers: checking in and out, and giving back what a dead one held.

A worker is dead when its check-in is older than a threshold, or when the lock it holds for life is free (see
`presence`). A wrong guess does no harm: every write of a worker to this database is gated on leases that the reaper has
taken away, and every write to a resource on the fence of the lock that went with them (`take_fence`).

A step may be what its worker died of: a handler that crashes the process, or takes all memory. So deaths are counted in
its `status_meta`. The first deaths have no consequence. After those the step waits before the next worker gets it,
each time longer, and by chance not as long as the steps that only happened to be held along with it. In the end it
fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import random
from typing import Any, Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Call, Json
from soliplex.ingester.lib.models.transactions import Row, Script, datetime_of, json_of, single
from soliplex.ingester.lib.wf.operations.finish import finish_script
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL, work_is_ready
from soliplex.ingester.lib.wf.work import Errored, Released

DEATHS: Final = "deaths"
"""The key in a step's `status_meta` under which the workers are counted that ended while they held it."""
FORGIVEN_DEATHS: Final = 2
MOST_DEATHS: Final = 10
_PAUSES: Final = Backoff(jitter=0.5)


@dataclass(frozen=True, slots=True)
class Reaped:
    """What was taken from dead workers."""

    workers: tuple[str, ...] = ()
    steps: int = 0
    """Steps that wait to be claimed again."""
    failed: int = 0
    """Steps that too many workers have died of, it seems."""
    events: int = 0
    locks: int = 0


async def check_in(
    worker_id: str,
    *,
    hostname: str | None = None,
    pid: int | None = None,
    meta: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> None:
    """Say that the worker is alive."""
    call = SQL.check_in(
        worker_id=worker_id, hostname=hostname, pid=pid, meta=Json(dict(meta or {})), now=now or utcnow()
    )
    await Database.transact(single(call))


async def check_out(worker_id: str) -> None:
    """Say that the worker is leaving, so that nobody waits for it."""
    await Database.transact(single(SQL.check_out(worker_id=worker_id)))


async def other_workers(worker_id: str) -> list[str]:
    return [other for other in await last_checkins() if other != worker_id]


async def last_checkins() -> dict[str, datetime]:
    """When each worker last checked in, by its own clock."""
    rows = await Database.transact(single(SQL.last_checkins()))
    checkins = {row["id"]: datetime_of(row, "last_checkin") for row in rows}
    return {worker_id: checkin for worker_id, checkin in checkins.items() if checkin is not None}


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A step that a worker holds, as the database has it."""

    id: int
    lease: str
    is_stopping: bool
    """Whether its run was cancelled or has failed."""


async def steps_held(worker_id: str) -> list[HeldStep]:
    """The steps that this worker holds."""
    rows = await Database.read(SQL.steps_held(worker_id=worker_id))
    return [HeldStep(row["id"], row["lease_token"], bool(row["is_stopping"])) for row in rows]


async def steps_to_stop(worker_id: str) -> set[int]:
    """The steps this worker runs whose run was cancelled or has failed."""
    return {step.id for step in await steps_held(worker_id) if step.is_stopping}


async def reap_dead_workers(my_id: str, threshold: timedelta | float, *, now: datetime | None = None) -> Reaped:
    """Give back what workers held that have not checked in for longer than the threshold; never the caller's own."""
    moment = now or utcnow()
    silence = threshold if isinstance(threshold, timedelta) else timedelta(seconds=threshold)
    return await _reap(my_id, SQL.remove_silent_workers(worker_id=my_id, silent_since=moment - silence), moment)


async def reap_workers(my_id: str, dead: Iterable[str], *, now: datetime | None = None) -> Reaped:
    """Give back what these workers held; never the caller's own."""
    return await _reap(my_id, SQL.remove_workers(worker_id=my_id, ids=list(dead)), now or utcnow())


async def _reap(my_id: str, removal: Call, now: datetime) -> Reaped:
    def script() -> Script[Reaped]:
        removed = yield removal
        forgotten = yield SQL.workers_without_checkin(worker_id=my_id)
        dead = sorted({row["id"] for row in (*removed, *forgotten)})
        if not dead:
            return Reaped()
        return (yield from _give_back(tuple(dead), now))

    reaped = await Database.transact(script())
    if reaped.steps or reaped.failed or reaped.events:
        work_is_ready()
    return reaped


async def give_back_leases(worker_id: str, leases: Collection[str], *, now: datetime | None = None) -> None:
    """Give back the steps and events that the worker holds under these leases."""
    moment = now or utcnow()

    def script() -> Script[None]:
        rows = yield SQL.running_steps_of_workers(ids=[worker_id])
        steps = [_released(row) for row in rows if row["lease_token"] in leases]
        if steps:
            yield from finish_script(steps, now=moment)
        for lease in sorted(leases):
            yield SQL.release_events_of_lease(worker_id=worker_id, lease=lease, now=moment)

    await Database.transact(script())
    work_is_ready()


async def give_back_all(worker_id: str, *, now: datetime | None = None) -> Reaped:
    """Give back all that the worker holds: for one that begins, under the name of one that died."""
    reaped = await Database.transact(_give_back((worker_id,), now or utcnow()))
    work_is_ready()
    return reaped


def _released(row: Row) -> Released:
    return Released(step_id=row["id"], run_id=row["workflow_run_id"], lease=row["lease_token"])


def _bereaved(row: Row) -> Released | Errored:
    """What becomes of a step whose worker died."""
    meta = json_of(row, "status_meta") or {}
    deaths = meta.get(DEATHS, 0) + 1
    if deaths <= FORGIVEN_DEATHS:
        return replace(_released(row), meta={**meta, DEATHS: deaths})
    held = f"{deaths} workers died while they held this step"
    if deaths < MOST_DEATHS:
        delay = _PAUSES.delay_after(deaths - FORGIVEN_DEATHS, random=random)
        return replace(
            _released(row), meta={**meta, DEATHS: deaths}, delay=delay, message=f"{held}; the next one waits a while"
        )
    return Errored(
        step_id=row["id"],
        run_id=row["workflow_run_id"],
        lease=row["lease_token"],
        message=f"{held}; it may be what they died of. With `isolation: process` it would end alone",
        meta={"error_type": "WorkerDied"},
        permanent=True,
    )


def _give_back(dead: tuple[str, ...], now: datetime) -> Script[Reaped]:
    rows = yield SQL.running_steps_of_workers(ids=list(dead))
    bereaved = [_bereaved(row) for row in rows]
    finished = yield from finish_script(bereaved, now=now)
    # A map step may fail along with them, when the last task that its failed sibling has waited for is given back.
    failed = {each.step_id for each in bereaved if isinstance(each, Errored)}.intersection(finished.failed)
    yield SQL.drop_locks_of_workers(ids=list(dead))
    events = yield SQL.release_events_of_workers(ids=list(dead), now=now)
    yield SQL.notify(channel=WORK_CHANNEL, types="")
    return Reaped(dead, len(finished.released), len(failed), len(events), len(finished.freed_keys))
