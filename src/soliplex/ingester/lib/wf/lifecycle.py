"""The lifecycle bus: calls the handlers of events, beside the steps and never in their way.

Events are rows (an outbox) written by the transaction that changed the state. The bus claims those that have a handler,
so each is called by one worker, also when another dies between the commit and the call; a failed call is repeated as
often as its handler's `retries` say. A worker that cannot find the handler, because only another process has it or it
is not installed here, gives the event back, as it does with steps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from random import random
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.models import Database, RunGroup, RunStep, WorkflowRun
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import EventHandler, WorkflowDefinition
from soliplex.ingester.lib.wf.duties import Duty
from soliplex.ingester.lib.wf.errors import CannotExecute, PermanentError
from soliplex.ingester.lib.wf.execution import LONGEST_MESSAGE, Search, is_cancelled, message_of, storable_text
from soliplex.ingester.lib.wf.handlers import Handler, resolve
from soliplex.ingester.lib.wf.isolation import run_inline
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE, Doubts, insist
from soliplex.ingester.lib.wf.operations import Delivery
from soliplex.ingester.lib.wf.operations.definitions import find_workflow
from soliplex.ingester.lib.wf.probes import Probe
from soliplex.ingester.lib.wf.retries import Backoff, usual_backoff
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.wakeup import Doorbell

_log = logging.getLogger(__name__)

AT_ONCE: Final = 8
LONGEST_WAIT: Final = 5.0


class LifecycleBus:
    """Delivers events to their handlers."""

    def __init__(
        self,
        worker_id: str,
        *,
        clock: Callable[[], datetime],
        doubts: Doubts | None = None,
        probe: Probe | None = None,
        backoff: Backoff | None = None,
        timeout: float | None = None,
        patience: timedelta = timedelta(),
    ) -> None:
        self._worker_id = worker_id
        self._clock = clock
        self._doubts = doubts or Doubts()
        self._probe = probe
        self._timeout = timeout
        self._patience = patience
        """How long an event waits for a worker that can handle it before it fails."""
        self._backoff = backoff or usual_backoff()
        self._doorbell = Doorbell()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def wake(self) -> None:
        """Let the bus look for events to deliver."""
        self._doorbell.ring()

    def duty(self) -> Duty:
        return Duty(name="lifecycle", round=self.deliver_once, is_over=lambda: self._stopping)

    async def deliver_once(self) -> None:
        """Begin to deliver what is due, or wait for something that is."""
        rings = self._doorbell.rings
        room = AT_ONCE - len(self._tasks)
        deliveries = await self._claim(room) if room else []
        try:
            for delivery in deliveries:
                self._start(delivery)
        except Exception:
            self._doubts.add(deliveries[0].lease)  # claimed events whose delivery was not begun would be held by nobody
            raise
        if not deliveries:
            await self._doorbell.wait(rings, await self._time_to_next())

    async def _claim(self, room: int) -> list[Delivery]:
        lease = str(uuid4())
        try:
            return await operations.claim_events(self._worker_id, room, lease=lease, now=self._clock())
        except BaseException:
            self._doubts.add(lease)
            raise

    def stop_claiming(self) -> None:
        """Let the duty end after its round.

        Cancelled in the middle of a claim, it would leave events that nobody delivers.
        """
        self._stopping = True
        self._doorbell.ring()

    async def drain(self, seconds: float) -> None:
        """Let the calls under way end; those that take longer are given back."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _start(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._doorbell.ring()
        if not task.cancelled() and (exc := task.exception()) is not None:
            _log.error("an event could not be delivered: %s", exc, exc_info=exc)

    async def _time_to_next(self) -> float:
        due = await operations.next_event_due()
        if due is None:
            return LONGEST_WAIT
        return min(max((due - self._clock()).total_seconds(), 0.01), LONGEST_WAIT)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            exc = await self._attempt(delivery)
            # While this worker lives, no other worker records this delivery, so the attempt to record it may be
            # repeated.
            await insist(lambda: self._record(delivery, exc))
        except asyncio.CancelledError:
            with suppress(*TROUBLES_OF_THE_DATABASE):  # if that fails, the reaper gives the delivery back
                await asyncio.shield(operations.release_event(delivery, now=self._clock()))
            raise

    async def _attempt(self, delivery: Delivery) -> BaseException | None:
        """Call the handler; gives what it raised."""
        try:
            await self._reach("before_delivery")
            await call_event_handler(delivery, timeout=self._timeout)
            await self._reach("after_delivery")
        except asyncio.CancelledError as exc:
            if is_cancelled():
                raise
            return exc
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:  # noqa: BLE001  a handler may raise anything, exit, or panic in Rust: its error
            return exc
        return None

    async def _record(self, delivery: Delivery, exc: BaseException | None) -> None:
        now = self._clock()
        if exc is None:
            await operations.complete_event(delivery, now=now)
            return
        if isinstance(exc, CannotExecute):
            search = Search.of(delivery.meta, now)
            if now - search.since < self._patience:
                await self._give_back(delivery, exc, search, now)
                return
        _log.warning("handler %r of %s: %s", delivery.handler_name, delivery.event, exc)
        again_at = now + self._backoff.delay_after(delivery.retry + 1, random=random)
        await operations.error_event(delivery, message_of(exc), available_at=again_at, now=now)

    async def _give_back(self, delivery: Delivery, exc: CannotExecute, search: Search, now: datetime) -> None:
        if not search.times:
            _log.warning("event %d (%s) waits for a worker that can handle it: %s", delivery.id, delivery.event, exc)
        message = storable_text(f"waits for a worker that can handle it: {exc}")[:LONGEST_MESSAGE]
        await operations.postpone_event(delivery, message, search.noted(now), available_at=now + search.pause, now=now)

    async def _reach(self, point: str) -> None:
        if self._probe is not None:
            await self._probe.reach(point)


async def call_event_handler(delivery: Delivery, *, timeout: float | None) -> None:  # noqa: ASYNC109  as a step's
    """Call the handler of an event."""
    group, run, step = await insist(lambda: _load(delivery))
    assert group is not None, "an event is deleted with its group"
    workflow = await insist(lambda: _workflow_of(group))
    definition = _definition(workflow, delivery)
    handler = resolve(definition.method)
    available: dict[str, Any] = {
        "event": delivery.event,
        "event_id": delivery.id,
        "attempt": delivery.retry + 1,
        "error": delivery.message,
        "run_group": group,
        "run_group_id": group.id,
        "batch_id": group.batch_id,
        "workflow_run": run,
        "workflow_run_id": delivery.run_id,
        "doc_hash": run.doc_id if run else None,
        "run_step": step,
        "step_id": delivery.step_id,
        "workflow_def": workflow,
        **definition.parameters,
    }
    await run_inline(handler.function, _chosen(handler, available), timeout=timeout)


async def _load(delivery: Delivery) -> tuple[RunGroup | None, WorkflowRun | None, RunStep | None]:
    async with Database.session(read_only=True) as session:
        group = await session.get(RunGroup, delivery.group_id)
        run = await session.get(WorkflowRun, delivery.run_id) if delivery.run_id else None
        step = await session.get(RunStep, delivery.step_id) if delivery.step_id else None
    return group, run, step


async def _workflow_of(group: RunGroup) -> WorkflowDefinition:
    return stored().listening(group.workflow_definition_id) or await find_workflow(group.workflow_definition_id)


def _definition(workflow: WorkflowDefinition, delivery: Delivery) -> EventHandler:
    for handler in workflow.handlers_for(delivery.event):
        if handler.name == delivery.handler_name:
            return handler
    raise PermanentError(
        f"workflow {workflow.id!r} no longer has a handler {delivery.handler_name!r} of {delivery.event}"
    )


def _chosen(handler: Handler, available: dict[str, Any]) -> dict[str, Any]:
    if handler.takes_any:
        return available
    missing = [name for name in handler.wanted if name not in available and name not in handler.optional]
    if missing:
        raise PermanentError(f"handler {handler.method!r} asks for {', '.join(missing)}, which an event does not have")
    return {name: available[name] for name in handler.wanted if name in available}
