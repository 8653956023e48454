"""How much longer it takes: one time for all stages that go on side by side, once there is something to go by.

The stage that will be ready last decides, by how fast it went on since it began to. What is told is smoothed: the
moment of the end moves slowly, so that the time that is left goes down like a clock and does not jump with
every document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LEAST_TIME: Final = 5.0
"""Seconds that a stage must have gone on before its end is estimated."""
LEAST_SHARE: Final = 0.02
"""The share of a stage that must be done before its end is estimated; `LEAST_COUNT` things must be done, too."""
LEAST_COUNT: Final = 3
ENOUGH: Final = 500
"""So many things done are enough for an estimate, however small their share."""
SMOOTHED_OVER: Final = 10.0
"""Seconds after which two thirds of a change in the estimate show."""


@dataclass(frozen=True, slots=True)
class Share:
    """How far a stage was at a moment: in units that take about equally long, and in things."""

    name: str
    done: float
    total: float
    count: int
    at: float
    is_starting: bool = False
    """Whether it is at work on its first things, or loads what it needs for them: nobody knows yet how slow it is."""


@dataclass(slots=True)
class _Began:
    """When a stage was first seen to get on, and how far it was then."""

    at: float
    done: float
    count: int


class Remaining:
    """The time that is left, from what is noted of the stages. Moments are seconds of one clock."""

    def __init__(self) -> None:
        self._began: dict[str, _Began] = {}
        self._ends_at: float | None = None
        self._noted_at = 0.0
        self._is_starting = False

    def note(self, stages: Sequence[Share], now: float) -> None:
        """Note how far each stage is that goes on now. A stage that is not given any more does not count."""
        self._is_starting = any(stage.is_starting for stage in stages)
        for gone in self._began.keys() - {stage.name for stage in stages}:
            del self._began[gone]
        estimates = [end for stage in stages if (end := self._end_of(stage)) is not None]
        if not estimates:
            self._ends_at = None
            return
        end = max(estimates)
        if self._ends_at is None:
            # The first estimate waits until every stage that has begun can be estimated: any may be the slowest.
            under_way = [stage for stage in stages if 0 < stage.done < stage.total]
            self._ends_at = end if len(estimates) == len(under_way) else None
        else:
            passed = now - self._noted_at
            self._ends_at += (end - self._ends_at) * passed / (passed + SMOOTHED_OVER)
        self._noted_at = now

    def seconds(self, now: float) -> float | None:
        """What is left; None as long as nobody can say."""
        if self._ends_at is None or self._is_starting:
            return None
        return max(0.0, self._ends_at - now)

    def _end_of(self, stage: Share) -> float | None:
        if stage.done >= stage.total:
            return None
        if not stage.done:
            return None  # the stage waits for others, or loads what it needs: its rate says nothing yet
        began = self._began.setdefault(stage.name, _Began(stage.at, stage.done, stage.count))
        passed, done = stage.at - began.at, stage.done - began.done
        count = stage.count - began.count
        is_share = count >= ENOUGH or (count >= LEAST_COUNT and done >= LEAST_SHARE * stage.total)
        is_enough = passed >= LEAST_TIME and is_share
        return stage.at + passed / done * (stage.total - stage.done) if is_enough else None
