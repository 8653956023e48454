"""Which lines two texts have in common, with work that grows with their length and not with its square.

`difflib` compares each line with each that is equal to it, over and over: minutes for a hundred thousand lines. Here it
only sees short stretches. What both texts begin and end with is set aside; lines that stand once in each are taken as
fixed points, as far as they are in the same order (patience diff); and what lies between two of these is compared by
`difflib` if it is short, or else counts as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import takewhile
from typing import Final, NamedTuple, override

LARGEST_STRETCH: Final = 1_000_000
"""Lines of the one times lines of the other, of a stretch that is compared line by line."""
MOST_COMPARED: Final = 30_000_000
"""The limit for all stretches of two texts together: some seconds of work."""


class Block(NamedTuple):
    """A stretch of equal lines: how many, and where they begin in each text."""

    old: int
    new: int
    size: int


class _Grouped(SequenceMatcher[str]):
    """Puts blocks that are known together with what lies between them, as a unified diff shows it."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__(None, "", "")
        self._blocks = [Match(*block) for block in blocks]

    @override
    def get_matching_blocks(self) -> list[Match]:
        return self._blocks


class _Span(NamedTuple):
    old: int
    old_end: int
    new: int
    new_end: int


def unified(before: str, after: str, names: Sequence[str], context: int = 3) -> list[str]:
    """The lines of a unified diff, without line ends; none where the texts are the same."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    for group in _Grouped([*equal_blocks(old, new), Block(len(old), len(new), 0)]).get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[old_start:old_end]]
                continue
            lines += [f"-{line}" for line in old[old_start:old_end]]
            lines += [f"+{line}" for line in new[new_start:new_end]]
    return [f"--- {names[0]}", f"+++ {names[1]}", *lines] if lines else []


def equal_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """The stretches that stay, in order, each as long as it can be."""
    return list(_joined(_Comparison(old, new).blocks()))


@dataclass(slots=True)
class _Comparison:
    old: Sequence[str]
    new: Sequence[str]
    remaining: int = MOST_COMPARED

    def blocks(self) -> Iterator[Block]:
        start = _common(zip(self.old, self.new, strict=False))
        rest = min(len(self.old), len(self.new)) - start
        end = min(rest, _common(zip(reversed(self.old), reversed(self.new), strict=False)))
        yield Block(0, 0, start)
        yield from self._between(_Span(start, len(self.old) - end, start, len(self.new) - end))
        yield Block(len(self.old) - end, len(self.new) - end, end)

    def _between(self, span: _Span) -> Iterator[Block]:
        """The blocks of a part, between lines that stand once in each."""
        old_at, new_at = span.old, span.new
        for old, new in self._fixed_points(span):
            yield from self._short(_Span(old_at, old, new_at, new))
            yield Block(old, new, 1)
            old_at, new_at = old + 1, new + 1
        yield from self._short(_Span(old_at, span.old_end, new_at, span.new_end))

    def _fixed_points(self, span: _Span) -> list[tuple[int, int]]:
        old_lines, new_lines = self.old[span.old : span.old_end], self.new[span.new : span.new_end]
        old_counts, new_counts = Counter(old_lines), Counter(new_lines)
        places = {line: span.new + at for at, line in enumerate(new_lines) if new_counts[line] == 1}
        pairs = [
            (span.old + at, places[line])
            for at, line in enumerate(old_lines)
            if old_counts[line] == 1 and line in places
        ]
        return _longest_rising(pairs)

    def _short(self, span: _Span) -> Iterator[Block]:
        size = (span.old_end - span.old) * (span.new_end - span.new)
        if not 0 < size <= min(LARGEST_STRETCH, self.remaining):
            return
        self.remaining -= size
        old, new = self.old[span.old : span.old_end], self.new[span.new : span.new_end]
        for found in SequenceMatcher(None, old, new).get_matching_blocks():
            yield Block(span.old + found.a, span.new + found.b, found.size)


def _common(pairs: Iterator[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest selection of pairs in which both numbers rise. The pairs come sorted by their first number."""
    ends: list[int] = []
    """For each length, the smallest second with which a row of that length ends."""
    last: list[int] = []
    """For each length, which pair that is."""
    before: list[int] = []
    for at, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [at]
    rising: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        rising.append(pairs[at])
        at = before[at]
    return rising[::-1]


def _joined(blocks: Iterator[Block]) -> Iterator[Block]:
    held = Block(0, 0, 0)
    for block in blocks:
        if (block.old, block.new) == (held.old + held.size, held.new + held.size):
            held = held._replace(size=held.size + block.size)
        elif block.size:
            if held.size:
                yield held
            held = block
    if held.size:
        yield held


def _range(start: int, stop: int) -> str:
    """As `diff -u` writes it: lines count from 1, and a single line has no length."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
