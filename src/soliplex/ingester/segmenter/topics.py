"""Where the topic of a text changes, told from how close its parts are in meaning.

A segment costs what its parts differ from its own mean; each cut costs the same. The cheapest way to cut is found by an
exact dynamic programme, so how many segments there are follows from the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from soliplex.ingester.segmenter.sizes import Sizes
from soliplex.ingester.segmenter.units import Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST_SEGMENT: Final = 200
"""Units among which the programme looks back."""


def topic_starts(
    markdown: str, units: Sequence[Unit], sizes: Sizes, embed: Callable[[Sequence[str]], NDArray[np.float32]] | None
) -> frozenset[int]:
    """The numbers of the units with which a topic begins, in sections that are too long for one article."""
    if embed is None:
        return frozenset()
    found = set[int]()
    for first, last in _sections(units):
        if sum(unit.size for unit in units[first:last]) > sizes.target:
            texts = [markdown[unit.start : unit.end] for unit in units[first:last]]
            found |= {first + start for start in cheapest_cuts(embed(texts))}
    return frozenset(found)


def _sections(units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
    starts = [number for number, unit in enumerate(units) if unit.level or number == 0]
    yield from zip(starts, [*starts[1:], len(units)], strict=True)


def cheapest_cuts(vectors: NDArray[np.float32]) -> list[int]:
    """The rows before which to cut."""
    import numpy as np  # noqa: PLC0415  only where something is cut

    count = len(vectors)
    sums = np.vstack([np.zeros(vectors.shape[1]), np.cumsum(vectors, axis=0, dtype=np.float64)])
    squares = np.concatenate([[0.0], np.cumsum((vectors.astype(np.float64) ** 2).sum(axis=1))])
    steps = ((vectors[1:] - vectors[:-1]) ** 2).sum(axis=1) / 2
    price = float(steps.mean()) if len(steps) else 0.0
    best, came_from = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        starts = np.arange(max(0, end - _LONGEST_SEGMENT), end)
        scatter = squares[end] - squares[starts] - ((sums[end] - sums[starts]) ** 2).sum(axis=1) / (end - starts)
        costs = best[starts] + scatter + price
        cheapest = int(np.argmin(costs))
        best[end], came_from[end] = costs[cheapest], starts[cheapest]
    return _walked_back(came_from)


def _walked_back(came_from: NDArray[np.int64]) -> list[int]:
    cuts, place = list[int](), len(came_from) - 1
    while place > 0:
        place = int(came_from[place])
        cuts.append(place)
    return [cut for cut in reversed(cuts) if cut]
