"""`GET /metrics`: what the server and its worker count, for Prometheus, and how much is waiting.

A server, its processes for steps, and several servers (`si-cli serve --workers N`) count into files of a folder they
share, so that whichever of them is asked answers for all. A worker of its own answers in the same way (`watching.py`).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Response
from sqlmodel import col, func, select

from soliplex.ingester.lib.meanwhile import meanwhile
from soliplex.ingester.lib.models import Database, ResourceLock, RunGroup, WorkerCheckin
from soliplex.ingester.lib.resident import Resident, resident_of
from soliplex.ingester.lib.wf.views import (
    FIRST_ROWS,
    WorkerView,
    list_workers,
    queue_depths,
    running_steps_by_worker,
)
from soliplex.ingester.segmenter.jobs.views import count_jobs

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram, Metric

router = APIRouter(tags=["operation"])

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
SEVERAL: Final = "SOLIPLEX_SERVED_BY_SEVERAL"
"""Set where several server processes answer: what one of them tells of itself would be taken for all of them."""
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
    """Note the end of a request, under its route and not under its path: there may be any number of paths."""
    counter, histogram = _requests_of(method, route, int(status))
    counter.inc()
    histogram.observe(seconds)


@lru_cache
def _requests_of(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    counter, histogram = _requests()
    return counter.labels(method, route, str(status)), histogram.labels(method, route)


@asynccontextmanager
async def loop_delay_measured() -> AsyncGenerator[None]:
    """For the time of the block, note twice a second how late the event loop is in giving a task its turn."""
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
    from prometheus_client import (  # noqa: PLC0415
        REGISTRY,
        CollectorRegistry,
        PlatformCollector,
        ProcessCollector,
        multiprocess,
    )

    if FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    PlatformCollector(registry)
    if SEVERAL not in os.environ:
        ProcessCollector(registry=registry)
    multiprocess.MultiProcessCollector(registry)  # pyright: ignore[reportUnknownMemberType]
    return registry


async def _held_now() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(_Held(await _gauges()))
    return registry


class _Held:
    """Gauges that were read a moment ago. Not `Gauge`s, which would be joined with those of other processes."""

    def __init__(self, gauges: Sequence[_Gauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        for gauge in self._gauges:
            family = GaugeMetricFamily(f"soliplex_{gauge.name}", gauge.text, labels=gauge.labels)
            for labels, value in gauge.values.items():
                family.add_metric(labels, value)
            yield family


@dataclass(frozen=True, slots=True)
class _Gauge:
    """What is held now of one kind: a number for each combination of labels."""

    name: str
    text: str
    values: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()


async def _gauges() -> list[_Gauge]:
    return [*await _totals(), *await _of_queues(), *await _of_workers(), await _jobs()]


async def _of_queues() -> list[_Gauge]:
    queues = await queue_depths()
    oldest = {(each.step_type,): each.oldest.waits for each in queues if each.oldest is not None}
    ready: dict[tuple[str, ...], float] = {(each.step_type,): each.ready for each in queues}
    labels = ("step_type",)
    return [
        _Gauge("ready_steps", "Steps ready to be claimed, counted up to ten thousand of a type.", ready, labels),
        _Gauge("oldest_ready_step_seconds", "How long the first of the ready steps has been ready.", oldest, labels),
    ]


async def _of_workers() -> list[_Gauge]:
    """What workers hold, and the memory of those on this machine and of the processes in which they read documents."""
    workers = (await list_workers(paging=FIRST_ROWS)).items
    slots: dict[tuple[str, ...], float] = {(each.id,): each.slots for each in workers}
    running: dict[tuple[str, ...], float] = {(each.id,): each.running_steps for each in workers}
    resident: dict[tuple[str, ...], float] = {}
    for worker, memory in _memory_of(workers).items():
        resident |= {(worker, "worker"): memory.own, (worker, "processes"): memory.children}
    return [
        _Gauge("worker_slots", "Steps that a worker executes at once.", slots, ("worker",)),
        _Gauge("worker_running_steps", "Steps that a worker holds.", running, ("worker",)),
        _Gauge("worker_resident_bytes", "Memory of the workers on this machine.", resident, ("worker", "part")),
    ]


async def _jobs() -> _Gauge:
    counts: dict[tuple[str, ...], float] = {(status,): count for status, count in (await count_jobs()).items()}
    return _Gauge("segmenter_jobs", "Segmentation jobs by status.", counts, ("status",))


def _memory_of(workers: Sequence[WorkerView]) -> dict[str, Resident]:
    here = [worker for worker in workers if worker.hostname == socket.gethostname() and worker.pid is not None]
    found = {worker.id: resident_of(worker.pid or 0, since=worker.first_checkin) for worker in here}
    return {worker: memory for worker, memory in found.items() if memory is not None}


async def _totals() -> list[_Gauge]:
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
        found = [
            _Gauge(name, text, {(): (await session.exec(query)).one() or 0}) for name, (text, query) in counts.items()
        ]
    running = sum((await running_steps_by_worker()).values())
    return [*found, _Gauge("running_steps", "Steps that workers hold.", {(): running})]
