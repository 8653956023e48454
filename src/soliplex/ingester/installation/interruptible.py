"""Work that can be told to stop: it stops between two things, and what is under way may finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

GRACE: Final = 10.0
"""Seconds that what is under way is given once the work is told to stop."""


class Stopped(Exception):  # noqa: N818  not an error: the order was to stop
    """The work was told to stop."""


class Interruptible:
    """Pauses and loops that end with `Stopped` once the event is set."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping

    def check(self) -> None:
        """Raise if the work is to stop."""
        if self._stopping.is_set():
            raise Stopped

    async def pause(self, seconds: float, until: asyncio.Event | None = None) -> None:
        """Wait so long, or until the event; raises if the work is told to stop meanwhile."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._stopping, until) if event is not None]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        self.check()

    async def each[T](self, items: Iterable[T], do: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
        """Await the work on each item, several at once, until it is told to stop."""
        waiting = iter(items)

        async def work() -> None:
            for item in waiting:
                if self._stopping.is_set():
                    return
                await do(item)

        try:
            async with self._until_grace_is_over(), asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise _first(errors) from None
        self.check()

    @asynccontextmanager
    async def _until_grace_is_over(self) -> AsyncGenerator[None]:
        """Once the work is told to stop, the block has a few more seconds."""

        async def shorten() -> None:
            await self._stopping.wait()
            limit.reschedule(asyncio.get_running_loop().time() + GRACE)

        try:
            async with asyncio.timeout(None) as limit:
                shortening = asyncio.create_task(shorten())
                try:
                    yield
                finally:
                    shortening.cancel()
        except TimeoutError:
            raise Stopped from None


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """The first error of a group: the others followed from it."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
