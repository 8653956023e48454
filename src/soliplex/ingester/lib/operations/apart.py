"""Work whose length a client decides, done apart from this process: one piece at a time, and ended when nobody waits.

A thread would not do. It cannot be ended, so one that goes on for a minute is lost for that minute, also when whoever
asked is long gone; and while it is in C code, the event loop waits for it. Within `kept_apart`, the process for it
stays between two calls; without it, each call starts its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.wf.errors import HandlerCrashed, MemoryLimitExceeded, StepTimeout
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wiring import current_wiring

LONGEST: Final = 30.0
"""Seconds that one piece of work may take."""
MOST_WAITING: Final = 8
MEMORY_MIB: Final = 2048


class TooMuchWorkError(IngesterError):
    """What was asked for takes more time or memory than one request may have."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} {reason}")


class BusyError(IngesterError):
    """Too many others wait for the process already; trying again later helps."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has to wait for too many others: try again in a while")


class Apart:
    """One process for work apart, and a short queue of those who wait for it."""

    def __init__(self, *, longest: float = LONGEST, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ProcessPool(processes=1, memory_limit_mib=MEMORY_MIB, cancel_grace=0.1)
        self._longest = longest
        self._most_waiting = most_waiting
        self._asked = 0

    async def run(self, what: str, method: str, arguments: Mapping[str, object]) -> object:
        """Call the function `package.module.function` in that process.

        If the call is cancelled, the work is ended at once.
        """
        if self._asked > self._most_waiting:
            raise BusyError(what)
        self._asked += 1
        try:
            return await self._pool.run(method, arguments, timeout=self._longest)
        except StepTimeout as exc:
            raise TooMuchWorkError(what, f"takes longer than {self._longest:g} seconds") from exc
        except (MemoryLimitExceeded, HandlerCrashed) as exc:
            raise TooMuchWorkError(what, f"takes more memory than {MEMORY_MIB} MiB, or harms its process") from exc
        finally:
            self._asked -= 1

    async def close(self) -> None:
        await self._pool.stop()


@dataclass(slots=True)
class _Kept:
    """The process of a wiring that stays between calls, within `kept_apart`."""

    apart: Apart | None = None


@asynccontextmanager
async def kept_apart() -> AsyncGenerator[Apart]:
    """For the time of the block, the process stays between two calls: for programs that live long."""
    kept, mine = current_wiring().kept(_Kept), Apart()
    before, kept.apart = kept.apart, mine
    try:
        yield mine
    finally:
        kept.apart = before
        await mine.close()


async def run_apart(what: str, method: str, arguments: Mapping[str, object]) -> object:
    """As `Apart.run`; `what` begins the sentence that says why it did not work."""
    kept = current_wiring().kept(_Kept).apart
    if kept is not None:
        return await kept.run(what, method, arguments)
    async with kept_apart() as apart:
        return await apart.run(what, method, arguments)
