"""Due times: in any time zone, across changes of the clock, counted where they were missed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.cron import DueTimes


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "field"),
    [
        ("61 * * * *", "UTC", "cron"),
        ("* * *", "UTC", "cron"),
        ("", "UTC", "cron"),
        ("0 0 31 2 *", "UTC", "cron"),
        ("0 6 * * *", "Europe/Atlantis", "time_zone"),
        ("0 6 * * *", "../etc/passwd", "time_zone"),
        ("0 6 * * *", "", "time_zone"),
    ],
)
def test_an_impossible_cron_or_zone_is_refused_by_name(cron: str, zone: str, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        DueTimes.parse(cron, zone)
    assert caught.value.field == field


def test_due_times_are_those_of_the_zone_across_changes_of_the_clock() -> None:
    paris = DueTimes.parse("30 2 * * *", "Europe/Paris")
    assert paris.after(utc("2026-03-27T12:00")) == utc("2026-03-28T01:30")
    spring = paris.after(utc("2026-03-28T12:00"))
    assert spring is not None
    assert spring.date().isoformat() == "2026-03-29", "2:30 does not exist that day; it is not left out"
    autumn = paris.after(utc("2026-10-24T12:00"))
    assert autumn == utc("2026-10-25T00:30")
    assert paris.after(utc("2026-10-25T00:30")) == utc("2026-10-26T01:30"), "2:30 comes twice that day; once is enough"


def test_what_is_due_on_time_was_not_missed() -> None:
    hourly = DueTimes.parse("0 * * * *", "UTC")
    due = hourly.due(utc("2026-01-01T05:00"), utc("2026-01-01T05:00:30"))
    assert (due.at, due.missed, due.is_late, due.next) == (utc("2026-01-01T05:00"), 0, False, utc("2026-01-01T06:00"))


def test_missed_times_are_counted_and_the_newest_is_told() -> None:
    hourly = DueTimes.parse("0 * * * *", "UTC")
    due = hourly.due(utc("2026-01-01T05:00"), utc("2026-01-01T08:30"))
    assert (due.at, due.missed, due.is_late) == (utc("2026-01-01T08:00"), 4, True)
    due = hourly.due(utc("2026-01-01T05:00"), utc("2026-01-01T08:00:01"))
    assert (due.at, due.missed, due.is_late) == (utc("2026-01-01T08:00"), 3, False)


def test_years_of_missed_minutes_cost_no_time() -> None:
    due = DueTimes.parse("* * * * *", "UTC").due(utc("2020-01-01T00:00"), utc("2026-01-01T00:00"))
    assert due.missed > 100
    assert (due.at, due.next) == (utc("2026-01-01T00:00"), utc("2026-01-01T00:01"))
