"""The worker: consumer pools, and the duties that keep a fleet of workers honest.

    pool "parse"   claim ─▶ queue ─▶ slots ─┐
    pool "store"   claim ─▶ queue ─▶ slots ─┼─▶ finisher ─▶ one transaction for many results
    pool "*"       claim ─▶ queue ─▶ slots ─┘
    duties         check in · refresh locks · reap the dead · stop cancelled steps · sweep locks · deliver events ·
                   look for more urgent work · deliver signals · end overdue runs · prune history ·
                   start what is scheduled

Each of these loops is a duty (`duties.py`): no error ends it. If one ends all the same, the worker is not to be trusted
any more: `troubles` tells the health check, and `at_work` ends its block with WorkerLost.

`stop` follows five points: no more claims, and what has not begun goes back; wait for what has; cancel the rest, which
goes back too; drain the lifecycle bus; check out. Nothing here is global: two workers live in one process without
knowing of each other, each in the wiring in which it was made.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Final, Self
from uuid import uuid4

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.resident import resident_of
from soliplex.ingester.lib.wf import operations, outside
from soliplex.ingester.lib.wf.abandoned import PROCESS, Abandoned
from soliplex.ingester.lib.wf.duties import Duties, Duty
from soliplex.ingester.lib.wf.errors import WorkerLost
from soliplex.ingester.lib.wf.execution import Executor, now_in_utc
from soliplex.ingester.lib.wf.extensions import extensions_loaded, own_pools, tidy
from soliplex.ingester.lib.wf.finisher import Finisher, count_finished
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wf.lifecycle import LifecycleBus
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE, Doubts
from soliplex.ingester.lib.wf.memory import give_memory_back
from soliplex.ingester.lib.wf.metrics import LoggingMetrics, Metrics, count_from_zero
from soliplex.ingester.lib.wf.operations.claim import Claim, Pool, priorities_of_ready, this_process
from soliplex.ingester.lib.wf.operations.definitions import learn_definitions
from soliplex.ingester.lib.wf.operations.finish import Finished, Following
from soliplex.ingester.lib.wf.operations.locks import refresh_locks_of_leases
from soliplex.ingester.lib.wf.operations.pruning import Retention
from soliplex.ingester.lib.wf.operations.signals import deliver_signals
from soliplex.ingester.lib.wf.operations.task_queues import fail_lost_tasks
from soliplex.ingester.lib.wf.operations.workers import Reaped
from soliplex.ingester.lib.wf.pools import ConsumerPool, Holding, PoolServices
from soliplex.ingester.lib.wf.presence import Presence, Silences, presence_for
from soliplex.ingester.lib.wf.probes import Probe
from soliplex.ingester.lib.wf.progress import BETWEEN_WRITES, Reports, write_reports
from soliplex.ingester.lib.wf.tracing import tracing_of
from soliplex.ingester.lib.wf.tracing.ended import EndedRuns
from soliplex.ingester.lib.wf.wakeup import SIGNALS, Doorbell
from soliplex.ingester.lib.wiring import current_wiring

_log = logging.getLogger(__name__)

CATCH_ALL: Final = "*"
SWEEP_LOCKS_EVERY: Final = 60.0
GIVE_MEMORY_BACK_EVERY: Final = 5.0
PRUNE_EVERY: Final = 300.0
START_DUE_EVERY: Final = 1.0
LOOK_FOR_ABANDONED_EVERY: Final = 60.0
BETWEEN_LOOKS_FOR_MORE_URGENT: Final = 0.05
BETWEEN_LOOKS_FOR_SIGNALS: Final = 0.01


def default_consumers(settings: Settings) -> dict[str, int]:
    """The pools of a worker that is given none: those that extensions name, and one for all other types of steps."""
    return {**own_pools(settings), CATCH_ALL: settings.worker_task_count}


def _setting[T](read: Callable[[Settings], T]) -> T:
    """A field that comes from the settings of the current wiring where it is not given."""
    return field(default_factory=lambda: read(current_wiring().settings), metadata={"setting": read})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How a worker works. What is not given comes from the settings."""

    consumers: Mapping[str, int] = _setting(default_consumers)
    """Slots by type of step; "*" takes the types that have no pool of their own."""
    batch_size: int = _setting(lambda settings: settings.worker_batch_size)
    poll_interval: float = _setting(lambda settings: settings.worker_poll_interval_seconds)
    checkin_interval: float = _setting(lambda settings: settings.worker_checkin_interval)
    checkin_timeout: float = _setting(lambda settings: settings.worker_checkin_timeout)
    liveness_interval: float = _setting(lambda settings: settings.worker_liveness_interval_seconds)
    step_timeout: float | None = _setting(lambda settings: settings.step_timeout_seconds or None)
    lock_ttl: float = _setting(lambda settings: settings.resource_lock_ttl_seconds)
    step_patience: float = _setting(lambda settings: settings.step_patience_seconds)
    processes: int = _setting(lambda settings: settings.isolation_processes)
    memory_limit_mib: int | None = _setting(lambda settings: settings.step_memory_limit_mib or None)
    retention: Retention = _setting(Retention.of)  # noqa: RUF009  it makes a field
    """How long the history is kept."""

    @classmethod
    def from_settings(cls, settings: Settings, **given: Any) -> Self:
        """As these settings say, but for what is given."""
        said = {each.name: each.metadata["setting"](settings) for each in fields(cls) if each.name not in given}
        return cls(**said | given)


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
        self._wiring = current_wiring()
        self._metrics = metrics or LoggingMetrics()
        self._clock = clock
        self._probe = probe
        self._presence: Presence | None = None
        self._has_peers = True
        self._has_worked = False
        self._suspects: set[str] = set()
        self._silences = Silences(self.config.checkin_timeout)
        self._leaving = asyncio.Event()
        self._duties = Duties(self.id, probe=probe)
        self._recurring: list[asyncio.Task[None]] = []
        self._delivering: list[asyncio.Task[None]] = []
        self._claimers: list[asyncio.Task[None]] = []
        self._slots: list[asyncio.Task[None]] = []
        self._finishing: list[asyncio.Task[None]] = []
        self._processes = ProcessPool(processes=self.config.processes, memory_limit_mib=self.config.memory_limit_mib)
        self._doubts = Doubts()
        self._bus = LifecycleBus(
            self.id,
            clock=clock,
            doubts=self._doubts,
            probe=probe,
            timeout=self.config.step_timeout,
            patience=timedelta(seconds=self.config.step_patience),
        )
        self._tracing = self._wiring.made(tracing_of)
        self._ended_runs = None if self._tracing is None else EndedRuns(self._tracing)
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
        self._from_others = Doorbell()
        """Rung when others make work ready, whoever they are: in this process or another."""
        self._rings_seen = 0
        self._signal_bell = Doorbell(lambda kind: kind == SIGNALS)
        self._signal_rings_seen = 0
        self._reports = current_wiring().kept(Reports)
        self._abandoned = Abandoned(timedelta(seconds=self.config.step_patience), clock)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being executed or waits to be."""
        return all(pool.is_idle for pool in self._pools) and not self._finisher.backlog

    def accepts(self, step_type: str) -> bool:
        """Whether a pool of this worker takes steps of the type."""
        return any(pool.accepts(step_type) for pool in self._pools)

    @property
    def troubles(self) -> list[str]:
        """What keeps the worker from its work, for a health check; nothing, where all is well."""
        return self._duties.troubles

    @property
    def duties(self) -> Duties:
        """Every loop of this worker."""
        return self._duties

    @property
    def lost(self) -> WorkerLost | None:
        """What to say once a loop has ended that nobody told to end."""
        return WorkerLost(self.id, self._duties.lost) if self._duties.lost else None

    def when_lost(self, call: Callable[[], object] | None) -> None:
        """Have this called when a loop ends that nobody told to end: whoever owns the worker has to stop it."""
        self._duties.on_lost = call

    async def start(self) -> None:
        """Announce the worker and begin to work, in the wiring in which it was made."""
        with self._wiring.bound():
            await self._start()

    async def _start(self) -> None:
        self._leaving.clear()
        self._presence = presence_for(self.id, self._hear_of_work, is_idle=lambda: self.is_idle, duties=self._duties)
        await self._presence.announce()
        try:
            # A worker that starts under a name may find steps under it: they were claimed by a dead worker, since this
            # one now holds the lock that the other would hold if it lived.
            await operations.give_back_all(self.id, now=self._clock())
            await extensions_loaded()
            await learn_definitions()
            await self._check_in()
            # Before the first claim: there may have been no worker when these runs reached their deadline.
            await self._end_overdue_runs()
        except BaseException:
            await self._leave()
            raise
        self._count_from_zero()
        start = self._duties.start
        self._finishing = [start(self._finisher.duty())]
        self._slots = [start(pool.slot_duty()) for pool in self._pools for _ in range(pool.size)]
        self._claimers = [start(pool.claim_duty()) for pool in self._pools]
        self._delivering = [start(self._bus.duty())]
        self._recurring = [
            start(Duty(name="urgent", round=self._look_for_more_urgent, is_over=self._leaving.is_set)),
            start(Duty(name="signals", round=self._deliver_signals, is_over=self._leaving.is_set)),
            start(Duty(name="progress", round=self._write_progress, is_over=self._leaving.is_set)),
            self._every(self.config.checkin_interval, "check in", self._check_in),
            self._every(self.config.lock_ttl / 2, "refresh locks", self._refresh_locks),
            self._every(self.config.liveness_interval, "look around", self._look_around),
            self._every(self.config.liveness_interval, "deadlines", self._end_overdue_runs),
            self._every(self.config.liveness_interval, "orphans", self._cancel_orphaned_runs),
            self._every(min(self.config.checkin_timeout / 4, 60), "reap silent", self._reap_silent),
            self._every(LOOK_FOR_ABANDONED_EVERY, "abandoned", self._fail_abandoned),
            self._every(self.config.liveness_interval, "lost tasks", self._fail_lost_tasks),
            self._every(SWEEP_LOCKS_EVERY, "sweep locks", self._sweep_locks),
            self._every(PRUNE_EVERY, "prune", self._prune),
            self._every(START_DUE_EVERY, "schedules", self._start_due),
            self._every(GIVE_MEMORY_BACK_EVERY, "give memory back", self._give_memory_back),
        ]
        if self._ended_runs is not None:
            traces = Duty(name="traces", round=self._ended_runs.send_next, is_over=self._leaving.is_set)
            self._recurring.append(start(traces))
        _log.info("worker %s started with pools %s", self.id, dict(self.config.consumers))

    def _count_from_zero(self) -> None:
        try:
            count_from_zero(self._metrics, self.config.consumers)
        except Exception:  # noqa: BLE001  whoever counts may be out of order: the work goes on
            _log.exception("worker %s: its counters cannot be told", self.id)

    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109  the time in-flight steps are given
        """Stop: see the module's five points."""
        with self._wiring.bound():
            await self._stop(timeout)

    async def _stop(self, timeout: float) -> None:  # noqa: ASYNC109  as stop
        for pool in self._pools:
            await pool.stop_claiming()
        self._wake()  # pools that wait for work end now, and not at their next look
        await self._duties.end(self._claimers, 5.0)
        await self._duties.end(self._slots, timeout)
        await self._drain_finisher()
        self._bus.stop_claiming()
        await self._duties.end(self._delivering, 5.0)
        self._leaving.set()
        self._from_others.ring()  # the duty that waits for news from others ends now, too
        self._signal_bell.ring()
        self._reports.wake()
        if self._ended_runs is not None:
            self._ended_runs.wake()
        await self._duties.end(
            self._recurring, 5.0
        )  # a check-in that is cancelled may yet be made, after the check-out
        await self._bus.drain(min(timeout, 5.0))
        await self._duties.end(self._finishing)
        await self._processes.stop()
        await self._send_traces()
        await self._leave()
        _log.info("worker %s stopped", self.id)

    async def _drain_finisher(self) -> None:
        """Wait for the results to be recorded. Steps whose results take longer than a few seconds go back."""
        try:
            async with asyncio.timeout(0 if self._finisher.duty().name in self._duties.lost else 10):
                await self._finisher.drain()
        except TimeoutError:
            _log.warning("worker %s leaves results unrecorded: their steps go back", self.id)

    async def _send_traces(self) -> None:
        """Send what is traced and not sent yet. A receiver or database that is away keeps nobody from stopping."""
        try:
            if self._ended_runs is not None:
                await self._ended_runs.finish()
        except TROUBLES_OF_THE_DATABASE as exc:
            _log.warning("worker %s leaves the spans of runs unsent: %s", self.id, exc)

    async def _leave(self) -> None:
        try:
            if self._finisher.backlog or self._duties.lost:
                # Once this worker is checked out, nobody would look for what it still holds. If the database is away,
                # the worker's row stays, and the reaper of another finds it.
                await operations.give_back_all(self.id, now=self._clock())
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
            patience=timedelta(seconds=self.config.step_patience),
            probe=self._probe,
            tracing=self._tracing,
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
        """Let the pools look for work: of these types, if they are known."""
        for pool in self._pools:
            pool.doorbell.ring(types)

    def _hear_of_work(self, types: Collection[str] | None) -> None:
        """Tell the pools that other workers or processes have made work ready."""
        self._wake(types)
        self._from_others.ring(types)
        self._signal_bell.ring(types)

    async def _look_for_more_urgent(self) -> None:
        """Once others have made work ready: see whether it is more urgent than what the pools hold."""
        self._rings_seen = await self._from_others.wait(self._rings_seen, self.config.poll_interval)
        if any(pool.holds_ahead for pool in self._pools):
            ready = await priorities_of_ready()
            for pool in self._pools:
                pool.hear_of(ready)
        await self._is_leaving_within(BETWEEN_LOOKS_FOR_MORE_URGENT)

    async def _deliver_signals(self) -> None:
        """Once there may be new signals: bring them to the steps that wait for them, until there are none."""
        self._signal_rings_seen = await self._signal_bell.wait(self._signal_rings_seen, self.config.poll_interval)
        while (finished := await deliver_signals(now=self._clock())) is not None:
            self._on_finished(finished)
            count_finished(self._metrics, finished)
            if await self._is_leaving_within(BETWEEN_LOOKS_FOR_SIGNALS):
                return

    def _on_claimed(self, claim: Claim) -> None:
        if claim.has_deliveries:
            self._bus.wake()

    def _following(self) -> Following | None:
        """The claim to make along with recording results: of the types whose pools run short of work."""
        types = frozenset[str]().union(*(pool.types_to_follow() for pool in self._pools))
        return Following(self.id, str(uuid4()), types) if types else None

    def _on_finished(self, finished: Finished) -> None:
        self._has_worked = True
        if finished.followers:  # first of all: these steps are claimed for us, and no other worker executes them
            for pool in self._pools:
                pool.follow([step for step in finished.followers if pool.accepts(step.type)])
        of_any_type = bool(finished.released or finished.errored or finished.freed_keys)
        if of_any_type or finished.ready_types:
            self._wake(None if of_any_type else finished.ready_types)
            for pool in self._pools:
                pool.hear_of(finished.ready)
            if self._has_peers and self._presence is not None:
                self._presence.tell_others()
        if finished.has_deliveries:
            self._bus.wake()
        if finished.has_signals:
            self._signal_bell.ring()
        if self._ended_runs is not None and finished.ended_runs:
            self._ended_runs.note(finished.ended_runs)
        for pool in self._pools:
            pool.look_again()

    def _every(self, seconds: float, name: str, action: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        async def act_in_time() -> None:
            if not await self._is_leaving_within(seconds):
                await action()

        return self._duties.start(Duty(name=name, round=act_in_time, is_over=self._leaving.is_set))

    async def _is_leaving_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._leaving.wait()
        except TimeoutError:
            return False

    async def _check_in(self) -> None:
        memory = resident_of(os.getpid())
        meta = {
            "consumers": dict(self.config.consumers),
            "memory": memory._asdict() if memory else {},
            PROCESS: this_process(),
        }
        await operations.check_in(self.id, hostname=socket.gethostname(), pid=os.getpid(), meta=meta, now=self._clock())

    async def _refresh_locks(self) -> None:
        """Put off the expiry of our locks. Steps whose lock was taken by another are cancelled."""
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
        await self._stop_what_is_not_wanted()
        if in_doubt := self._doubts.leases():
            await operations.give_back_leases(self.id, in_doubt, now=self._clock())
        self._count(await outside.reap_expired(now=self._clock()))
        checkins = await operations.last_checkins()
        if self.id not in checkins:
            await self._check_in()  # we were given up, wrongly; without a check-in, we would be so again and again
        others = sorted(checkins.keys() - {self.id})
        self._has_peers = bool(others)
        dead = await self._presence.dead_among(others) if others and self._presence else set[str]()
        # A worker is taken for dead when two looks find its lock free: one whose session broke takes its lock again in
        # between.
        confirmed, self._suspects = dead & self._suspects, dead
        if confirmed:
            self._count(await operations.reap_workers(self.id, confirmed, now=self._clock()))

    async def _stop_what_is_not_wanted(self) -> None:
        """Stop steps whose run is to stop, and those that are no longer ours: their results would be dropped."""
        running = {holding for pool in self._pools for holding in pool.running}
        if not running:
            return
        held = await operations.steps_held(self.id)
        lost = running - {Holding(step.id, step.lease) for step in held}
        stopping = {Holding(step.id, step.lease) for step in held if step.is_stopping}
        for pool in self._pools:
            pool.cancel(stopping)
            if stopped := pool.cancel(lost):
                self._metrics.incr("lease_lost", stopped, phase="look")

    async def _end_overdue_runs(self) -> None:
        while (finished := await operations.end_overdue_runs(now=self._clock())) is not None:
            self._on_finished(finished)
            count_finished(self._metrics, finished)
            await self._stop_what_is_not_wanted()

    async def _cancel_orphaned_runs(self) -> None:
        await operations.cancel_orphaned_runs(now=self._clock())

    async def _fail_abandoned(self) -> None:
        await self._abandoned.fail_those_due()

    async def _fail_lost_tasks(self) -> None:
        patience = timedelta(seconds=self.config.step_patience)
        await fail_lost_tasks(patience, now=self._clock())

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

    async def _write_progress(self) -> None:
        """Once handlers have said how far they have come: write it down, and let a second pass."""
        await self._reports.wait()
        await write_reports(self._reports.take(), self._clock())
        await self._is_leaving_within(BETWEEN_WRITES)

    async def _start_due(self) -> None:
        await operations.start_due_schedules(now=self._clock())

    async def _prune(self) -> None:
        """Go on with deletions that were cut short, delete what was kept for long enough, and what belonged to it."""
        await operations.resume_deletions(now=self._clock())
        if not self.config.retention.keeps_all:
            pruned = await operations.prune_history(self.config.retention, now=self._clock())
            if pruned.groups:
                _log.info("worker %s pruned %d run groups with %d steps", self.id, pruned.groups, pruned.steps)
        await tidy()

    async def _give_memory_back(self) -> None:
        if self._has_worked and self.is_idle:
            self._has_worked = False
            await asyncio.to_thread(give_memory_back)


@asynccontextmanager
async def at_work(worker: Worker, *, stop_timeout: float = 30.0) -> AsyncGenerator[Worker]:
    """The worker, at work for the time of the block, and stopped after it.

    If one of its loops ends though nobody told it to, the block is cancelled, the worker is stopped as far as it can
    be, and WorkerLost is raised in place of what the block was doing.
    """
    block = asyncio.current_task()
    assert block is not None
    cancelled_before = block.cancelling()
    worker.when_lost(block.cancel)
    try:
        await worker.start()
        try:
            yield worker
        finally:
            worker.when_lost(None)
            await worker.stop(stop_timeout)
    except asyncio.CancelledError:
        if worker.lost is None or block.uncancel() > cancelled_before:
            raise  # somebody else has cancelled the block, too
        raise worker.lost from None


def _accepted(name: str, pinned: frozenset[str], batch_size: int) -> Pool:
    if name == CATCH_ALL:
        return Pool(excluded=pinned | {SIGNALS}, keyed_limit=batch_size)
    return Pool(types=frozenset({name}), keyed_limit=batch_size)


def _module_worker() -> list[Worker]:
    """The one worker of a wiring's callers that keep none of their own."""
    return []


async def start_worker(config: WorkerConfig | None = None) -> Worker:
    """Start the one worker of callers that keep none of their own. New code makes a `Worker`."""
    started = current_wiring().kept(_module_worker)
    if not started:
        worker = Worker(config)
        await worker.start()
        started.append(worker)
    return started[0]


async def stop_worker(timeout: float = 30.0) -> None:  # noqa: ASYNC109  as Worker.stop
    """Stop the worker that `start_worker` started."""
    started = current_wiring().kept(_module_worker)
    while started:
        await started.pop().stop(timeout)


def get_worker_id() -> str | None:
    """The id of the worker that `start_worker` started."""
    started = current_wiring().kept(_module_worker)
    return started[0].id if started else None
