"""Blocking file work, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial


async def in_thread[**P, R](work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the work in a thread. Whoever cancels waits until it has ended.

    A thread cannot be stopped. Left alone, it would go on to create the very file that the canceller removes.
    """
    hop = asyncio.get_running_loop().run_in_executor(None, partial(copy_context().run, partial(work, *args, **kwargs)))
    try:
        return await asyncio.shield(hop)
    except asyncio.CancelledError:
        await asyncio.wait([hop])
        raise
