"""The spans of runs that have ended, which a worker sends as one of its duties."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.sql import SQL

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.tracing.spans import Tracing

AT_ONCE: Final = 500
"""Runs that are read in one statement."""


class EndedRuns:
    """Runs whose end a worker has recorded, until their spans are on their way."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._ids: set[int] = set()
        self._arrived = asyncio.Event()

    def note(self, run_ids: Iterable[int]) -> None:
        """Have the spans of these runs sent."""
        self._ids.update(run_ids)
        self._arrived.set()

    def wake(self) -> None:
        """Let `send_next` return."""
        self._arrived.set()

    async def send_next(self) -> None:
        """Once runs have ended: send their spans."""
        await self._arrived.wait()
        self._arrived.clear()
        await self.send()

    async def send(self) -> None:
        """Send the spans of the runs that have ended by now."""
        run_ids, self._ids = sorted(self._ids), set()
        try:
            for start in range(0, len(run_ids), AT_ONCE):
                for run in await Database.read(SQL.runs_to_trace(ids=run_ids[start : start + AT_ONCE])):
                    self._tracing.send_run(run)
        except BaseException:
            self.note(run_ids)  # to send the span of a run twice does no harm
            raise

    async def finish(self) -> None:
        """Send what is left, and wait until the receiver has it all, unless it does not take it."""
        try:
            await self.send()
        finally:
            await self._tracing.flush()
