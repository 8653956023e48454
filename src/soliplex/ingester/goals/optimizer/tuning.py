"""What the numbers of single steps say: timeouts, attempts, back-off. Pure functions; each finding gives its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from soliplex.ingester.goals.optimizer.flow_changes import Kind, backoff_as_json
from soliplex.ingester.goals.optimizer.measurements import StepStats
from soliplex.ingester.goals.optimizer.statistics import bounds_of_share, quantile, rounded_up
from soliplex.ingester.lib.wf.definitions import StepDefinition

ENOUGH: Final = 20
"""Fewest executions of a step from which anything is concluded."""
ENOUGH_RETRIES: Final = 10
TIMES_THE_LONGEST: Final = 3.0
"""A timeout is this many times as long as 99 of 100 calls take at most, so that work that grows is not stopped."""
SHORTEST_TIMEOUT: Final = 5.0
"""Seconds. A shorter timeout would make steps fail on a machine that is busy for a moment."""
TOLERATED_FAILURES: Final = 0.001
MOST_ATTEMPTS: Final = 10
SHORTEST_WAIT: Final = 0.1
WORTH_IT: Final = 0.25
"""A change by less than this share is not proposed: it would make a new version and no difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What measurements say should be changed about a step, or about a flow."""

    kind: Kind
    step: str
    current: Any
    proposed: Any
    why: str
    samples: int
    saves: float = 0.0
    """Seconds that each run would save on average, where that can be told from the step alone."""


def tuned(step: StepDefinition, stats: StepStats, runs: int) -> Iterator[Finding]:
    """What to change about one step."""
    for found in (_timeout(step, stats, runs), _attempts(step, stats, runs), _backoff(step, stats, runs)):
        if found is not None:
            yield found


def _timeout(step: StepDefinition, stats: StepStats, runs: int) -> Finding | None:
    if stats.is_repeated or len(stats.durations) < ENOUGH:
        return None
    longest = quantile(stats.durations, 0.99)
    proposed = max(SHORTEST_TIMEOUT, rounded_up(TIMES_THE_LONGEST * longest))
    current = step.timeout.total_seconds() if step.timeout else None
    is_longer = current is not None and proposed > current
    if is_longer and not stats.timed_out:
        return None
    if current is not None and abs(proposed - current) < WORTH_IT * current:
        return None
    stopped = f"; {stats.timed_out} attempts were stopped by the timeout" if stats.timed_out else ""
    return Finding(
        kind="timeout",
        step=step.key,
        current=current,
        proposed=proposed,
        why=f"99 of 100 calls took at most {longest:.3g} s ({len(stats.durations)} calls){stopped}",
        samples=len(stats.durations),
        saves=0.0 if current is None or is_longer else stats.timed_out * (current - proposed) / max(runs, 1),
    )


def _attempts(step: StepDefinition, stats: StepStats, runs: int) -> Finding | None:
    if stats.executions < ENOUGH or not stats.retried:
        return None
    if stats.failed and stats.recovered >= 3:  # noqa: PLR2004  fewer may be chance
        return _more_attempts(step, stats)
    if stats.retried >= ENOUGH and not stats.recovered and step.retries > 2:  # noqa: PLR2004  one retry is left
        spared = stats.retried * (step.retries - 2)
        seconds = (stats.failed_attempt_seconds + stats.waits) / stats.failed_attempts
        _, upper = bounds_of_share(0, stats.retried)
        return Finding(
            kind="attempts",
            step=step.key,
            current=step.retries,
            proposed=2,
            why=f"of {stats.retried} steps that failed once none completed later (at most {upper:.0%} would)",
            samples=stats.retried,
            saves=spared * seconds / max(runs, 1),
        )
    return None


def _more_attempts(step: StepDefinition, stats: StepStats) -> Finding | None:
    first = stats.retried / stats.executions
    later = (stats.failed_attempts - stats.retried) / max(1, stats.failed_attempts - stats.failed)
    if not 0 < later < 1:
        return None
    wanted = 1 + math.ceil(math.log(TOLERATED_FAILURES / first) / math.log(later)) if first > TOLERATED_FAILURES else 1
    proposed = min(MOST_ATTEMPTS, wanted)
    if proposed <= step.retries:
        return None
    return Finding(
        kind="attempts",
        step=step.key,
        current=step.retries,
        proposed=proposed,
        why=f"{first:.0%} of {stats.executions} executions failed at first, and {later:.0%} of the attempts after "
        f"that; {stats.failed} had no attempt left; with {proposed}, fewer than 1 in 1,000 would",
        samples=stats.executions,
    )


def _backoff(step: StepDefinition, stats: StepStats, runs: int) -> Finding | None:
    if stats.recovered < ENOUGH_RETRIES:
        return None
    first = step.backoff.first.total_seconds()
    share = stats.recovered_at_once / stats.recovered
    usual = quantile(stats.recovery_seconds, 0.5)
    if share >= 0.9 and first > SHORTEST_WAIT:  # noqa: PLR2004  nearly always
        proposed = max(SHORTEST_WAIT, round(first / 2, 3))
        why = f"{share:.0%} of {stats.recovered} retries succeeded at once, after {usual:.3g} s; half the wait may do"
        saves = stats.retried * (first - proposed) / max(runs, 1)
    elif share < 0.5 and usual > first * (1 + WORTH_IT):  # noqa: PLR2004  less often than not
        proposed = min(rounded_up(usual), step.backoff.longest.total_seconds())
        why = f"only {share:.0%} of {stats.recovered} retries succeeded at once; half of all needed {usual:.3g} s"
        saves = 0.0
    else:
        return None
    if proposed == first:
        return None
    return Finding(
        kind="backoff",
        step=step.key,
        current=backoff_as_json(step.backoff),
        proposed={**backoff_as_json(step.backoff), "first": proposed},
        why=why,
        samples=stats.recovered,
        saves=saves,
    )
