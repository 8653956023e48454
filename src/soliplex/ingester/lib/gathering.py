"""Doing for many at once what costs as much as doing it for one: a commit, a hop to a thread.

    async def write(rows: Sequence[Row]) -> Sequence[int | Exception]: ...

    writing = Gathering(write)
    await writing.submit(row)        # from any number of tasks

The first that comes is hardly kept waiting. What comes while a group is under way makes the next group: the more there
is to do, the larger the groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

LARGEST_GROUP: Final = 64
ROUNDS: Final = 3
"""Rounds of the event loop before a group begins: who is about to submit something, such as a request whose bytes are
here, comes along. Where nobody is, they take no time worth mentioning."""


class Gathering[T, R]:
    """Hands items on in groups, one group at a time.

    `handle` gives for each item, in their order, its result or the error that its submitter is to see.
    """

    def __init__(self, handle: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._handle = handle
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def submit(self, item: T) -> R:
        """The item's result. Whoever cancels waits until the group that has the item has ended."""
        place = self._enter(item)
        try:
            return await asyncio.shield(place)
        except asyncio.CancelledError:
            before = len(self._waiting)
            self._waiting = [each for each in self._waiting if each[1] is not place]
            if len(self._waiting) == before:
                await asyncio.wait([place])
                _ = place.cancelled() or place.exception()  # nobody else will ask how it ended
            raise

    def _enter(self, item: T) -> asyncio.Future[R]:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what an earlier loop has left undone ended with it
            self._loop, self._task, self._waiting = loop, None, []
        place: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, place))
        if self._task is None:
            self._task = loop.create_task(self._run())
        return place

    async def _run(self) -> None:
        try:
            while self._waiting:
                for _ in range(ROUNDS):
                    await asyncio.sleep(0)
                group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
                await self._do(group)
        finally:
            self._task = None
            for _, place in self._waiting:  # only if the loop is being closed
                place.cancel()

    async def _do(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            outcomes = await self._handle([item for item, _ in group])
            for (_, place), outcome in zip(group, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    place.set_exception(outcome)
                else:
                    place.set_result(outcome)
        except Exception as exc:  # noqa: BLE001  whatever it is, those who wait must hear of it
            for _, place in group:
                if not place.done():
                    place.set_exception(exc)
        finally:
            for _, place in group:
                place.cancel()  # those that have no outcome: we were cancelled
