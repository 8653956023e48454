"""Whether a change did good: the runs after it beside those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from soliplex.ingester.goals.optimizer.measurements import RunFacts
from soliplex.ingester.goals.optimizer.statistics import bounds_of_share, chance_of_smaller, quantile
from soliplex.ingester.lib.enums import Standing

ENOUGH_RUNS: Final = 10
"""Runs on either side from which something is concluded."""
WORSE: Final = 1.05
"""Runs are worse if they take more than this many times as long: a smaller loss is not worth a change back."""
PATIENCE: Final = 50
"""Runs after which a change that is neither better nor worse is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The runs before and after a change."""

    standing: Standing
    verdict: str
    measured_before: float | None
    measured_after: float | None
    runs_before: int
    runs_after: int
    failed_before: int
    failed_after: int


def compared(before: Sequence[RunFacts], after: Sequence[RunFacts]) -> Comparison:
    """What the runs say of a change between them."""
    old, new = (sorted(run.seconds for run in runs if not run.has_failed) for runs in (before, after))
    failed_before, failed_after = (sum(run.has_failed for run in runs) for runs in (before, after))
    standing, verdict = _judged(before, after, old, new, failed_before, failed_after)
    return Comparison(
        standing=standing,
        verdict=verdict,
        measured_before=quantile(old, 0.5) if old else None,
        measured_after=quantile(new, 0.5) if new else None,
        runs_before=len(before),
        runs_after=len(after),
        failed_before=failed_before,
        failed_after=failed_after,
    )


def _judged(
    before: Sequence[RunFacts],
    after: Sequence[RunFacts],
    old: Sequence[float],
    new: Sequence[float],
    failed_before: int,
    failed_after: int,
) -> tuple[Standing, str]:
    if len(before) < ENOUGH_RUNS or len(after) < ENOUGH_RUNS:
        return Standing.APPLIED, f"{len(after)} of {ENOUGH_RUNS} runs that are compared have ended"
    _, most = bounds_of_share(failed_before, len(before))
    least, _ = bounds_of_share(failed_after, len(after))
    failures = f"{failed_after} of {len(after)} runs failed, before {failed_before} of {len(before)}"
    if least > most or (failed_after == len(after) and failed_before < len(before)):
        return Standing.TAKEN_BACK, failures
    if len(old) < ENOUGH_RUNS or len(new) < ENOUGH_RUNS:
        return Standing.APPLIED, f"too few runs completed to compare their time; {failures}"
    times = f"runs take {quantile(new, 0.5):.3g} s, before {quantile(old, 0.5):.3g} s"
    chance, error = chance_of_smaller(new, old)
    if quantile(new, 0.5) > WORSE * quantile(old, 0.5) and chance + error < 0.5:  # noqa: PLR2004  even
        return Standing.TAKEN_BACK, times
    if chance - error > 0.5 or len(after) >= PATIENCE:  # noqa: PLR2004  as above
        return Standing.KEPT, times
    return Standing.APPLIED, f"{times}; that may be chance"
