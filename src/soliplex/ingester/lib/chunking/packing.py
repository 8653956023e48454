"""Chooses where a sequence is cut into groups that fit, so that a change moves few of the cuts.

Filling each group to the brim would move every later cut when a word is inserted. Instead each cut is made where the
content says: of the places that leave the group at least half full, the one whose following text has the least hash.
After a change the cuts soon fall on the same places as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32


@dataclass(frozen=True, slots=True)
class Part:
    """Something that stays whole: its weight, and how well a group may begin with it."""

    weight: int
    rank: int
    """A cut is made before a part of the lowest rank there is."""
    digest: int

    @classmethod
    def of(cls, text: str, weight: int, rank: int = 0) -> Part:
        return cls(weight, rank, crc32(text[:200].encode("utf-8", "surrogatepass")))


def pack(parts: Sequence[Part], limit: int) -> list[range]:
    """Groups of neighbours, each of at most the limit; a part that is heavier stands alone."""
    groups = list[range]()
    start = 0
    while start < len(parts):
        end = _end_of_group(parts, start, limit)
        groups.append(range(start, end))
        start = end
    return groups


def _end_of_group(parts: Sequence[Part], start: int, limit: int) -> int:
    candidates = list[int]()
    weight = parts[start].weight
    end = start + 1
    while end < len(parts) and weight + parts[end].weight <= limit:
        if weight * 2 >= limit:
            candidates.append(end)
        weight += parts[end].weight
        end += 1
    if end == len(parts):
        return end
    return min((*candidates, end), key=lambda place: (parts[place].rank, parts[place].digest))
