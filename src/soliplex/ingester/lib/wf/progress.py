"""How far handlers say they have come: on the row of the step, at most once a second, at no cost to those that do not.

A handler asks for `progress` and calls it, from its loop or its thread, as often as it likes:

    async def convert(doc, progress):
        for number, page in enumerate(doc.pages, start=1):
            ...
            progress(number / len(doc.pages), f"page {number} of {len(doc.pages)}")

Only the newest report of a step is written, and only while its lease holds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Never

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.log_facts import working_on
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.storable import see_storable_text
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.handlers import provide
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.underway import Underway
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.wiring import current_wiring

LONGEST_TEXT: Final = 500
BETWEEN_WRITES: Final = 1.0
_NOT_APART: Final = "a handler that runs in a process of its own cannot ask for `progress`; run it inline"


@dataclass(frozen=True, slots=True)
class Report:
    """How far a step has come."""

    step_id: int
    lease: str
    fraction: float | None
    """From 0 to 1."""
    text: str | None

    def call(self, now: datetime) -> Any:
        told = {"fraction": self.fraction, "text": self.text, "at": now.isoformat()}
        return SQL.note_progress(id=self.step_id, lease=self.lease, progress=Json(told))


def checked_report(step_id: int, lease: str, fraction: float | None, text: str | None) -> Report:
    """Refuse a report that cannot be shown."""
    if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise InvalidInputError("progress", f"is {fraction}; give a number from 0 to 1")
    if text is not None:
        see_storable_text("text", text)
    return Report(step_id, lease, fraction, text[:LONGEST_TEXT] if text else None)


class Reports:
    """The newest report of each step, until it is written."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, str], Report] = {}
        self._waiting = set[asyncio.Event]()

    def add(self, report: Report) -> None:
        self._newest[report.step_id, report.lease] = report
        self.wake()

    def wake(self) -> None:
        """Let whoever waits for reports look whether to stop."""
        for event in self._waiting:
            event.set()

    async def wait(self) -> None:
        """Wait until there is a report, or somebody wakes those who wait."""
        if self._newest:
            return
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)

    def take(self) -> list[Report]:
        taken, self._newest = list(self._newest.values()), {}
        return taken


class Progress:
    """What a handler calls to say how far it has come."""

    def __init__(self, step: ClaimedStep, reports: Reports) -> None:
        self._step_id = step.id
        self._lease = step.lease
        self._reports = reports
        self._loop = asyncio.get_running_loop()

    def __call__(self, fraction: float | None = None, text: str | None = None) -> None:
        report = checked_report(self._step_id, self._lease, fraction, text)
        self._loop.call_soon_threadsafe(self._reports.add, report)

    def __reduce__(self) -> Never:
        raise PermanentError(_NOT_APART)


def progress_of_this_call() -> Progress:
    """How far the step has come whose handler asks here and now, for handlers that call functions of others."""
    work = working_on.get()
    step = work.only_step if isinstance(work, Underway) else None
    if step is None:
        raise PermanentError(_NOT_APART)
    return Progress(step, current_wiring().kept(Reports))


async def write_reports(reports: Sequence[Report], now: datetime) -> None:
    """Write reports down, all in one transaction, each only if its lease still holds."""

    def script() -> Script[None]:
        for report in reports:
            yield report.call(now)

    if reports:
        await Database.transact(script())


async def _progress_of(steps: Sequence[ClaimedStep]) -> list[Progress]:
    reports = current_wiring().kept(Reports)
    return [Progress(step, reports) for step in steps]


provide("progress", _progress_of)
