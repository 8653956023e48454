"""Watches event loops: how much processor time each callback takes, during which the loop does nothing else.

Processor time of the loop's own thread, and not time on the wall: a busy machine makes no callback longer. Collecting
garbage is left out, since most of what a process of tests holds is not the server's. Where a test and the application
share a loop, only the steps of the application's coroutines count.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST = 0.1
"""Seconds for which one callback may hold the loop."""
KNOWN_WORK = 0.006
"""Seconds of processor time that `_seconds_of_known_work` takes on a quiet machine of two cores."""
SLOWEST = 2.0
"""What two processes on one core make of it. No machine is an excuse for more."""
DEEPEST = 25
"""Calls that are shown of one that took longer."""
OURS = str(Path("soliplex") / "ingester")
"""In the path of the code whose tasks are the application's."""


def slowness() -> float:
    """By how much this machine takes longer at this moment than the one that the bound was set on; at least 1.

    Processor time grows too where another process shares the core and its caches.
    """
    measured = min(_seconds_of_known_work() for _ in range(3)) / KNOWN_WORK
    return min(max(1.0, measured), SLOWEST)


def _seconds_of_known_work() -> float:
    started = time.thread_time()
    texts: dict[int, str] = {}
    for number in range(50_000):
        texts[number % 97] = str(number)
    return time.thread_time() - started


class LoopWatch:
    """Notes what held a loop for too long."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self._collecting = 0.0
        self._collecting_since = 0.0
        self._running_since: float | None = None
        self._thread = 0
        self._seen_at = ""

    def see_none_held(self) -> None:
        assert not self.held, "the event loop was held for " + "; and for ".join(self.held)

    @contextmanager
    def step(self) -> Generator[None]:
        """Something that holds the loop."""
        if self._running_since is not None:  # within a step that is watched already
            yield
            return
        self._collecting, self._seen_at = 0.0, ""
        started = time.thread_time()
        self._thread, self._running_since = threading.get_ident(), time.monotonic()
        try:
            yield
        finally:
            self._running_since = None
            spent = time.thread_time() - started - self._collecting
            if spent > LONGEST and spent > LONGEST * slowness():
                self.held.append(f"{spent * 1000:.0f} ms of processor time, at {self._seen_at}")

    async def coroutine(self, watched: Coroutine[Any, Any, Any]) -> Any:
        """The same, with each of its steps watched."""
        return await _Steps(self, watched)

    def app(self, app: ASGIApp) -> ASGIApp:
        """The same, with each of its steps watched."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            await self.coroutine(_called(app, scope, receive, send))

        return watched

    def on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
        elif self._thread == threading.get_ident():
            self._collecting += time.thread_time() - self._collecting_since

    def look(self, ended: threading.Event) -> None:
        """In a thread: see where a step is that takes long."""
        while not ended.wait(LONGEST / 5):
            since = self._running_since
            if since is not None and time.monotonic() - since > LONGEST / 2 and not self._seen_at:
                frame = sys._current_frames().get(self._thread)
                calls = traceback.extract_stack(frame)[-DEEPEST:] if frame else []
                self._seen_at = " > ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls)

    @contextmanager
    def looking(self) -> Generator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self.look, args=(ended,), daemon=True)
        gc.callbacks.append(self.on_collection)
        thread.start()
        try:
            yield
        finally:
            gc.callbacks.remove(self.on_collection)
            ended.set()
            thread.join()


async def _called(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


class _Steps:
    """Awaits a coroutine, step by step."""

    def __init__(self, watch: LoopWatch, watched: Coroutine[Any, Any, Any]) -> None:
        self._watch = watch
        self._watched = watched

    def __await__(self) -> Generator[Any, Any, Any]:
        take: Callable[[Any], Any] = self._watched.send
        value: Any = None
        while True:
            try:
                with self._watch.step():
                    waited_for = take(value)
            except StopIteration as ended:
                return ended.value
            try:
                take, value = self._watched.send, (yield waited_for)
            except BaseException as error:  # noqa: BLE001  it is the coroutine's to handle
                take, value = self._watched.throw, error


@contextmanager
def application_watched() -> Generator[LoopWatch]:
    """Watch the tasks of this project's code on the running loop; requests are watched by `LoopWatch.app`."""
    watch, loop = LoopWatch(), asyncio.get_running_loop()

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        code = getattr(coro, "cr_code", None)
        is_ours = code is not None and OURS in code.co_filename
        return asyncio.Task(watch.coroutine(coro) if is_ours else coro, loop=loop, **options)

    before = loop.get_task_factory()
    loop.set_task_factory(make)
    try:
        with watch.looking():
            yield watch
    finally:
        loop.set_task_factory(before)


@contextmanager
def loops_watched() -> Generator[LoopWatch]:
    """Watch all callbacks of every loop of this process."""
    watch = LoopWatch()
    original: Callable[[Any], None] = asyncio.events.Handle._run  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  the one place all callbacks pass

    def run(handle: Any) -> None:
        with watch.step():
            original(handle)

    setattr(asyncio.events.Handle, "_run", run)  # noqa: B010  a private name
    try:
        with watch.looking():
            yield watch
    finally:
        setattr(asyncio.events.Handle, "_run", original)  # noqa: B010
