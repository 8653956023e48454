"""How long a step waits before it is tried again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from soliplex.ingester.lib.wf.errors import DefinitionError, Problem
from soliplex.ingester.lib.wiring import current_wiring

# The floats beyond count no longer by ones; a step will not be tried that often.
_LARGEST_EXPONENT = 2**53


def usual_backoff() -> Backoff:
    """The waits of a step or handler that says nothing of its own: those of the settings."""
    settings = current_wiring().settings
    return Backoff(
        timedelta(seconds=settings.retry_first_delay_seconds), timedelta(seconds=settings.retry_longest_delay_seconds)
    )


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with a ceiling. Attempts count from 1.

    Jitter only shortens: a delay lies between `(1 - jitter)` of the computed one and the computed one, so `longest` is
    never exceeded, and steps that failed together are still spread out once all of them wait that long.
    """

    first: timedelta = timedelta(seconds=2)
    longest: timedelta = timedelta(minutes=5)
    factor: float = 2.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        problems = [Problem(text, key=key) for key, text in self._problems()]
        if problems:
            raise DefinitionError(problems[0].text, key=problems[0].key, more=tuple(problems[1:]))

    def delay_after(self, attempt: int, *, random: Callable[[], float]) -> timedelta:
        """Give the wait after the given attempt failed; `random` yields numbers from 0 to 1."""
        if attempt < 1:
            raise ValueError(f"attempts count from 1, not from {attempt}")
        return self._full_delay_after(attempt) * (1 - self.jitter * random())

    def _full_delay_after(self, attempt: int) -> timedelta:
        if not self.first:
            return self.first
        try:
            seconds = self.first.total_seconds() * self.factor ** min(attempt - 1, _LARGEST_EXPONENT)
        except OverflowError:
            return self.longest
        return self.longest if seconds >= self.longest.total_seconds() else timedelta(seconds=seconds)

    def _problems(self) -> Iterator[tuple[str, str]]:
        if self.first < timedelta(0):
            yield "first", "is negative; give 0 or a duration such as 2s"
        if self.longest < self.first:
            yield "longest", f"{self.longest} is shorter than the first wait of {self.first}; give at least that"
        if not (math.isfinite(self.factor) and self.factor >= 1):
            yield "factor", f"is {self.factor:g}; give a number of at least 1, such as 2"
        if not 0 <= self.jitter <= 1:
            yield "jitter", f"is {self.jitter:g}; give a number from 0 to 1, such as 0.1"
