"""Watches event loops: how much processor time each callback takes, during which the loop does nothing else.

Processor time of the loop's own thread, and not time on the wall: a busy machine makes no callback longer. Collecting
garbage is left out, since most of what a process of tests holds is not the server's.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONGEST = 0.1
"""Seconds for which one callback may hold the loop."""
DEEPEST = 25
"""Calls that are shown of one that took longer."""


@dataclass(slots=True)
class LoopWatch:
    """The callbacks that held a loop for too long."""

    held: list[str] = field(default_factory=list[str])
    _running_since: float | None = None
    _thread: int = 0
    _seen_at: str = ""
    _collecting: float = 0.0
    _collecting_since: float = 0.0

    def on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collecting += time.thread_time() - self._collecting_since

    def run(self, original: Callable[[Any], None], handle: Any) -> None:
        self._collecting, self._seen_at = 0.0, ""
        started = time.thread_time()
        self._thread, self._running_since = threading.get_ident(), time.monotonic()
        try:
            original(handle)
        finally:
            self._running_since = None
            spent = time.thread_time() - started - self._collecting
            if spent > LONGEST:
                self.held.append(f"{spent * 1000:.0f} ms of processor time in {handle!r}, at {self._seen_at}")

    def look(self, ended: threading.Event) -> None:
        """In a thread: see where a callback is that takes long."""
        while not ended.wait(LONGEST / 5):
            since = self._running_since
            if since is not None and time.monotonic() - since > LONGEST / 2 and not self._seen_at:
                frame = sys._current_frames().get(self._thread)
                calls = traceback.extract_stack(frame)[-DEEPEST:] if frame else []
                self._seen_at = " > ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls)


@contextmanager
def loops_watched() -> Generator[LoopWatch]:
    """Watch every loop of this process meanwhile."""
    watch = LoopWatch()
    original: Callable[[Any], None] = asyncio.events.Handle._run  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  the one place all callbacks pass
    setattr(asyncio.events.Handle, "_run", lambda handle: watch.run(original, handle))  # noqa: B010  a private name
    gc.callbacks.append(watch.on_collection)
    ended = threading.Event()
    looking = threading.Thread(target=watch.look, args=(ended,), daemon=True)
    looking.start()
    try:
        yield watch
    finally:
        ended.set()
        looking.join()
        gc.callbacks.remove(watch.on_collection)
        setattr(asyncio.events.Handle, "_run", original)  # noqa: B010
