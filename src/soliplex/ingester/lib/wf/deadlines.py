"""Long timeouts at little cost: one timer looks after all calls, instead of one timer for each.

Setting a timer for each call would take a noticeable part of the time of a tiny step, and a timeout of an hour may come
a second late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from soliplex.ingester.lib.wf.errors import StepTimeout

LONG: Final = 60.0
"""Seconds from which a timeout counts as long."""
LOOK_EVERY: Final = 1.0


class Deadlines:
    """Watches over coroutines that may take long, but not for ever."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def within[R](self, seconds: float, call: Coroutine[Any, Any, R]) -> R:
        """Await the call; StepTimeout when it takes longer, by up to a second more."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._calls[task] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(LOOK_EVERY, self._look)
        try:
            return await call
        except asyncio.CancelledError:
            if task not in self._expired:
                raise
            task.uncancel()
            raise StepTimeout(seconds) from None
        finally:
            del self._calls[task]
            self._expired.discard(task)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        # The next look is arranged first, so that an error in this one does not end the looking.
        self._timer = loop.call_later(LOOK_EVERY, self._look) if self._calls else None
        now = loop.time()
        for task, deadline in self._calls.items():
            if now > deadline and task not in self._expired:
                self._expired.add(task)
                task.cancel()
