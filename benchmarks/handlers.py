"""Handlers that workers in other processes execute."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

BLOCK: Final = "BENCHMARK_HANDLERS_BLOCK"
"""The environment variable with which a process's handlers never end."""


async def report_start() -> None:
    """Say on the standard output when the handler was called, by a clock that all processes share."""
    os.write(sys.stdout.fileno(), f"start {time.monotonic_ns()}\n".encode())
    if BLOCK in os.environ:
        await asyncio.Event().wait()
