"""How far cuts are from the truth.

Cuts are told as one truth value for each gap between two neighbouring units of a text: whether it is cut there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

type Gaps = Sequence[bool]


@dataclass(frozen=True, slots=True)
class Pair:
    """What is true of a text, and what was found."""

    truth: Gaps
    found: Gaps


def gaps(starts: Iterable[int], units: int) -> list[bool]:
    """The gaps of a text of so many units, of which these begin a segment."""
    known = set(starts)
    return [unit in known for unit in range(1, units)]


def half_a_segment(truth: Gaps) -> int:
    """The usual width of the window: half of the mean length of the true segments."""
    segments = sum(truth) + 1
    return max(1, round((len(truth) + 1) / segments / 2))


def pk(truth: Gaps, found: Gaps, width: int | None = None) -> float:
    """Beeferman's Pk: how often truth and finding disagree whether the ends of a window are in one segment."""
    return fmean((true > 0) != (other > 0) for true, other in _counted(truth, found, width))


def window_diff(truth: Gaps, found: Gaps, width: int | None = None) -> float:
    """Pevzner and Hearst's WindowDiff: how often a window does not hold as many cuts as it should."""
    return fmean(true != other for true, other in _counted(truth, found, width))


def _counted(truth: Gaps, found: Gaps, width: int | None) -> list[tuple[int, int]]:
    """The cuts in each window: the true ones and those that were found."""
    width = min(width or half_a_segment(truth), len(truth))
    sums = [[0, *accumulate(map(int, cuts))] for cuts in (truth, found)]
    windows = range(len(truth) - width + 1)
    return [(sums[0][at + width] - sums[0][at], sums[1][at + width] - sums[1][at]) for at in windows]


def boundary_f1(pairs: Iterable[Pair]) -> float:
    """Of all cuts in all texts, at exactly the right place."""
    right = made = asked = 0
    for pair in pairs:
        right += sum(true and other for true, other in zip(pair.truth, pair.found, strict=True))
        made += sum(pair.found)
        asked += sum(pair.truth)
    return 2 * right / (made + asked) if made + asked else 1.0


def all_scores(pairs: Sequence[Pair]) -> dict[str, float]:
    """The mean over the texts, of F1 over the cuts. A text of a single unit has nothing to cut."""
    cuttable = [pair for pair in pairs if pair.truth]
    return {
        "pk": round(fmean(pk(pair.truth, pair.found) for pair in cuttable), 4),
        "windowdiff": round(fmean(window_diff(pair.truth, pair.found) for pair in cuttable), 4),
        "boundary_f1": round(boundary_f1(cuttable), 4),
        "documents": len(cuttable),
    }
