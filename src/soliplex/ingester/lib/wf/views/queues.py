"""The queue: how many steps are ready, which of them has waited longest, and what waits for something else, and why.

Cheap whatever the number of steps: no more than `MOST` of a kind are looked at, in the order of an index. A number that
stops there says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row, datetime_of
from soliplex.ingester.lib.models.workflows import NEVER
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.views.paging import FIRST_ROWS
from soliplex.ingester.lib.wf.views.workers import WorkerView, list_workers

MOST: Final = 10_000
"""So many steps of a kind are looked at."""
MOST_LOCKS: Final = 1_000
_ANY_TYPE: Final = "*"


class WaitReason(StrEnum):
    """What a step waits for, other than its turn."""

    SIGNAL = "signal"
    SUBFLOW = "subflow"
    """The end of a run that it has started."""
    QUEUE = "queue"
    """A worker of the queue of pgmq that it was sent to."""
    TIME = "time"
    """The moment at which it may begin, or asked to be called again."""
    RETRY = "retry"
    """The pause before its next attempt."""
    WORKER = "worker"
    """A worker that knows its workflow and can import its handler."""
    RESOURCE = "resource"
    """The lock of a resource that another holds."""
    STEPS = "steps"
    """Other steps of its run."""
    TASKS = "tasks"
    """Tasks of its own: the step is a map step."""


@dataclass(frozen=True, slots=True)
class OldestStep:
    """The ready step of a type that was created first."""

    step_id: int
    workflow_run_id: int
    ready_since: datetime
    """When the step became ready. Of a step that waited for a time before that, an earlier moment is told."""
    waits: float
    """Seconds since `ready_since`."""


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many steps of a type are ready to be claimed, and how many run."""

    step_type: str
    ready: int
    is_exact: bool
    """False: there are more than `ready`, and the oldest is the oldest of those."""
    running: int
    workers: int
    """Workers that take the type. With 0, nobody will claim its steps."""
    oldest: OldestStep | None


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """How many steps wait for one kind of thing."""

    reason: WaitReason
    steps: int
    next_at: datetime | None
    """When the first of these waits ends by itself; None: none does."""


@dataclass(frozen=True, slots=True)
class HeldResource:
    """A resource that somebody holds while ready steps wait for it."""

    resource_key: str
    holder_kind: str
    holder_id: str
    acquired_at: datetime | None
    expires_at: datetime | None
    steps: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class WhatWaits:
    """What waits, and why. Steps that wait for other steps of their run are not among it."""

    reasons: list[WaitingCount]
    is_exact: bool
    """False: only the steps whose wait ends first were counted."""
    resources: list[HeldResource]
    signals: int
    """Signals that no step has taken, up to `MOST`."""


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """A step that waits for something other than its turn or other steps."""

    step_id: int
    workflow_run_id: int
    run_group_id: int
    workflow_definition_id: str
    workflow_step_name: str
    step_type: str
    item_index: int | None
    reason: WaitReason
    awaits: str | None
    """The key of the signal."""
    until: datetime | None
    """When the wait ends by itself; None: never."""
    message: str | None


async def queue_depths(*, now: datetime | None = None) -> list[QueueDepth]:
    """How many steps are ready and run, by type."""
    moment = now or utcnow()
    rows = await Database.read(SQL.queue_depths(most=MOST))
    running = {row["step_type"]: row["steps"] for row in await Database.read(SQL.running_steps_by_type())}
    oldest = await _oldest(rows, moment)
    workers = (await list_workers(paging=FIRST_ROWS, now=moment)).items
    counted: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        counted[row["step_type"]].append(row["steps"])
    return [
        QueueDepth(
            step_type=step_type,
            ready=sum(counted[step_type]),
            is_exact=all(steps < MOST for steps in counted[step_type]),
            running=running.get(step_type, 0),
            workers=sum(_takes(worker, step_type) for worker in workers),
            oldest=oldest.get(step_type),
        )
        for step_type in sorted({*counted, *running})
    ]


async def what_waits(*, now: datetime | None = None) -> WhatWaits:
    """How many steps wait for what: a signal, a time, a worker that knows them, a resource."""
    rows = await Database.read(SQL.count_waiting_steps(most=MOST))
    held = await Database.read(SQL.steps_waiting_for_locks(most=MOST, locks=MOST_LOCKS, now=now or utcnow()))
    signals = await Database.read(SQL.count_signals(most=MOST))
    resources = _resources(held)
    reasons = [WaitingCount(WaitReason(row["reason"]), row["steps"], _until(row, "next_at")) for row in rows]
    if resources:
        reasons.append(WaitingCount(WaitReason.RESOURCE, sum(each.steps for each in resources), None))
    return WhatWaits(
        reasons=sorted(reasons, key=lambda each: (-each.steps, each.reason)),
        is_exact=sum(row["steps"] for row in rows) < MOST and all(each.is_exact for each in resources),
        resources=resources,
        signals=signals[0]["signals"],
    )


async def waiting_steps(*, reason: WaitReason | None = None, limit: int = 100) -> list[WaitingStep]:
    """Steps that wait, those whose wait ends first: for anything but a resource or other steps, or for one thing."""
    wanted = None if reason is None else str(reason)
    rows = await Database.read(SQL.waiting_steps(most=MOST, reason=wanted, limit=limit))
    return [
        WaitingStep(
            step_id=row["id"],
            workflow_run_id=row["workflow_run_id"],
            run_group_id=row["run_group_id"],
            workflow_definition_id=row["workflow_definition_id"],
            workflow_step_name=row["workflow_step_name"],
            step_type=row["step_type"],
            item_index=row["item_index"],
            reason=WaitReason(row["reason"]),
            awaits=row["awaits"],
            until=_until(row, "available_at"),
            message=row["status_message"],
        )
        for row in rows
    ]


async def _oldest(rows: Sequence[Row], now: datetime) -> dict[str, OldestStep]:
    """The oldest step of each type. A type may have one that needs a resource and one that does not."""
    ids = [row["oldest_id"] for row in rows if row["oldest_id"] is not None]
    found: dict[str, OldestStep] = {}
    moments = await Database.read(SQL.moments_of_steps(ids=ids)) if ids else ()
    for row in sorted(moments, key=lambda row: row["id"], reverse=True):
        since = max(_moments(row, ("created_date", "status_date", "freed_at")))
        waits = max(0.0, (now - since).total_seconds())
        found[row["step_type"]] = OldestStep(row["id"], row["workflow_run_id"], since, waits)
    return found


def _moments(row: Row, names: Iterable[str]) -> list[datetime]:
    return [moment for name in names if (moment := datetime_of(row, name)) is not None]


def _until(row: Row, name: str) -> datetime | None:
    moment = datetime_of(row, name)
    return None if moment is None or moment >= NEVER else moment


def _resources(rows: Sequence[Row]) -> list[HeldResource]:
    by_key: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["steps"]:
            by_key[row["resource_key"]].append(row)
    return [_resource(some) for some in by_key.values()]


def _resource(rows: Sequence[Row]) -> HeldResource:
    """A resource, from a row for each type of steps that wait for it."""
    first = rows[0]
    return HeldResource(
        resource_key=first["resource_key"],
        holder_kind=first["holder_kind"],
        holder_id=first["holder_id"],
        acquired_at=datetime_of(first, "acquired_at"),
        expires_at=datetime_of(first, "expires_at"),
        steps=sum(row["steps"] for row in rows),
        is_exact=all(row["steps"] < MOST for row in rows),
    )


def _takes(worker: WorkerView, step_type: str) -> bool:
    return step_type in worker.consumers or _ANY_TYPE in worker.consumers
