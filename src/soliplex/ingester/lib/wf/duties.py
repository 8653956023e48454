"""The duties of a worker: every loop it has, each run by the one function that lets no error end it.

    worker.start ─▶ Duties.start(Duty("finisher", round, ...)) ─▶ round ─▶ round ─▶ round ...
                                                                    │ raised
                                                                    ▼
                                                     said in the log, a pause, the next round

A duty is a `round` that is called again and again. What a round raises is told and followed by a pause that grows; the
duty itself goes on. A duty that has ended all the same, though nobody told it to, is lost: the worker cannot be trusted
any more, and its owner is told (`Duties.on_lost`).

No other module of the engine makes a task that outlives its caller: `tests/unit/test_duties.py` holds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.lib.wf.probes import Probe

_log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
ENOUGH: Final = 10
"""After so many failed rounds in a row a duty is in trouble: it goes on, and the health check tells of it."""


def _never() -> bool:
    return False


async def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Something a worker does again and again."""

    name: str
    round: Callable[[], Awaitable[None]]
    is_over: Callable[[], bool] = _never
    """Asked before each round: whether the duty has been told to end. One that is never told is cancelled."""
    at_end: Callable[[], Awaitable[None]] = _nothing
    """Called once, however the duty ends."""


class Duties:
    """Runs the duties of one worker."""

    def __init__(self, worker_id: str, *, probe: Probe | None = None) -> None:
        self.on_lost: Callable[[], object] | None = None
        """Called when a duty has been lost."""
        self._worker_id = worker_id
        self._probe = probe
        self._tasks: dict[asyncio.Task[None], Duty] = {}
        self._told_to_end: set[asyncio.Task[None]] = set()
        self._failing: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        """The duties that have ended though nobody told them to, and what ended them."""

    @property
    def troubles(self) -> list[str]:
        """What a health check has to tell: the duties that are lost, and those that do nothing but fail."""
        return [
            *(f"the duty {name!r} has ended: {cause}" for name, cause in self.lost.items()),
            *(f"the duty {name!r} fails again and again: {cause}" for name, cause in self._failing.items()),
        ]

    @property
    def names(self) -> list[str]:
        """The duties under way; those of slots are named alike."""
        return [duty.name for duty in self._tasks.values()]

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        return frozenset(self._tasks)

    def start(self, duty: Duty) -> asyncio.Task[None]:
        """Begin with a duty; `end` ends it."""
        task = asyncio.create_task(self._run(duty), name=f"{self._worker_id} {duty.name}")
        self._tasks[task] = duty
        task.add_done_callback(self._ended)
        return task

    async def end(self, tasks: Iterable[asyncio.Task[None]], seconds: float = 0) -> None:
        """Wait this long for duties that have been told to end; then cancel those that are left."""
        ending = list(tasks)
        self._told_to_end.update(ending)
        if ending and seconds:
            await asyncio.wait(ending, timeout=seconds)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _run(self, duty: Duty) -> None:
        try:
            failures = 0
            while not duty.is_over():
                failures = 0 if await self._make_a_round(duty, failures) else failures + 1
        finally:
            await duty.at_end()

    async def _make_a_round(self, duty: Duty, failures: int) -> bool:
        """Call the round; says whether it went well. If it raises, the error is logged and a pause follows."""
        try:
            if self._probe is not None:
                await self._probe.reach(f"round of {duty.name}")
            await duty.round()
        except asyncio.CancelledError:
            if not self._is_stray():
                raise
            _log.exception("worker %s: the duty %r was cancelled from within and goes on", self._worker_id, duty.name)
            return False
        except TROUBLES_OF_THE_DATABASE as exc:
            _log.warning("worker %s: %s has to wait for the database: %s", self._worker_id, duty.name, exc)
        except Exception as exc:  # noqa: BLE001  whatever it is, no error may end a duty
            _log.exception("worker %s: an error in the duty %r, which goes on", self._worker_id, duty.name)
            if failures + 1 >= ENOUGH:
                self._failing[duty.name] = repr(exc)
        else:
            if failures:
                self._failing.pop(duty.name, None)
            return True
        await asyncio.sleep(min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE))
        return False

    def _is_stray(self) -> bool:
        """Whether the current task was cancelled by something it called, and not by us, nor with the whole loop.

        A handler may cancel the task that calls it: that is the step's error, and must not cost a slot. When an event
        loop is closed, it cancels all tasks, and whoever resists keeps the process from ending.
        """
        task = asyncio.current_task()
        assert task is not None
        others = self._tasks.keys() - {task}
        if task in self._told_to_end or all(other.cancelling() or other.done() for other in others):
            return False
        while task.cancelling():
            task.uncancel()
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        duty = self._tasks.pop(task)
        was_told = task in self._told_to_end or duty.is_over()
        self._told_to_end.discard(task)
        cause = asyncio.CancelledError() if task.cancelled() else task.exception()
        if was_told:
            if cause is not None and not task.cancelled():
                _log.error("worker %s: the duty %r ended with %r", self._worker_id, duty.name, cause, exc_info=cause)
            return
        self.lost[duty.name] = repr(cause)
        _log.critical(
            "worker %s: the duty %r has ended (%r): this worker must not go on",
            self._worker_id,
            duty.name,
            cause,
            exc_info=cause,
        )
        if self.on_lost is not None:
            self.on_lost()
