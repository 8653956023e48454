"""Chooses the cuts that make the best articles: an exact dynamic programme over the units of a document.

Articles cost what their length is away from the target. Cuts cost by what they separate; those at headings are gains.
No article is longer than maxsize unless it is a single unit. Of all ways to cut, the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from soliplex.ingester.segmenter.sizes import Sizes
from soliplex.ingester.segmenter.units import Before, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TOO_LONG: Final = 2.0
_TOO_SHORT: Final = 1.0
"""The cost of an article that has half the target's length; one of a quarter costs four times as much."""
_PRICES: Final = {Before.SENTENCES: 3.0, Before.ITEMS: 1.5, Before.BLOCKS: 1.0}
_ANNOUNCED: Final = 3.0
"""The price of a cut between blocks, the first of which ends in a colon."""
_TOPIC: Final = -0.5
"""The price of a cut where the topic changes."""
_HEADINGS: Final = (-4.0, -3.0, -2.0, -1.5)
"""The prices of cuts at headings: of the outermost level in the document, the next, and so on."""


def chosen_starts(units: Sequence[Unit], topics: frozenset[int], sizes: Sizes) -> list[int]:
    """The numbers of the units that articles begin with, the first among them."""
    import numpy as np  # noqa: PLC0415  only where something is cut

    ends = np.cumsum([unit.size for unit in units], dtype=np.int64)
    starts = ends - np.array([unit.size for unit in units], dtype=np.int64)
    prices = np.array(_prices(units, topics))
    best = np.zeros(len(units) + 1)
    came_from = np.zeros(len(units) + 1, dtype=np.int64)
    first = 0
    for last in range(len(units)):
        while first < last and ends[last] - starts[first] > sizes.maxsize:
            first += 1
        lengths = ends[last] - starts[first : last + 1]
        costs = best[first : last + 1] + prices[first : last + 1] + _length_costs(lengths, sizes)
        cheapest = int(np.argmin(costs))
        best[last + 1], came_from[last + 1] = costs[cheapest], first + cheapest
    return _walked_back(came_from)


def _prices(units: Sequence[Unit], topics: frozenset[int]) -> list[float]:
    levels = sorted({unit.level for unit in units if unit.level})
    ranks = {level: min(rank, len(_HEADINGS) - 1) for rank, level in enumerate(levels)}

    def price(number: int, unit: Unit) -> float:
        if number == 0:
            return 0.0
        if unit.level:
            return _HEADINGS[ranks[unit.level]]
        if units[number - 1].announces:
            return _ANNOUNCED
        return _TOPIC if number in topics else _PRICES[unit.before]

    return [price(number, unit) for number, unit in enumerate(units)]


def _length_costs(lengths: NDArray[np.int64], sizes: Sizes) -> NDArray[np.float64]:
    import numpy as np  # noqa: PLC0415

    away = np.log2(np.maximum(lengths, 1) / sizes.target)
    return np.where(away > 0, _TOO_LONG, _TOO_SHORT if sizes.merges_small else 0.0) * away**2


def _walked_back(came_from: NDArray[np.int64]) -> list[int]:
    starts = list[int]()
    place = len(came_from) - 1
    while place > 0:
        place = int(came_from[place])
        starts.append(place)
    return starts[::-1]
