"""Workers and resource locks: who is there, what each is doing, and who holds what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, ResourceLock, RunStep, WorkerCheckin
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page
from soliplex.ingester.lib.wf.views.steps import IS_RUNNING


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker, and how busy it is."""

    id: str
    hostname: str | None
    pid: int | None
    first_checkin: datetime
    last_checkin: datetime
    seconds_since_checkin: float
    consumers: dict[str, int]
    """Slots by pool."""
    slots: int
    running_steps: int
    """Steps it holds; those beyond its slots wait in the worker."""
    utilization: float
    """How much of its slots is in use, from 0 to 1."""
    resident_bytes: int | None
    """Memory of the worker when it last checked in; None where its machine does not tell."""
    processes_resident_bytes: int | None
    """Memory of the processes that it had started."""


async def list_workers(*, paging: Paging = FIRST_PAGE, now: datetime | None = None) -> Page[WorkerView]:
    """Workers by id, with what each holds."""
    moment = now or utcnow()
    rows = paging.within(select(WorkerCheckin).order_by(col(WorkerCheckin.id)))
    page = await read_page(rows, select(func.count()).select_from(WorkerCheckin), paging)
    running = await running_steps_by_worker()
    return page.with_items([_view(worker, running.get(worker.id, 0), moment) for worker in page.items])


async def running_steps_by_worker() -> dict[str, int]:
    """How many steps each worker holds."""
    worker_id = col(RunStep.worker_id)
    query = (
        select(worker_id, func.count())
        .where(IS_RUNNING, col(RunStep.lease_token).is_not(None))  # pyright: ignore[reportArgumentType]  text is a condition too
        .group_by(worker_id)
    )
    async with Database.session(read_only=True) as session:
        return {worker: count for worker, count in await session.exec(query) if worker is not None}


async def list_locks(*, paging: Paging = FIRST_PAGE) -> Page[ResourceLock]:
    """Resource locks by key, also expired ones that nobody has swept yet."""
    rows = paging.within(select(ResourceLock).order_by(col(ResourceLock.resource_key)))
    return await read_page(rows, select(func.count()).select_from(ResourceLock), paging)


def _view(worker: WorkerCheckin, running: int, now: datetime) -> WorkerView:
    meta: dict[str, Any] = worker.worker_meta or {}
    consumers = {str(name): int(size) for name, size in meta.get("consumers", {}).items()}
    slots = sum(consumers.values())
    memory: dict[str, int] = meta.get("memory", {})
    return WorkerView(
        id=worker.id,
        hostname=worker.hostname,
        pid=worker.pid,
        first_checkin=worker.first_checkin,
        last_checkin=worker.last_checkin,
        seconds_since_checkin=(now - worker.last_checkin).total_seconds(),
        consumers=consumers,
        slots=slots,
        running_steps=running,
        utilization=min(running / slots, 1.0) if slots else 0.0,
        resident_bytes=memory.get("own"),
        processes_resident_bytes=memory.get("children"),
    )
