"""Stopping on signals: the first asks to stop gracefully, the second stops at once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

from soliplex.ingester.lib.printed import release_printed

SAME_WISH: Final = 1.0
"""Seconds within which a second signal says the same as the first: a terminal sends SIGINT, and a supervisor SIGTERM.
"""
ECHO: Final = 0.1
"""Seconds within which the same signal comes twice from one key: `uv run` and others pass on what the terminal sent to
all. Nobody presses Ctrl-C twice so fast."""
STOPPED_BY_SIGNAL: Final = 130
"""Exit code, as shells have it: 128 plus the number of SIGINT."""


SHOW_CURSOR: Final = "\x1b[?25h"


@contextmanager
def stopping_on_signals(
    *, first: Callable[[], None] = lambda: None, parting: str = "stopped at once"
) -> Generator[asyncio.Event]:
    """For the time of the block, SIGINT and SIGTERM set the event. `first` says so; `parting` is said at the second."""
    event = asyncio.Event()
    told_at, told_by = 0.0, signal.SIGINT

    def on_signal(number: signal.Signals) -> None:
        nonlocal told_at, told_by
        if not event.is_set():
            told_at, told_by = time.monotonic(), number
            event.set()
            first()
        elif time.monotonic() - told_at > (ECHO if number == told_by else SAME_WISH):
            release_printed()
            _say_at_last(parting)
            os._exit(STOPPED_BY_SIGNAL)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield event
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _say_at_last(text: str) -> None:
    """Write the text on a line of its own, with the cursor shown: bars hide it, and leave it at the end of the last."""
    with suppress(OSError):
        os.write(2, f"{SHOW_CURSOR}\n{text}\n".encode() if os.isatty(2) else f"{text}\n".encode())
