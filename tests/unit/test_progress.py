"""Reports of handlers about how far they have come: only the newest counts, and nonsense is refused."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf.progress import LONGEST_TEXT, Report, Reports, checked_report


def report(step_id: int, fraction: float) -> Report:
    return Report(step_id, "lease", fraction, None)


def test_only_the_newest_report_of_each_step_is_kept() -> None:
    reports = Reports()
    for number in range(100):
        reports.add(report(1, number / 100))
    reports.add(report(2, 0.5))
    assert [(each.step_id, each.fraction) for each in reports.take()] == [(1, 0.99), (2, 0.5)]
    assert reports.take() == []


async def test_one_who_waits_is_woken_by_a_report_and_by_the_end() -> None:
    reports = Reports()
    for wake in (lambda: reports.add(report(1, 0.1)), reports.wake):
        waiting = asyncio.create_task(reports.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        wake()
        await asyncio.wait_for(waiting, 60)
        reports.take()


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_fraction_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        checked_report(1, "lease", fraction, None)


def test_long_words_are_cut() -> None:
    assert checked_report(1, "lease", None, "x" * 9_999).text == "x" * LONGEST_TEXT
