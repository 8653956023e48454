"""The worker: consumer pools, and the duties that keep a fleet of workers honest.

    pool "parse"   claim ─▶ queue ─▶ slots ─┐
    pool "store"   claim ─▶ queue ─▶ slots ─┼─▶ finisher ─▶ one transaction for many results
    pool "*"       claim ─▶ queue ─▶ slots ─┘
    duties         check in · refresh locks · reap the dead · stop cancelled steps · sweep locks · deliver events

`stop` follows five points: no more claims, and what has not begun goes back; wait for what has; cancel the rest, which
goes back too; drain the lifecycle bus; check out. Nothing here is global: two workers live in one process without
knowing of each other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from soliplex.ingester.lib.config import Settings, get_settings
from soliplex.ingester.lib.resident import resident_of
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.execution import Executor, now_in_utc
from soliplex.ingester.lib.wf.finisher import Finisher
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wf.lifecycle import LifecycleBus
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE, Doubts
from soliplex.ingester.lib.wf.memory import give_memory_back
from soliplex.ingester.lib.wf.metrics import LoggingMetrics, Metrics
from soliplex.ingester.lib.wf.operations.claim import Claim, Pool
from soliplex.ingester.lib.wf.operations.finish import Finished, Following
from soliplex.ingester.lib.wf.operations.locks import refresh_locks_of_leases
from soliplex.ingester.lib.wf.operations.workers import Reaped
from soliplex.ingester.lib.wf.pools import ConsumerPool, PoolServices
from soliplex.ingester.lib.wf.presence import Presence, Silences, presence_for
from soliplex.ingester.lib.wf.probes import Probe

_log = logging.getLogger(__name__)

CATCH_ALL: Final = "*"
SWEEP_LOCKS_EVERY: Final = 60.0
GIVE_MEMORY_BACK_EVERY: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How a worker works. What is not given comes from the settings."""

    consumers: Mapping[str, int] = field(default_factory=lambda: default_consumers(get_settings()))
    """Slots by step type; "*" takes the types that have no pool of their own."""
    batch_size: int = field(default_factory=lambda: get_settings().worker_batch_size)
    poll_interval: float = field(default_factory=lambda: get_settings().worker_poll_interval_seconds)
    checkin_interval: float = field(default_factory=lambda: get_settings().worker_checkin_interval)
    checkin_timeout: float = field(default_factory=lambda: get_settings().worker_checkin_timeout)
    liveness_interval: float = field(default_factory=lambda: get_settings().worker_liveness_interval_seconds)
    step_timeout: float | None = field(default_factory=lambda: get_settings().step_timeout_seconds or None)
    lock_ttl: float = field(default_factory=lambda: get_settings().resource_lock_ttl_seconds)
    processes: int = field(default_factory=lambda: get_settings().isolation_processes)
    memory_limit_mib: int | None = field(default_factory=lambda: get_settings().step_memory_limit_mib or None)


def default_consumers(settings: Settings) -> dict[str, int]:
    """The pools of a worker that is given none."""
    return {
        "parse": settings.docling_concurrency,
        "store": settings.worker_task_count,
        CATCH_ALL: settings.worker_task_count,
    }


class Worker:
    """Claims and executes steps until it is stopped."""

    def __init__(
        self,
        config: WorkerConfig | None = None,
        *,
        metrics: Metrics | None = None,
        worker_id: str | None = None,
        clock: Callable[[], datetime] = now_in_utc,
        probe: Probe | None = None,
    ) -> None:
        self.id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self.config = config or WorkerConfig()
        self._metrics = metrics or LoggingMetrics()
        self._clock = clock
        self._probe = probe
        self._presence: Presence | None = None
        self._has_peers = True
        self._has_worked = False
        self._suspects: set[str] = set()
        self._silences = Silences(self.config.checkin_timeout)
        self._leaving = asyncio.Event()
        self._duties: list[asyncio.Task[None]] = []
        self._delivering: list[asyncio.Task[None]] = []
        self._claimers: list[asyncio.Task[None]] = []
        self._slots: list[asyncio.Task[None]] = []
        self._finishing: asyncio.Task[None] | None = None
        self._processes = ProcessPool(processes=self.config.processes, memory_limit_mib=self.config.memory_limit_mib)
        self._doubts = Doubts()
        self._bus = LifecycleBus(
            self.id, clock=clock, doubts=self._doubts, probe=probe, timeout=self.config.step_timeout
        )
        self._finisher = Finisher(
            metrics=self._metrics,
            probe=probe,
            clock=clock,
            on_finished=self._on_finished,
            following=self._following,
            expects_more=lambda: any(pool.running for pool in self._pools),
            doubts=self._doubts,
        )
        self._pools = self._make_pools()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being executed or waits to be."""
        return all(pool.is_idle for pool in self._pools) and not self._finisher.backlog

    async def start(self) -> None:
        """Announce the worker and begin to work."""
        self._leaving.clear()
        self._presence = presence_for(self.id, self._wake, is_idle=lambda: self.is_idle)
        await self._presence.announce()
        try:
            # What is held under our name was another's, who is dead: we have the lock that it would hold.
            await operations.give_back_all(self.id, now=self._clock())
            await self._check_in()
        except BaseException:
            await self._presence.leave()
            raise
        self._finishing = asyncio.create_task(self._finisher.run(), name=f"{self.id} finisher")
        self._slots = [
            asyncio.create_task(pool.consume_forever(), name=f"{self.id} {pool.name}")
            for pool in self._pools
            for _ in range(pool.size)
        ]
        self._claimers = [asyncio.create_task(pool.claim_forever(), name=f"{self.id} claim") for pool in self._pools]
        self._delivering = [asyncio.create_task(self._bus.run(), name=f"{self.id} lifecycle")]
        self._duties = [
            self._every(self.config.checkin_interval, self._check_in),
            self._every(self.config.lock_ttl / 2, self._refresh_locks),
            self._every(self.config.liveness_interval, self._look_around),
            self._every(min(self.config.checkin_timeout / 4, 60), self._reap_silent),
            self._every(SWEEP_LOCKS_EVERY, self._sweep_locks),
            self._every(GIVE_MEMORY_BACK_EVERY, self._give_memory_back),
        ]
        _log.info("worker %s started with pools %s", self.id, dict(self.config.consumers))

    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109  the time in-flight steps are given
        """Stop: see the module's five points."""
        for pool in self._pools:
            await pool.stop_claiming()
        self._wake()  # idle claimers need not wait for their next look
        await self._end(self._claimers, 5.0)
        await self._end(self._slots, timeout)
        await self._drain_finisher()
        self._bus.stop_claiming()
        await self._end(self._delivering, 5.0)
        self._leaving.set()
        await self._end(self._duties, 5.0)  # a check-in that is cancelled may yet be made, after the check-out
        await self._bus.drain(min(timeout, 5.0))
        await self._end([self._finishing] if self._finishing else [], 0)
        await self._processes.stop()
        await self._leave()
        _log.info("worker %s stopped", self.id)

    async def _end(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        """Wait for tasks, then cancel those that are left."""
        if not tasks:
            return
        if seconds:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                _log.error("worker %s: a task ended with %r", self.id, result, exc_info=result)

    async def _drain_finisher(self) -> None:
        """What cannot be recorded within a few seconds is left to the reaper of another worker."""
        try:
            async with asyncio.timeout(10):
                await self._finisher.drain()
        except TimeoutError:
            _log.warning("worker %s leaves %d results unrecorded", self.id, self._finisher.backlog)

    async def _leave(self) -> None:
        try:
            await operations.check_out(self.id)
        except TROUBLES_OF_THE_DATABASE as exc:
            _log.warning("worker %s cannot check out: %s", self.id, exc)
        if self._presence is not None:
            await self._presence.leave()

    def _make_pools(self) -> list[ConsumerPool]:
        executor = Executor(
            processes=self._processes,
            default_timeout=self.config.step_timeout,
            clock=self._clock,
            probe=self._probe,
        )
        services = PoolServices(
            worker_id=self.id,
            executor=executor,
            finisher=self._finisher,
            doubts=self._doubts,
            metrics=self._metrics,
            probe=self._probe,
            clock=self._clock,
            on_claimed=self._on_claimed,
            batch_size=self.config.batch_size,
            poll_interval=self.config.poll_interval,
            lock_ttl=timedelta(seconds=self.config.lock_ttl),
        )
        pinned = frozenset(self.config.consumers) - {CATCH_ALL}
        return [
            ConsumerPool(name, size, _accepted(name, pinned, self.config.batch_size), services)
            for name, size in self.config.consumers.items()
            if size > 0
        ]

    def _wake(self, types: Collection[str] | None = None) -> None:
        """There is work: of these types, if they are known."""
        for pool in self._pools:
            pool.doorbell.ring(types)

    def _on_claimed(self, claim: Claim) -> None:
        if claim.has_deliveries:
            self._bus.wake()

    def _following(self) -> Following | None:
        """The claim to make along with recording results: of the types whose pools run short of work."""
        types = frozenset[str]().union(*(pool.types_to_follow() for pool in self._pools))
        return Following(self.id, str(uuid4()), types) if types else None

    def _on_finished(self, finished: Finished) -> None:
        self._has_worked = True
        of_any_type = bool(finished.released or finished.errored or finished.freed_keys)
        if of_any_type or finished.ready_types:
            self._wake(None if of_any_type else finished.ready_types)
            if self._has_peers and self._presence is not None:
                self._presence.tell_others()
        if finished.has_deliveries:
            self._bus.wake()
        for pool in self._pools:
            if finished.followers:
                pool.follow([step for step in finished.followers if pool.accepts(step.type)])
            pool.look_again()

    def _every(self, seconds: float, duty: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        async def repeat() -> None:
            while not await self._is_leaving_within(seconds):
                try:
                    await duty()
                except TROUBLES_OF_THE_DATABASE as exc:
                    _log.warning("worker %s: %s", self.id, exc)
                except Exception:  # noqa: BLE001  no error may end a duty for good
                    _log.exception("worker %s: an unexpected error", self.id)

        return asyncio.create_task(repeat(), name=f"{self.id} {getattr(duty, '__name__', duty)}")

    async def _is_leaving_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._leaving.wait()
        except TimeoutError:
            return False

    async def _check_in(self) -> None:
        memory = resident_of(os.getpid())
        meta = {"consumers": dict(self.config.consumers), "memory": memory._asdict() if memory else {}}
        await operations.check_in(self.id, hostname=socket.gethostname(), pid=os.getpid(), meta=meta, now=self._clock())

    async def _refresh_locks(self) -> None:
        """Put off the expiry of our locks. One that another has taken meanwhile ends the steps that relied on it."""
        leases = {lease for pool in self._pools for lease in pool.leases_with_lock}
        ttl = timedelta(seconds=self.config.lock_ttl)
        lost = leases - await refresh_locks_of_leases(sorted(leases), ttl=ttl, now=self._clock())
        for pool in self._pools:
            # A lease whose last result has just been recorded has given its lock back by itself.
            stopped = pool.cancel_leases(lost & pool.leases_with_lock)
            if stopped:
                self._metrics.incr("lease_lost", stopped, phase="lock")

    async def _look_around(self) -> None:
        """Stop what was cancelled, and give back what a worker held whose process has ended."""
        if any(pool.running for pool in self._pools):
            to_stop = await operations.steps_to_stop(self.id)
            for pool in self._pools:
                pool.cancel_steps(to_stop)
        if in_doubt := self._doubts.leases():
            await operations.give_back_leases(self.id, in_doubt, now=self._clock())
        checkins = await operations.last_checkins()
        if self.id not in checkins:
            await self._check_in()  # we were given up, wrongly; without a check-in, we would be so again and again
        others = sorted(checkins.keys() - {self.id})
        self._has_peers = bool(others)
        dead = await self._presence.dead_among(others) if others and self._presence else set[str]()
        # Two looks: a worker whose session broke takes its lock again within a moment.
        confirmed, self._suspects = dead & self._suspects, dead
        if confirmed:
            self._count(await operations.reap_workers(self.id, confirmed, now=self._clock()))

    async def _reap_silent(self) -> None:
        silent = self._silences.note(await operations.last_checkins(), time.monotonic())
        self._count(await operations.reap_workers(self.id, silent, now=self._clock()))

    def _count(self, reaped: Reaped) -> None:
        if not reaped.workers:
            return
        _log.warning("worker %s reaped %s: %d steps go back", self.id, ", ".join(reaped.workers), reaped.steps)
        self._metrics.incr("worker_reaped", len(reaped.workers))
        if reaped.steps:
            self._metrics.incr("step_reset_by_reaper", reaped.steps)
        if reaped.failed:
            self._metrics.incr("step_failed", reaped.failed)
        if self._presence is not None:
            self._presence.forget(reaped.workers)

    async def _sweep_locks(self) -> None:
        swept = await operations.sweep_expired_resource_locks(now=self._clock())
        if swept:
            self._metrics.incr("resource_lock_swept", len(swept))

    async def _give_memory_back(self) -> None:
        if self._has_worked and self.is_idle:
            self._has_worked = False
            await asyncio.to_thread(give_memory_back)


def _accepted(name: str, pinned: frozenset[str], batch_size: int) -> Pool:
    if name == CATCH_ALL:
        return Pool(excluded=pinned, keyed_limit=batch_size)
    return Pool(types=frozenset({name}), keyed_limit=batch_size)


_module_worker: list[Worker] = []


async def start_worker(config: WorkerConfig | None = None) -> Worker:
    """Start the one worker of callers that keep none of their own. New code makes a `Worker`."""
    if not _module_worker:
        worker = Worker(config)
        await worker.start()
        _module_worker.append(worker)
    return _module_worker[0]


async def stop_worker(timeout: float = 30.0) -> None:  # noqa: ASYNC109  as Worker.stop
    """Stop the worker that `start_worker` started."""
    while _module_worker:
        await _module_worker.pop().stop(timeout)


def get_worker_id() -> str | None:
    """The id of the worker that `start_worker` started."""
    return _module_worker[0].id if _module_worker else None
