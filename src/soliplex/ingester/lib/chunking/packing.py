"""Chooses where a sequence is cut into groups that fit: where the topic changes, and so that a change moves few cuts.

Filling each group to the brim would move every later cut when a word is inserted, and cut in the middle of topics.
Instead each cut is made where the text around it says: of the places that leave the group full enough, the one whose
text before it has the fewest words in common with the text after it, or, between the sentences of one paragraph, which
are about the same, the one whose following text has the least hash. After a change the cuts soon fall on the same
places as before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Final
from zlib import crc32

FULL_ENOUGH: Final = 0.3
"""Share of the limit from which on a group of paragraphs may end, where the topic changes."""
HALF_FULL: Final = 0.5
"""Share of the limit from which on a group of sentences may end."""
REACH: Final = 90
"""Weight of the text before and after a cut that is compared: some sentences."""
SHORTEST: Final = 6
"""Parts of less weight, on average, are scraps of lines: between them there are too many places to compare."""
_TELLING: Final = re.compile(r"[^\W\d_]{4,}")
"""Shorter words mostly say nothing of the topic, in whatever language."""
_STEM: Final = 7
"""Letters that words of one topic have in common, however they end."""
_WORDS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Part:
    """Something that stays whole: its text, its weight, and how well a group may begin with it."""

    text: str
    weight: int
    rank: int = 0
    """A cut is made before a part of the lowest rank there is."""

    @property
    def digest(self) -> int:
        """Tells places apart that are alike otherwise, the same way in each version of the text."""
        return crc32(self.text[:200].encode("utf-8", "surrogatepass"))


def pack(parts: Sequence[Part], limit: int, *, is_one_topic: bool = False) -> list[range]:
    """Groups of neighbours, each of at most the limit; a part that is heavier stands alone."""
    groups = list[range]()
    start = 0
    while start < len(parts):
        end = _end_of_group(parts, start, limit, is_one_topic=is_one_topic)
        groups.append(range(start, end))
        start = end
    return groups


def _end_of_group(parts: Sequence[Part], start: int, limit: int, *, is_one_topic: bool) -> int:
    least = limit * (HALF_FULL if is_one_topic else FULL_ENOUGH)
    candidates = list[int]()
    weight = parts[start].weight
    end = start + 1
    while end < len(parts) and weight + parts[end].weight <= limit:
        if weight >= least:
            candidates.append(end)
        weight += parts[end].weight
        end += 1
    if end == len(parts) or not candidates:
        return end
    candidates.append(end)
    lowest = min(parts[place].rank for place in candidates)
    best = [place for place in candidates if parts[place].rank == lowest]
    if is_one_topic or len(best) * SHORTEST > limit:
        return min(best, key=lambda place: parts[place].digest)
    return min(best, key=lambda place: (_likeness(parts, place), parts[place].digest))


def _likeness(parts: Sequence[Part], place: int) -> float:
    """How much the text before the place has in common with that after it, from 0 to 1."""
    before = _words_of(parts, range(place - 1, -1, -1))
    after = _words_of(parts, range(place, len(parts)))
    common = sum(count * after[word] for word, count in before.items() if word in after)
    return common / sqrt(_square(before) * _square(after)) if common else 0.0


def _words_of(parts: Sequence[Part], places: Iterable[int]) -> Counter[str]:
    """The words of these parts, from the first of them on as far as REACH goes."""
    found, weight = Counter[str](), 0
    for place in places:
        found.update(_words_in(parts[place].text))
        weight += parts[place].weight
        if weight >= REACH:
            break
    return found


def _square(words: Mapping[str, int]) -> int:
    return sum(count * count for count in words.values())


@lru_cache(maxsize=_WORDS_KEPT)
def _words_in(text: str) -> Mapping[str, int]:
    """The words that tell what the text is about, and how often they stand there."""
    return Counter(word[:_STEM] for word in _TELLING.findall(text.casefold()))
