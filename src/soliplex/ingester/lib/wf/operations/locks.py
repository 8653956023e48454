"""Resource locks: one holder per key, for workers and direct callers (command line, web, lifecycle handlers) alike."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from soliplex.ingester.lib.models import Database, ResourceLock, ResourceLockKind
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Row, Script, datetime_of, json_of, single
from soliplex.ingester.lib.wf.errors import LockLostError
from soliplex.ingester.lib.wf.operations.claim import DEFAULT_LOCK_TTL, place_in_queue
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import work_is_ready

_audit = logging.getLogger("soliplex.ingester.audit")


async def acquire_resource_lock(
    resource_key: str,
    holder_id: str,
    holder_kind: ResourceLockKind,
    *,
    step_id: int | None = None,
    ttl: timedelta = DEFAULT_LOCK_TTL,
    meta: Mapping[str, Any] | None = None,
    waits: bool = False,
    now: datetime | None = None,
) -> bool:
    """Take the lock, unless another holds it and has not let it expire, or others have waited for it longer.

    Expired locks are swept on the way. One who `waits` takes a place in the queue, and keeps it by asking again within
    a few seconds; one who gives up says so by `stop_waiting`.
    """
    moment = now or utcnow()

    def script() -> Script[bool]:
        yield SQL.sweep_locks(now=moment)
        yield SQL.sweep_waiters(now=moment)
        first = yield SQL.first_in_queue(resource_key=resource_key, now=moment)
        taken = not first or first[0]["holder_id"] == holder_id
        if taken:
            rows = yield SQL.acquire_lock(
                resource_key=resource_key,
                holder_id=holder_id,
                holder_kind=ResourceLockKind(holder_kind).value,
                step_id=step_id,
                now=moment,
                expires_at=moment + ttl,
                meta=Json(dict(meta or {})),
            )
            taken = bool(rows)
        if taken:
            yield SQL.leave_queue(resource_key=resource_key, holder_id=holder_id)
        elif waits:
            yield SQL.join_queue(resource_key=resource_key, holder_id=holder_id, **place_in_queue(moment))
        return taken

    return await Database.transact(script())


async def stop_waiting(resource_key: str, holder_id: str) -> None:
    """Give up the place in the queue for a resource."""
    await Database.transact(single(SQL.leave_queue(resource_key=resource_key, holder_id=holder_id)))
    work_is_ready()


async def refresh_resource_lock(
    resource_key: str, holder_id: str, *, ttl: timedelta = DEFAULT_LOCK_TTL, now: datetime | None = None
) -> bool:
    """Put off the lock's expiry. False: this holder does not hold the lock any more."""
    expires_at = (now or utcnow()) + ttl
    call = SQL.refresh_lock(resource_key=resource_key, holder_id=holder_id, expires_at=expires_at)
    return bool(await Database.transact(single(call)))


async def release_resource_lock(resource_key: str, holder_id: str) -> bool:
    """Give the lock back. Doing it twice does no harm."""
    released = bool(await Database.transact(single(SQL.release_lock(resource_key=resource_key, holder_id=holder_id))))
    if released:
        work_is_ready()
    return released


async def take_fence(resource_key: str, holder_id: str, *, above: int = 0, now: datetime | None = None) -> int:
    """Give the holder of the lock a token that is larger than `above` and than all that were given before.

    Whoever writes to the resource shows it there, and so keeps out those who held the lock earlier, and go on writing
    because they have not noticed that it is gone. Raises LockLostError where the lock is another's.
    """

    def script() -> Script[int]:
        if not (yield SQL.hold_lock(resource_key=resource_key, holder_id=holder_id)):
            raise LockLostError(resource_key)
        rows = yield SQL.take_fence(resource_key=resource_key, holder_id=holder_id, above=above, now=now or utcnow())
        return int(rows[0]["token"])

    return await Database.transact(script())


async def force_release_resource_lock(resource_key: str, *, requested_by: str) -> ResourceLock | None:
    """Break the lock, whoever holds it. The break is written to the audit log. Gives the lock that was broken."""
    rows = await Database.transact(single(SQL.force_release_lock(resource_key=resource_key)))
    if not rows:
        return None
    lock = _lock(rows[0])
    _audit.warning(
        "resource lock broken by force: key=%s holder=%s kind=%s step=%s acquired_at=%s requested_by=%s",
        lock.resource_key,
        lock.holder_id,
        lock.holder_kind,
        lock.step_id,
        lock.acquired_at,
        requested_by,
    )
    work_is_ready()
    return lock


async def sweep_expired_resource_locks(*, now: datetime | None = None) -> list[str]:
    """Remove the locks whose time is over; gives their keys."""
    rows = await Database.transact(single(SQL.sweep_locks(now=now or utcnow())))
    if rows:
        work_is_ready()
    return [row["resource_key"] for row in rows]


async def find_resource_lock(resource_key: str) -> ResourceLock | None:
    rows = await Database.transact(single(SQL.find_lock(resource_key=resource_key)))
    return _lock(rows[0]) if rows else None


async def refresh_locks_of_leases(leases: list[str], *, ttl: timedelta, now: datetime | None = None) -> set[str]:
    """Put off the expiry of all locks a worker holds; gives the leases that still hold one."""
    if not leases:
        return set()
    call = SQL.refresh_locks_of_leases(leases=leases, expires_at=(now or utcnow()) + ttl)
    return {row["holder_id"] for row in await Database.transact(single(call))}


def _lock(row: Row) -> ResourceLock:
    acquired_at, expires_at = datetime_of(row, "acquired_at"), datetime_of(row, "expires_at")
    assert acquired_at is not None
    assert expires_at is not None
    return ResourceLock(
        resource_key=row["resource_key"],
        holder_id=row["holder_id"],
        holder_kind=ResourceLockKind(row["holder_kind"]),
        step_id=row["step_id"],
        acquired_at=acquired_at,
        expires_at=expires_at,
        holder_meta=json_of(row, "holder_meta"),
    )
