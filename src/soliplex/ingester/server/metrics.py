"""`GET /metrics`: what the server and its worker count, for Prometheus, and how much is waiting.

Several server processes (`si-cli serve --workers N`) count into files of a folder they share, so that whichever of them
is asked answers for all.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Response
from sqlmodel import col, func, select

from soliplex.ingester.lib.meanwhile import meanwhile
from soliplex.ingester.lib.models import Database, ResourceLock, RunGroup, WorkerCheckin
from soliplex.ingester.lib.resident import Resident, resident_of
from soliplex.ingester.lib.wf.views import FIRST_ROWS, list_workers, running_steps_by_worker
from soliplex.ingester.segmenter.jobs.views import count_jobs

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

router = APIRouter(tags=["operation"])

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
BETWEEN_MEASUREMENTS: Final = 0.5
_BUCKETS: Final = (0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300)


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
async def metrics() -> Response:
    """Counters and histograms of requests and steps, and gauges of what the database holds now."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415  only where it is used

    held = await _held_now()
    # In a thread: the text grows with the routes, statuses and step types that were ever counted.
    texts = await asyncio.to_thread(lambda: generate_latest(_counted()) + generate_latest(held))
    return Response(texts, media_type=CONTENT_TYPE_LATEST)


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Note the end of a request, under its route and not its path: paths are without number."""
    counter, histogram = _requests_of(method, route, int(status))
    counter.inc()
    histogram.observe(seconds)


@lru_cache
def _requests_of(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    counter, histogram = _requests()
    return counter.labels(method, route, str(status)), histogram.labels(method, route)


@asynccontextmanager
async def loop_delay_measured() -> AsyncGenerator[None]:
    """Meanwhile, note twice a second how much later than it asked for a task has its turn."""
    async with meanwhile(_measure_loop_delay(_loop_delay())):
        yield


async def _measure_loop_delay(histogram: Histogram) -> None:
    loop = asyncio.get_running_loop()
    while True:
        asked_for = loop.time() + BETWEEN_MEASUREMENTS
        await asyncio.sleep(BETWEEN_MEASUREMENTS)
        histogram.observe(max(0.0, loop.time() - asked_for))


@cache
def _loop_delay() -> Histogram:
    from prometheus_client import Histogram  # noqa: PLC0415

    return Histogram("soliplex_event_loop_delay_seconds", "How late the event loop was.", buckets=_BUCKETS)


@cache
def _requests() -> tuple[Counter, Histogram]:
    from prometheus_client import Counter, Histogram  # noqa: PLC0415

    return (
        Counter("soliplex_http_requests", "Requests answered.", ("method", "route", "status")),
        Histogram("soliplex_http_request_seconds", "Time to answer.", ("method", "route"), buckets=_BUCKETS),
    )


def _counted() -> CollectorRegistry:
    from prometheus_client import REGISTRY, CollectorRegistry, multiprocess  # noqa: PLC0415

    if FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # pyright: ignore[reportUnknownMemberType]
    return registry


async def _held_now() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry, Gauge  # noqa: PLC0415

    registry = CollectorRegistry()
    for name, (text, value) in (await _gauges()).items():
        Gauge(f"soliplex_{name}", text, registry=registry).set(value)
    resident = Gauge(
        "soliplex_worker_resident_bytes",
        "Memory of the workers on this machine.",
        ("worker", "part"),
        registry=registry,
    )
    for worker, memory in (await _memory_of_workers()).items():
        resident.labels(worker=worker, part="worker").set(memory.own)
        resident.labels(worker=worker, part="processes").set(memory.children)
    jobs = Gauge("soliplex_segmenter_jobs", "Segmentation jobs by status.", ("status",), registry=registry)
    for status, count in (await count_jobs()).items():
        jobs.labels(status=status).set(count)
    return registry


async def _memory_of_workers() -> dict[str, Resident]:
    """The memory of each worker on this machine, and of the processes in which it reads documents."""
    workers = (await list_workers(paging=FIRST_ROWS)).items
    here = [worker for worker in workers if worker.hostname == socket.gethostname() and worker.pid is not None]
    found = {worker.id: resident_of(worker.pid or 0, since=worker.first_checkin) for worker in here}
    return {worker: memory for worker, memory in found.items() if memory is not None}


async def _gauges() -> dict[str, tuple[str, float]]:
    unfinished = col(RunGroup.status).in_(["PENDING", "RUNNING"])
    counts: dict[str, tuple[str, Any]] = {
        "workers": ("Workers that have checked in.", select(func.count()).select_from(WorkerCheckin)),
        "resource_locks": ("Resource locks that are held.", select(func.count()).select_from(ResourceLock)),
        "unfinished_groups": (
            "Run groups that have not ended.",
            select(func.count()).select_from(RunGroup).where(unfinished),
        ),
        "unfinished_runs": ("Runs that have not ended.", select(func.sum(RunGroup.remaining_runs)).where(unfinished)),
    }
    async with Database.session(read_only=True) as session:
        found: dict[str, tuple[str, float]] = {
            name: (text, (await session.exec(query)).one() or 0) for name, (text, query) in counts.items()
        }
    found["running_steps"] = "Steps that workers hold.", sum((await running_steps_by_worker()).values())
    return found
