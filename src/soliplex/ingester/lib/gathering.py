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
"""Rounds of the event loop before a group begins, so that submitters that are about to come, such as requests whose
bytes have arrived, belong to it. Where there are none, the rounds take hardly any time."""


class Gathering[T, R]:
    """Hands items on in groups, `at_once` groups at a time.

    `handle` gives for each item, in their order, its result or the error that its submitter is to see.
    """

    def __init__(
        self, handle: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]], *, at_once: int = 1
    ) -> None:
        self._handle = handle
        self._at_once = at_once
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_gathering = False
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
                # Looking at the exception keeps asyncio from warning of one that nobody saw.
                _ = place.cancelled() or place.exception()
            raise

    def _enter(self, item: T) -> asyncio.Future[R]:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # items of an earlier event loop ended with that loop
            self._loop, self._tasks, self._waiting, self._is_gathering = loop, set(), [], False
        place: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, place))
        self._begin_a_group()
        return place

    def _begin_a_group(self) -> None:
        """Begin a group, unless one is about to begin or enough are under way."""
        if self._waiting and not self._is_gathering and len(self._tasks) < self._at_once:
            self._is_gathering = True
            self._tasks.add(asyncio.create_task(self._run()))

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            group = await self._next_group()
            self._begin_a_group()  # for the items that this group had no room for
            await self._do(group)
        except asyncio.CancelledError:  # the loop is being closed
            abandoned, self._waiting = self._waiting, []
            for _, place in abandoned:
                place.cancel()
            raise
        finally:
            self._tasks.discard(task)
            self._begin_a_group()

    async def _next_group(self) -> list[tuple[T, asyncio.Future[R]]]:
        try:
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
        finally:
            self._is_gathering = False
        group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
        return group

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
                place.cancel()  # has no effect where there is an outcome; the others were cancelled
