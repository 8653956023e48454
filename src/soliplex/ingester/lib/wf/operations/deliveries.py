"""Delivering events: claiming those that have a handler to call, and recording what became of the call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from soliplex.ingester.lib.models import Database, LifeCycleEvent, RunStatus
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import datetime_of, json_of, single
from soliplex.ingester.lib.wf.sql import SQL


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event whose handler is to be called by this worker."""

    id: int
    event: LifeCycleEvent
    handler_name: str
    group_id: int
    run_id: int | None
    step_id: int | None
    retry: int
    lease: str
    message: str | None
    meta: dict[str, Any]


async def claim_events(
    worker_id: str, limit: int, *, lease: str | None = None, now: datetime | None = None
) -> list[Delivery]:
    """Take up to `limit` events that wait for their handler, under a fresh lease unless one is given."""
    lease = lease or str(uuid4())
    call = SQL.claim_events(worker_id=worker_id, lease=lease, now=now or utcnow(), limit=limit)
    rows = await Database.transact(single(call))
    deliveries = [
        Delivery(
            id=row["id"],
            event=LifeCycleEvent(row["event"]),
            handler_name=row["handler_name"],
            group_id=row["run_group_id"],
            run_id=row["workflow_run_id"],
            step_id=row["step_id"],
            retry=row["retry"],
            lease=lease,
            message=json_of(row, "status_meta").get("message"),
            meta=json_of(row, "status_meta"),
        )
        for row in rows
    ]
    return sorted(deliveries, key=lambda delivery: delivery.id)


async def next_event_due() -> datetime | None:
    rows = await Database.transact(single(SQL.next_event_due()))
    return datetime_of(rows[0], "due")


async def complete_event(delivery: Delivery, *, now: datetime | None = None) -> bool:
    """Record that the handler was called. False: another worker held the delivery by then."""
    call = SQL.complete_event(event_id=delivery.id, lease=delivery.lease, now=now or utcnow())
    return bool(await Database.transact(single(call)))


async def error_event(
    delivery: Delivery, message: str, *, available_at: datetime, now: datetime | None = None
) -> RunStatus | None:
    """Record that the handler failed: it is called again at `available_at` while attempts remain, else FAILED."""
    call = SQL.error_event(
        event_id=delivery.id, lease=delivery.lease, message=message, available_at=available_at, now=now or utcnow()
    )
    rows = await Database.transact(single(call))
    return RunStatus(rows[0]["status"]) if rows else None


async def release_event(delivery: Delivery, *, now: datetime | None = None) -> None:
    """Give the delivery back, without counting an attempt."""
    await Database.transact(single(SQL.release_event(event_id=delivery.id, lease=delivery.lease, now=now or utcnow())))


async def postpone_event(
    delivery: Delivery, message: str, meta: dict[str, Any], *, available_at: datetime, now: datetime | None = None
) -> None:
    """Give the delivery back, for another worker that can make it, without counting an attempt."""
    call = SQL.postpone_event(
        event_id=delivery.id,
        lease=delivery.lease,
        message=message,
        meta=Json(meta),
        available_at=available_at,
        now=now or utcnow(),
    )
    await Database.transact(single(call))
