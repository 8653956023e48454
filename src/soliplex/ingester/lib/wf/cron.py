"""Due times: what a cron expression says, in a time zone. A time that a change of the clock doubles comes once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from soliplex.ingester.lib.errors import InvalidInputError

LATE: Final = timedelta(minutes=1)
"""A due time that is longer ago than this was missed: no worker was there."""
MOST_COUNTED: Final = 1_000
"""Missed times that are counted one by one."""


@dataclass(frozen=True, slots=True)
class DueTimes:
    """The moments that a cron expression names, in the time of a zone."""

    cron: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, cron: str, time_zone: str) -> Self:
        """Read the expression and the zone. InvalidInputError says which of the two is wrong, and why."""
        try:
            zone = ZoneInfo(time_zone)
        except (KeyError, ValueError, OSError) as exc:
            problem = f"is {time_zone!r}, which is no time zone; give one such as UTC or Europe/Paris"
            raise InvalidInputError("time_zone", problem) from exc
        try:
            CronSim(cron, datetime(2024, 1, 1, tzinfo=zone))
        except CronSimError as exc:
            problem = f"is {cron!r}: {str(exc) or 'it cannot be read'}; give five fields, such as `0 6 * * 1-5`"
            raise InvalidInputError("cron", problem) from exc
        times = cls(cron, zone)
        if times.after(datetime(2024, 1, 1, tzinfo=UTC)) is None:
            raise InvalidInputError("cron", f"is {cron!r}, which names no moment that ever comes; correct it")
        return times

    def after(self, moment: datetime) -> datetime | None:
        """The first due time after this moment, in UTC."""
        return next(self._from(moment), None)

    def _from(self, moment: datetime) -> Iterator[datetime]:
        try:
            for due in CronSim(self.cron, moment.astimezone(self.zone)):
                yield due.astimezone(UTC)
        except CronSimError:  # the expression names no moment in the next decades
            return

    def due(self, since: datetime, now: datetime) -> Due:
        """What is due now, where the next due time was `since`."""
        passed = 1 + sum(1 for _ in takewhile(lambda due: due <= now, islice(self._from(since), MOST_COUNTED)))
        newest = max(since, self._newest_until(now))
        is_late = now - newest > LATE
        return Due(at=newest, missed=passed if is_late else passed - 1, is_late=is_late, next=self.after(now))

    def _newest_until(self, now: datetime) -> datetime:
        second_after = now.astimezone(self.zone) + timedelta(seconds=1)  # what is due at this moment counts
        return next(CronSim(self.cron, second_after, reverse=True)).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Due:
    """A due time that has come."""

    at: datetime
    """The newest due time that has come."""
    missed: int
    """How many due times have passed while no worker was there, as far as they were counted."""
    is_late: bool
    """Whether the newest due time passed while no worker was there."""
    next: datetime | None
