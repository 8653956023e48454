"""Blocking file work, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def in_thread[**P, R](work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the work in a thread. Whoever cancels waits until it has ended.

    A thread cannot be stopped. Left alone, it would go on to create the very file that the canceller removes.
    """
    hop = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(hop)
    except asyncio.CancelledError:
        await asyncio.wait([hop])
        raise
