"""A pool of consumers: one task that claims, and as many slots as the pool is large that execute.

How many steps are claimed ahead depends on how long they take. Steps that last a microsecond are claimed by the
hundred, so that the database is asked rarely; of steps that last longer than the horizon, no more are claimed than
there are free slots, so that none waits here while another worker is idle.

Among what is held, the most urgent comes first. While something more urgent than what is held is ready, the pool claims
as if it held nothing less urgent, takes nothing along, and gives back what it then holds too much of.

Steps that share a call share its time and its fate. So what a handler calls heavy goes alone, and after the others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import uuid4

from soliplex.ingester.lib.wf.duties import Duty
from soliplex.ingester.lib.wf.execution import Executor, definition_of, errored
from soliplex.ingester.lib.wf.finisher import Finisher
from soliplex.ingester.lib.wf.handlers import Handler, Weights, resolve
from soliplex.ingester.lib.wf.links import Doubts, SteadyLink, insist
from soliplex.ingester.lib.wf.metrics import Metrics
from soliplex.ingester.lib.wf.operations.claim import Claim, Pool, claim_steps
from soliplex.ingester.lib.wf.operations.definitions import load_versions
from soliplex.ingester.lib.wf.probes import Probe
from soliplex.ingester.lib.wf.task_queues import method_of
from soliplex.ingester.lib.wf.wakeup import Doorbell
from soliplex.ingester.lib.wf.work import ClaimedStep, Company, Released

_log = logging.getLogger(__name__)

HORIZON: Final = 0.05
"""Seconds of work to hold ahead: several times what a claim takes."""
FORGETTING: Final = 0.98
"""The factor by which the longest duration seen fades with every step."""
BACKLOG: Final = 4
"""Groups of results that may wait to be recorded before claiming pauses."""
SLICE: Final = 0.01
"""Seconds after which a slot lets other tasks of the event loop run, also where its handlers never wait."""


@dataclass(slots=True)
class PoolServices:
    """What all pools of a worker share."""

    worker_id: str
    executor: Executor
    finisher: Finisher
    doubts: Doubts
    metrics: Metrics
    probe: Probe | None
    clock: Callable[[], datetime]
    on_claimed: Callable[[Claim], None]
    batch_size: int
    poll_interval: float
    lock_ttl: timedelta


class Holding(NamedTuple):
    """A step under a lease. A step that was taken away and claimed again may be under way twice, under two leases."""

    step_id: int
    lease: str


class ConsumerPool:
    """Claims and executes the steps of some types."""

    def __init__(self, name: str, size: int, accepted: Pool, services: PoolServices) -> None:
        self.name = name
        self.size = size
        self.running: dict[Holding, asyncio.Task[None]] = {}
        """The task that executes each step under way."""
        self.leases_with_lock: set[str] = set()
        self._accepted = accepted
        # Not durable: if the machine fails and the commit of a claim is lost, the steps are ready again, and nothing is
        # lost.
        self._link = SteadyLink(durable=False)
        self._services = services
        self.doorbell = Doorbell(accepted.accepts)
        self._queue: deque[list[ClaimedStep]] = deque()
        """Assignments, which are what a slot takes at once: steps that share a call, else a single step; under a lock,
        all that were claimed with it, whatever their kinds."""
        self._queued = 0
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._told = set[str]()
        """The types of which the doorbell has told that some are ready."""
        self._types: set[str] = set()
        """The types that this pool has claimed so far."""
        self._typical = 0.0
        self._ahead = size
        """How many steps to hold that wait for a slot."""
        self._call_size = 1
        """The most steps that one call takes: a handler that takes many is to be given many."""
        self._more_urgent: int | None = None
        """The priority of what is ready and more urgent than something held, as far as is known."""
        self._stopping = False
        self._to_cancel: set[Holding] = set()

    @property
    def is_idle(self) -> bool:
        return not self.running and not self._queue

    @property
    def holds_ahead(self) -> bool:
        """Whether steps wait here for a slot."""
        return bool(self._queue)

    def claim_duty(self) -> Duty:
        return Duty(
            name=f"claim {self.name}",
            round=self.claim_once,
            is_over=lambda: self._stopping,
            at_end=self._link.close,
        )

    def slot_duty(self) -> Duty:
        return Duty(name=f"slot {self.name}", round=self.consume, is_over=lambda: self._stopping and not self._queue)

    async def claim_once(self) -> None:
        """Keep the slots supplied: claim as many as they have room for, or wait until there is room, or work."""
        wanted = self._wanted()
        if wanted == 0:
            self._room.clear()
            await self._room.wait()
            return
        rings = self.doorbell.rings
        was_urgent, self._more_urgent = self._more_urgent is not None, None
        try:
            claim = await self._claim(wanted, self._told)
        except Exception:
            self._services.metrics.incr("claim_error", pool=self.name)
            raise
        self._told = set()
        if claim.steps:
            await self._take_over(claim)
            if was_urgent:
                self._give_back_surplus()
            await asyncio.sleep(0)  # the slots begin before the next look is prepared
        elif not claim.lost_race:
            await self.doorbell.wait(rings, self._time_to_wait(claim))
            self._told = self.doorbell.take_told()

    def _time_to_wait(self, claim: Claim) -> float:
        """Until the next step is due; at most until the next look of the safety net."""
        if claim.next_due is None:
            return self._services.poll_interval
        until_due = (claim.next_due - self._services.clock()).total_seconds()
        return min(max(until_due, 0.001), self._services.poll_interval)

    async def consume(self) -> None:
        """One slot: execute what is queued, for a slice of time; or wait until there is something."""
        if not self._queue:
            self._room.set()
            self._work.clear()
            await self._work.wait()
        slice_ends = time.monotonic() + SLICE
        while self._queue:
            if time.monotonic() > slice_ends:
                await asyncio.sleep(0)
                return
            steps = self._next()
            self._queued -= len(steps)
            if self._queued * 2 <= self._ahead:
                self._room.set()
            try:
                if steps[0].resource_key is None:
                    await self._execute(steps)
                else:
                    await self._execute_under_lock(steps)
            except Exception:  # noqa: BLE001  a mistake of ours must not cost the slot, nor keep the steps
                _log.exception("pool %r cannot execute", self.name)
                self._release(steps)

    def _next(self) -> list[ClaimedStep]:
        """The assignment that has waited longest, and what has joined the queue since that one call can take along."""
        steps = self._queue.popleft()
        calling = _calling(steps)
        room = calling.size - len(steps)
        if room <= 0 or steps[0].resource_key is not None:
            return steps
        others = deque[list[ClaimedStep]]()
        for each in self._queue:
            if len(each) <= room and each[0].resource_key is None and _calling(each).kind == calling.kind:
                steps, room = [*steps, *each], room - len(each)
            else:
                others.append(each)
        self._queue = others
        return steps

    async def stop_claiming(self) -> None:
        """Give back what has not begun, and let the slots end after what has."""
        self._stopping = True
        self._room.set()
        while self._queue:
            steps = self._queue.popleft()
            self._queued -= len(steps)
            self._release(steps)
        self._work.set()

    def accepts(self, step_type: str) -> bool:
        return self._accepted.accepts(step_type)

    def types_to_follow(self) -> set[str]:
        """The types of which steps may be claimed in the transaction that makes them ready.

        Steps of runs that have begun go before others: they may fill the pool up to twice what it holds ahead, and it
        then claims nothing else until it has worked them off.
        """
        has_room = self._queued < 2 * self._ahead and self._more_urgent is None
        return self._types if has_room and not self._stopping else set()

    def follow(self, steps: list[ClaimedStep]) -> None:
        """Take steps that were claimed as soon as they became ready."""
        if steps:
            self._accept_or_release(steps, None)
            self._services.metrics.incr("claim_success", len(steps), pool=self.name)

    def look_again(self) -> None:
        """Look for work again: results were recorded, so there may be room for more steps."""
        self._room.set()

    def hear_of(self, ready: Mapping[str, int]) -> None:
        """Steps of these types are ready, with these priorities: those that are more urgent must not wait for room."""
        if not self._queue:
            return
        highest = max((priority for kind, priority in ready.items() if self.accepts(kind)), default=None)
        if highest is not None and highest > _urgency(self._queue[-1]):
            self._more_urgent = highest
            self._room.set()

    def cancel(self, holdings: Collection[Holding]) -> int:
        """Stop executing these steps; gives how many of them were being executed here."""
        own = self.running.keys() & holdings
        self._cancel(own)
        return len(own)

    def cancel_leases(self, leases: set[str]) -> int:
        """Stop executing the steps of these leases; gives how many of them were being executed here."""
        holdings = {holding for holding in self.running if holding.lease in leases}
        self._cancel(holdings)
        self.leases_with_lock -= leases
        return len(holdings)

    def _cancel(self, holdings: set[Holding]) -> None:
        for holding in holdings - self._to_cancel:
            self._to_cancel.add(holding)
            self.running[holding].cancel()

    def _wanted(self) -> int:
        if self._more_urgent is None:
            held, wanted = self._queued, self._capacity() - self._queued
        else:
            held = self._held_as_urgent_as(self._more_urgent)
            wanted = self._capacity_for_urgent() - held
        if held and wanted * 2 < self._ahead:
            return 0  # wait until half of it is used up: a claim costs the same for one step as for fifty
        if self._services.finisher.backlog > BACKLOG * self._services.batch_size:
            return 0  # results come faster than they can be recorded
        return max(wanted, 0)

    def _capacity(self) -> int:
        """How many steps may wait for a slot."""
        free = self.size - len(self.running)
        return min(free + self._ahead, self._services.batch_size)

    def _capacity_for_urgent(self) -> int:
        """How many urgent steps may wait.

        There is one for each slot at least: a slot takes a queued step before the pool can claim another.
        """
        return max(self._capacity(), self.size)

    def _held_as_urgent_as(self, priority: int) -> int:
        return sum(len(steps) for steps in self._queue if _urgency(steps) >= priority)

    async def _claim(self, wanted: int, told: set[str]) -> Claim:
        services = self._services
        started = time.perf_counter()
        services.metrics.incr("claim_attempts", pool=self.name)
        lease = str(uuid4())
        try:
            claim = await claim_steps(
                services.worker_id,
                self._accepted,
                wanted,
                lease=lease,
                link=self._link,
                now=services.clock(),
                lock_ttl=services.lock_ttl,
                told=told,
            )
            services.metrics.observe("claim_duration", time.perf_counter() - started, pool=self.name)
            if claim.steps:
                services.metrics.incr("claim_success", len(claim.steps), pool=self.name)
            else:
                services.metrics.incr("claim_lost_race" if claim.lost_race else "claim_idle", pool=self.name)
        except BaseException:
            services.doubts.add(lease)
            raise
        return claim

    async def _take_over(self, claim: Claim) -> None:
        try:
            if self._services.probe is not None:
                await self._services.probe.reach("after_claim")
            self._services.on_claimed(claim)
            await load_versions({step.run["definition_id"] for step in claim.steps})
        except BaseException:
            self._release(claim.steps)
            raise
        self._accept_or_release(claim.steps, claim.resource_key)

    def _accept_or_release(self, steps: list[ClaimedStep], resource_key: str | None) -> None:
        try:
            self._accept(steps, resource_key)
        except Exception:  # noqa: BLE001  whatever is the matter with these steps, others are to be claimed
            _log.exception("pool %r cannot take what it has claimed: it goes back", self.name)
            self._release(steps)

    def _accept(self, steps: list[ClaimedStep], resource_key: str | None) -> None:
        """Queue what was claimed; what is not to be executed goes back."""
        if self._stopping:
            self._release(steps)
            return
        cancelled = [step for step in steps if step.run["cancel_requested_at"] is not None]
        if cancelled:
            self._release(cancelled)
            steps = [step for step in steps if step.run["cancel_requested_at"] is None]
        if not steps:
            return
        if resource_key is not None:
            self.leases_with_lock.add(steps[0].lease)
        if len(steps) > 1:
            Company(steps)
        self._types |= {step.type for step in steps}
        kinds = _by_kind(steps)
        self._call_size = max(self._call_size, *[_calling(each).size for each in kinds])
        if resource_key is not None:
            self._enqueue([[step for each in kinds for step in each]])
        else:
            for each in kinds:
                self._enqueue(_slices(each, _calling(each).size))
        self._queued += len(steps)
        self._work.set()

    def _enqueue(self, assignments: list[list[ClaimedStep]]) -> None:
        """Queue assignments that are equally urgent after those that are as urgent."""
        place, urgency = len(self._queue), _urgency(assignments[0])
        while place and _urgency(self._queue[place - 1]) < urgency:
            place -= 1
        if place == len(self._queue):
            self._queue.extend(assignments)
        else:
            for offset, assignment in enumerate(assignments):
                self._queue.insert(place + offset, assignment)

    def _give_back_surplus(self) -> None:
        """Give back what more urgent steps leave no room for: another worker may have some."""
        while self._queued > self._capacity_for_urgent() and self._queue[-1][0].resource_key is None:
            steps = self._queue.pop()
            self._queued -= len(steps)
            self._release(steps)

    async def _execute_under_lock(self, steps: list[ClaimedStep]) -> None:
        """Execute what was claimed with a resource, one kind after the other."""
        kinds = [list(each) for _, each in groupby(steps, key=lambda step: step.calling)]
        try:
            for number, each in enumerate(kinds):
                await self._execute(each, kinds[number + 1 :])
        finally:
            self.leases_with_lock.discard(steps[0].lease)

    async def _execute(self, steps: list[ClaimedStep], later: Sequence[list[ClaimedStep]] = ()) -> None:
        """Execute steps of one kind: in few calls where the handler takes many, else one step after the other."""
        calling = _calling(steps)
        weights = None if calling.handler is None else calling.handler.batch_weights
        if weights is not None and len(steps) > 1:
            calls = await self._weighed(steps, weights, calling.size, later)
        else:
            calls = [steps] if len(steps) <= calling.size else _slices(steps, calling.size)
        for number, call in enumerate(calls):
            if steps[0].resource_key is not None and steps[0].lease not in self.leases_with_lock:
                self._release_all(calls[number:])  # another worker holds the lock
                break
            started = time.perf_counter()
            rest = [*calls[number + 1 :], *later]
            results = await self._while_held(call, self._services.executor.execute(call), rest=rest)
            if results is not None:
                self._services.finisher.submit(results)
                self._note_duration(call[0].type, (time.perf_counter() - started) / len(call), len(call))

    async def _weighed(
        self, steps: list[ClaimedStep], weights: Weights, size: int, later: Sequence[list[ClaimedStep]]
    ) -> list[list[ClaimedStep]]:
        """The calls for the steps by their weight; none, if they were cancelled meanwhile."""
        try:
            found = await self._while_held(steps, insist(lambda: weights.weigh(steps)), rest=later)
            return [] if found is None else calls_by_weight(steps, found, most=weights.most, size=size)
        except Exception:  # noqa: BLE001  what is not known to be light must not be put together
            _log.exception("pool %r cannot weigh the steps of %r: each goes alone", self.name, steps[0].name)
            return _slices(steps, 1)

    async def _while_held[R](
        self, steps: list[ClaimedStep], work: Coroutine[Any, Any, R], *, rest: Sequence[list[ClaimedStep]] = ()
    ) -> R | None:
        """Await work on these steps; None if the steps were cancelled meanwhile. Cancelled steps go back."""
        task = asyncio.current_task()
        assert task is not None
        holdings = [Holding(step.id, step.lease) for step in steps]
        self.running.update(dict.fromkeys(holdings, task))
        try:
            return await work
        except asyncio.CancelledError as exc:
            was_cancelled = not self._to_cancel.isdisjoint(holdings)
            if was_cancelled or self._stopping:
                self._release(steps)
            else:
                # The handler cancelled the task that called it: that is an error of the step and must not end the slot.
                self._services.finisher.submit([errored(step, exc) for step in steps])
            if self._stopping or not was_cancelled:
                self._release_all(rest)
                raise
            return None
        finally:
            for holding in holdings:
                del self.running[holding]
            if self._to_cancel.intersection(holdings):
                self._to_cancel.difference_update(holdings)
                _forget_cancellations(task)  # steps were cancelled, not this slot

    def _note_duration(self, step_type: str, seconds: float, steps: int) -> None:
        """Note how long each of so many steps has taken."""
        typical = max(seconds, self._typical * FORGETTING)
        if typical != self._typical:
            self._typical = typical
            by_time = math.floor(self.size * HORIZON / typical)
            self._ahead = min(self._services.batch_size, max(by_time, self.size * (self._call_size - 1)))
        for _ in range(steps):
            self._services.metrics.observe("step_duration", seconds, step_type=step_type)

    def _release(self, steps: list[ClaimedStep]) -> None:
        self._services.finisher.submit(
            [Released(step_id=step.id, run_id=step.run_id, lease=step.lease) for step in steps]
        )

    def _release_all(self, calls: Sequence[list[ClaimedStep]]) -> None:
        self._release([step for call in calls for step in call])


def _forget_cancellations(task: asyncio.Task[None]) -> None:
    """Each step of a call that is cancelled cancels the task; a handler may have caught it, too."""
    while task.cancelling():
        task.uncancel()


class Kind(NamedTuple):
    """What steps must have in common to share a call."""

    workflow_id: str
    definition_id: int | None
    """Versions of a workflow may say different things of a step."""
    name: str
    is_task: bool
    priority: int
    """An urgent step waits for no other."""


@dataclass(frozen=True, slots=True, eq=False)
class Calling:
    """How steps of one kind are called."""

    kind: Kind
    handler: Handler | None
    """None where no handler is called, or where it cannot be found."""
    size: int
    """How many of the steps one call takes."""


def _by_kind(steps: list[ClaimedStep]) -> list[list[ClaimedStep]]:
    """The steps by kind. What their workflows say of them is looked up once for each."""
    grouped: dict[Kind, list[ClaimedStep]] = {}
    last, group = None, list[ClaimedStep]()
    for step in steps:
        # Compared as it comes, since steps of one kind mostly stand together.
        facts = (
            step.workflow_id,
            step.run["definition_id"],
            step.name,
            step.parent_id is not None,
            step.row["priority"],
        )
        if facts != last:
            last, group = facts, grouped.setdefault(Kind(*facts), [])
        group.append(step)
    for kind, group in grouped.items():
        first, handler = group[0], _handler_of(group[0])
        calling = Calling(kind, handler, 1 if handler is None else handler.batch_limit or 1)
        for step in group:
            step.definition, step.deciders, step.calling = first.definition, first.deciders, calling
    return list(grouped.values())


def _calling(steps: list[ClaimedStep]) -> Calling:
    calling = steps[0].calling
    assert calling is not None
    return calling


def _urgency(steps: list[ClaimedStep]) -> int:
    return steps[0].row["priority"]


def _handler_of(step: ClaimedStep) -> Handler | None:
    try:
        definition = definition_of(step)
        if definition.map and step.parent_id is None:
            return None
        return resolve(definition.method if definition.queue is None else method_of(definition))
    except Exception:  # noqa: BLE001  a workflow that is gone, a module that cannot be imported: executing them tells
        return None


def _slices(steps: list[ClaimedStep], size: int) -> list[list[ClaimedStep]]:
    return [steps[start : start + size] for start in range(0, len(steps), size)]


def calls_by_weight[S](steps: Sequence[S], weights: Sequence[int], *, most: int, size: int) -> list[list[S]]:
    """The steps in calls of at most `size` that weigh at most `most` together, the lightest first.

    A step that weighs more by itself is a call of its own.
    """
    calls, total = list[list[S]](), 0
    for weight, step in sorted(zip(weights, steps, strict=True), key=itemgetter(0)):
        if not calls or len(calls[-1]) == size or total + weight > most:
            calls.append([])
            total = 0
        calls[-1].append(step)
        total += weight
    return calls
