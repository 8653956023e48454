"""Handlers that workers in other processes execute."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from soliplex.ingester.lib.wf.waiting import Wait

BLOCK: Final = "BENCHMARK_HANDLERS_BLOCK"
"""The environment variable with which a process's handlers never end."""


async def wait_for_signal(input: dict[str, str], state: str | None) -> Wait | None:  # noqa: A002  as handlers ask for it
    """Wait for a signal with the key of the input, and say when it has come."""
    if state is None:
        return Wait(input["key"], state="asked")
    os.write(sys.stdout.fileno(), f"start {time.monotonic_ns()}\n".encode())
    return None


async def add_up(input: dict[str, int]) -> int:  # noqa: A002  as above
    """What all inputs add up to, a little."""
    return sum(input.values()) % 1_000_000 + 1


async def report_start() -> None:
    """Say on the standard output when the handler was called, by a clock that all processes share."""
    os.write(sys.stdout.fileno(), f"start {time.monotonic_ns()}\n".encode())
    if BLOCK in os.environ:
        await asyncio.Event().wait()
