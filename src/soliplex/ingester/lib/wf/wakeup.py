"""Waking idle workers when work becomes ready, in place of polling.

    same wiring             `work_is_ready()` rings for every worker of the wiring, in this process
    PostgreSQL, processes   NOTIFY on one channel: by the transaction that creates runs, with the types of steps that
                            are ready; after a finishing transaction once at most every few milliseconds, on a
                            connection of its own, since NOTIFY takes a global lock at commit
    SQLite, processes       `PRAGMA data_version`, read every few milliseconds by idle workers: any commit changes it

A slow poll remains as the safety net.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final
from weakref import WeakSet

from soliplex.ingester.lib.wiring import current_wiring

WORK_CHANNEL: Final = "soliplex_work"
"""The channel of PostgreSQL on which workers of other processes are told of work."""
SIGNALS: Final = ":signals"
"""Told like a type of steps that are ready: there are new signals. No step type begins with a colon."""


class Doorbell:
    """Rung when there may be work. Several consumers wait on it; each sees every ring once."""

    def __init__(self, accepts: Callable[[str], bool] = lambda _: True) -> None:
        self._accepts = accepts
        self._rings = 0
        self._told: set[str] | None = set()
        self._changed = asyncio.Event()
        current_wiring().kept(_doorbells).add(self)

    def ring(self, types: Collection[str] | None = None) -> None:
        """Ring, unless it is known that only steps of other types are ready."""
        if types is not None and not any(map(self._accepts, types)):
            return
        self._rings += 1
        self._told = None if types is None or self._told is None else self._told.union(types)
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def rings(self) -> int:
        return self._rings

    def take_told(self) -> set[str]:
        """The types of what has become ready since this was last asked; none, if they are not all known."""
        told, self._told = self._told, set()
        return told or set()

    async def wait(self, seen: int, timeout: float) -> int:  # noqa: ASYNC109  the bound is the safety net's period
        """Wait until it has been rung more than `seen` times, or the time is over; gives the rings so far."""
        if self._rings == seen:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._rings


def _doorbells() -> WeakSet[Doorbell]:
    """The doorbells of the workers of one wiring."""
    return WeakSet()


def work_is_ready(types: Collection[str] | None = None) -> None:
    """Tell the workers of this wiring, in this process, that steps are ready: of these types, if they are known."""
    for doorbell in list(current_wiring().kept(_doorbells)):
        doorbell.ring(types)
