"""How many steps at once are worth it: from when each was at work, and how much longer it took beside others.

Each step-second counts for as much as the step would have got done alone: a step that took twice as long as usual got
half as much done a second. So the work that is done a second, beside k others, can be told for each k that occurred.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from soliplex.ingester.goals.optimizer.measurements import Interval
from soliplex.ingester.goals.optimizer.statistics import quantile

ENOUGH_SECONDS: Final = 0.05
"""A number of steps at once that lasted less than this share of the time says nothing."""
NEARLY: Final = 0.95
ENOUGH_INTERVALS: Final = 50
SHORTEST: Final = 0.25
"""Seconds: several times what workers claim ahead, since a step counts as at work from its claim on."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """How much work was done a second while so many steps were at work, in steps that are alone."""

    at_once: int
    seconds: float
    work: float


def throughputs(intervals: Sequence[Interval]) -> list[Throughput]:
    """By how many steps were at work at once."""
    alone = _alone(intervals)
    by_run: defaultdict[int, list[Interval]] = defaultdict(list)
    for each in intervals:
        if each.seconds > 0:
            by_run[each.run_id].append(each)
    seconds: defaultdict[int, float] = defaultdict(float)
    done: defaultdict[int, float] = defaultdict(float)
    for some in by_run.values():
        for at_once, length, speed in _pieces(some, alone):
            seconds[at_once] += length
            done[at_once] += length * speed
    return [Throughput(each, seconds[each], done[each] / seconds[each]) for each in sorted(seconds) if seconds[each]]


def best_at_once(intervals: Sequence[Interval]) -> tuple[int, list[Throughput]] | None:
    """The smallest number of steps at once that gets nearly as much done as any. None: that cannot be told."""
    long = [each for each in intervals if each.seconds >= SHORTEST]
    if len(long) < ENOUGH_INTERVALS:
        return None
    found = throughputs(long)
    whole = sum(each.seconds for each in found)
    known = [each for each in found if each.seconds >= ENOUGH_SECONDS * whole]
    if len(known) < 2:  # noqa: PLR2004  nothing to compare
        return None
    most = max(each.work for each in known)
    return next(each.at_once for each in known if each.work >= NEARLY * most), known


def _alone(intervals: Sequence[Interval]) -> dict[str, float]:
    """What a call of each step takes when it has the machine for itself: a low quantile, for most are never alone."""
    by_step: defaultdict[str, list[float]] = defaultdict(list)
    for each in intervals:
        by_step[each.step].append(each.seconds)
    return {step: quantile(sorted(seconds), 0.1) for step, seconds in by_step.items()}


def _pieces(intervals: Sequence[Interval], alone: dict[str, float]) -> Iterator[tuple[int, float, float]]:
    """Pieces of time in which the same steps were at work: how many, how long, and how fast all together."""
    changes = sorted(
        [(each.begins, 1, min(1.0, alone[each.step] / each.seconds)) for each in intervals]
        + [(each.ends, -1, -min(1.0, alone[each.step] / each.seconds)) for each in intervals],
        key=lambda change: (change[0], change[1]),
    )
    at_once, speed, since = 0, 0.0, changes[0][0] if changes else None
    for moment, more, faster in changes:
        assert since is not None
        if at_once and moment > since:
            yield at_once, (moment - since).total_seconds(), speed
        at_once, speed, since = at_once + more, speed + faster, moment
