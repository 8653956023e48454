"""Where the topic of a text changes, told from what its passages are about and from cues between them.

A topic costs what its passages differ in meaning from their own mean. Each cut has a price: it is set in units of how
much neighbouring passages of this very text differ, and is lower where cues speak for a new topic. The cheapest way to
cut is found by an exact dynamic programme. So how many topics there are follows from the text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from soliplex.ingester.segmenter.cues import Passage, ties_of_sentences, worth_of_cuts
from soliplex.ingester.segmenter.markdown_blocks import BlockKind
from soliplex.ingester.segmenter.sizes import Sizes
from soliplex.ingester.segmenter.units import Before, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

type Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Vectors of texts, a row each; their angles tell how close the texts are in meaning."""

LONGEST_TOPIC: Final = 200
"""Most passages of a topic. A longer one is cut: so the time for a text grows with its length, not with its square."""
BETWEEN_BLOCKS: Final = 2.6
"""The price of a cut between two plain paragraphs, in units of how much neighbours differ."""
WITHIN_PARAGRAPH: Final = 1.0
"""By how much the price is higher between two sentences of a paragraph."""
BETWEEN_SENTENCES: Final = 1.75
"""The price in a text that has no paragraphs: sentences say less each, so that their differences are more."""
_LOWEST: Final = 1.3
_HIGHEST: Final = 2.8
MOST_SENTENCES: Final = 500
"""Most sentences of a text that is embedded sentence by sentence: the language model needs time for each."""
_LEVELS: Final = 15
"""How many prices, from the lowest to the highest, are tried for a text without paragraphs."""
_LEANING: Final = 0.3
"""How soon prices further away from the usual one count less, on a scale of logarithms."""
_LONGEST_TEXT: Final = 2000
"""Characters of a passage that are embedded."""


def topic_starts(
    markdown: str, units: Sequence[Unit], sizes: Sizes, embed: Embed | None, embed_sentences: Embed | None = None
) -> frozenset[int]:
    """The numbers of the units with which a topic begins, in sections that are too long for one article."""
    found = set[int]()
    for first, last in _sections(units):
        if sum(unit.size for unit in units[first:last]) > sizes.target:
            starts, passages = _passages(markdown, units, first, last)
            found |= {starts[cut] for cut in topic_cuts(passages, embed, embed_sentences)}
    return frozenset(found)


def topic_cuts(
    passages: Sequence[Passage], embed: Embed | None = None, embed_sentences: Embed | None = None
) -> list[int]:
    """The numbers of the passages, from 1, with which another topic begins.

    A text without paragraphs, where it is not long, is embedded by `embed_sentences`, if that is given.
    """
    if len(passages) < 2:  # noqa: PLR2004
        return []
    are_sentences = all(passage.goes_on_inside for passage in passages[1:])
    chosen = embed_sentences if are_sentences and len(passages) <= MOST_SENTENCES else None
    vectors = _centred(_embedded([passage.text[:_LONGEST_TEXT] for passage in passages], chosen or embed))
    return _steadiest(vectors, passages) if are_sentences else cheapest_cuts(vectors, _prices(passages)[:, None])[0]


def _embedded(texts: Sequence[str], embed: Embed | None) -> NDArray[np.float32] | NDArray[np.float64]:
    return word_counts(texts) if embed is None else embed(texts)


def _sections(units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
    starts = [number for number, unit in enumerate(units) if unit.level or number == 0]
    yield from pairwise([*starts, len(units)])


def _passages(markdown: str, units: Sequence[Unit], first: int, last: int) -> tuple[list[int], list[Passage]]:
    """The passages of a section, and the numbers of the units that they begin with. A list is one passage."""
    starts, passages = list[int](), list[Passage]()
    for number in range(first, last):
        unit = units[number]
        if number > first and unit.kind is BlockKind.LIST_ITEM and unit.before is Before.ITEMS:
            continue
        starts.append(number)
    for number, following in pairwise([*starts, last]):
        unit, end = units[number], units[following - 1].end
        passages.append(Passage(markdown[unit.start : end], unit.kind, unit.before is Before.SENTENCES))
    return starts, passages


def _prices(passages: Sequence[Passage]) -> NDArray[np.float64]:
    import numpy as np  # noqa: PLC0415  only where something is cut

    inside = np.array([passage.goes_on_inside for passage in passages])
    return np.where(inside, BETWEEN_BLOCKS + WITHIN_PARAGRAPH, BETWEEN_BLOCKS - worth_of_cuts(passages))


def _steadiest(vectors: NDArray[np.float64], passages: Sequence[Passage]) -> list[int]:
    """The cuts of the number that stays the same over the widest range of prices: such a number is the text's own."""
    import numpy as np  # noqa: PLC0415

    away = np.linspace(np.log(_LOWEST / BETWEEN_SENTENCES), np.log(_HIGHEST / BETWEEN_SENTENCES), _LEVELS)
    ways = cheapest_cuts(vectors, BETWEEN_SENTENCES * np.exp(away)[None, :] + ties_of_sentences(passages)[:, None])
    counts = np.array([len(cuts) for cuts in ways])
    votes = np.exp(-((away / _LEANING) ** 2) / 2)
    best = max(set(counts.tolist()), key=lambda count: (float(votes[counts == count].sum()), -count))
    same = np.flatnonzero(counts == best)
    return ways[int(same[len(same) // 2])]


def cheapest_cuts(vectors: NDArray[np.float64], prices: NDArray[np.float64]) -> list[list[int]]:
    """The rows before which to cut: a list for each column of prices, which says what a cut before each row costs."""
    import numpy as np  # noqa: PLC0415

    count, levels = prices.shape
    unit = _difference_of_neighbours(vectors)
    sums = np.vstack([np.zeros(vectors.shape[1]), np.cumsum(vectors, axis=0)])
    squares = np.concatenate([[0.0], np.cumsum((vectors**2).sum(axis=1))])
    best = np.zeros((count + 1, levels))
    came_from = np.zeros((count + 1, levels), dtype=np.int64)
    for end in range(1, count + 1):
        first = max(0, end - LONGEST_TOPIC)
        between = sums[end] - sums[first:end]
        scatter = squares[end] - squares[first:end] - (between**2).sum(axis=1) / np.arange(end - first, 0, -1)
        costs = best[first:end] + prices[first:end] + (scatter / unit)[:, None]
        cheapest = np.argmin(costs, axis=0)
        best[end] = np.take_along_axis(costs, cheapest[None, :], axis=0)[0]
        came_from[end] = first + cheapest
    return [_walked_back(came_from[:, level]) for level in range(levels)]


def _difference_of_neighbours(vectors: NDArray[np.float64]) -> float:
    steps = ((vectors[1:] - vectors[:-1]) ** 2).sum(axis=1) / 2
    return float(steps.mean()) or 1.0


def _walked_back(came_from: NDArray[np.int64]) -> list[int]:
    cuts, place = list[int](), len(came_from) - 1
    while place > 0:
        place = int(came_from[place])
        cuts.append(place)
    return [cut for cut in reversed(cuts) if cut]


def _centred(vectors: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors without what all of them share, and of equal length."""
    import numpy as np  # noqa: PLC0415

    moved = vectors - vectors.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    return moved / np.where(lengths > 0, lengths, 1.0)


_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_STEM: Final = 6
_COLUMNS: Final = 512


def word_counts(texts: Sequence[str]) -> NDArray[np.float64]:
    """Vectors for where no embedder is: which words a text has, those that few of the texts have counting more."""
    import numpy as np  # noqa: PLC0415

    counts = np.zeros((len(texts), _COLUMNS))
    for row, text in enumerate(texts):
        for word in _WORD.findall(text.lower()):
            counts[row, zlib.crc32(word[:_STEM].encode()) % _COLUMNS] += 1
    having = np.count_nonzero(counts, axis=0)
    return np.sqrt(counts) * np.log((1 + len(texts)) / (1 + having))
