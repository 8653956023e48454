"""Stopping on signals: the first asks to stop gracefully, the second stops at once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

SAME_SIGNAL: Final = 1.0
"""Seconds within which a second signal counts as the first: a terminal and a supervisor often send both."""
STOPPED_BY_SIGNAL: Final = 130
"""Exit code, as shells have it: 128 plus the number of SIGINT."""


@contextmanager
def stopping_on_signals(
    *, first: Callable[[], None] = lambda: None, second: Callable[[], None] = lambda: None
) -> Generator[asyncio.Event]:
    """For the time of the block, SIGINT and SIGTERM set the event. The two callbacks say so, each at its time."""
    event = asyncio.Event()
    told_at = 0.0

    def on_signal() -> None:
        nonlocal told_at
        if not event.is_set():
            told_at = time.monotonic()
            event.set()
            first()
        elif time.monotonic() - told_at > SAME_SIGNAL:
            second()
            os._exit(STOPPED_BY_SIGNAL)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        yield event
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
