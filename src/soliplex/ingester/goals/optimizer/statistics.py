"""Numbers about how often and how long: shares with their bounds, quantiles, and which of two samples is smaller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_Z: Final = 1.96
"""The quantile of the normal distribution for bounds that hold in 95 of 100 cases."""


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the sorted values lies, between two of them if need be."""
    place = share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def bounds_of_share(found: int, total: int) -> tuple[float, float]:
    """Between which bounds a share lies (Wilson), seen in so many of so many cases."""
    if not total:
        return 0.0, 1.0
    share, square = found / total, _Z * _Z
    middle = share + square / (2 * total)
    spread = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    return max(0.0, (middle - spread) / (1 + square / total)), min(1.0, (middle + spread) / (1 + square / total))


def chance_of_smaller(new: Sequence[float], old: Sequence[float]) -> tuple[float, float]:
    """How probable a value of the new sample is smaller than one of the old (Mann, Whitney), and its bound of error."""
    wins = sum((a < b) + 0.5 * (a == b) for a in new for b in old)
    pairs = len(new) * len(old)
    error = _Z * math.sqrt((len(new) + len(old) + 1) / (12 * pairs))
    return wins / pairs, error


def rounded_up(seconds: float) -> float:
    """To two digits, upwards: what people read, and never less than was meant."""
    if seconds <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return round(math.ceil(round(seconds / unit, 9)) * unit, 6)
