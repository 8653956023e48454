"""Whether a regular expression can read one text in ever more ways.

Python's `re` tries one way after the other. Where a loop can read the same characters in two ways, a text that fails
after n rounds was tried in 2ⁿ ways: thirty lines of a stranger's file stop a process for good, since nothing else of
Python runs meanwhile.

The expression becomes a graph of its positions, each with the characters that it takes (Glushkov's automaton). Two
readers walk through it side by side, each step by the same character. If they can start together, part, and be together
again where they started, there are two ways around a loop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# The parser of `re` is the only one that reads expressions as `re` does.
from re import _constants as ops, _parser  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]  # isort: skip

SAMPLES: Final = "".join(map(chr, range(128))) + "\x85\xa0éß中あ👍²\u2028\u0301\u066a«»“”„—…"
MANY: Final = 4
"""Rounds from which on a bounded loop counts as one without a bound."""


@dataclass(slots=True)
class _Part:
    """Where a part of the expression can begin and end, and whether it can be empty."""

    first: set[int] = field(default_factory=set[int])
    last: set[int] = field(default_factory=set[int])
    is_nullable: bool = True


class _Graph:
    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.takes: list[int] = []
        """The samples that each position takes, as bits."""
        self.follows: list[Counter[int]] = []
        self.inside: list[Sequence[Any]] = []
        """What is read without going back into it: it counts by itself."""

    def of(self, items: Iterable[Any]) -> _Part:
        whole = _Part()
        for op, value in items:
            whole = self._joined(whole, self._part(op, value))
        return whole

    def _part(self, op: Any, value: Any) -> _Part:
        if op in {ops.AT, ops.GROUPREF}:
            return _Part()
        if op is ops.SUBPATTERN:
            return self._group(*value)
        if op is ops.BRANCH:
            return self._branches(value[1])
        if op in {ops.MAX_REPEAT, ops.MIN_REPEAT}:
            return self._repeated(*value)
        if op in _APART:
            self.inside.append(value[_APART[op]] if op is not ops.ATOMIC_GROUP else value)
            return _Part()
        return self._position(self._taken(op, value))

    def _group(self, _number: int, on: int, off: int, inner: Any) -> _Part:
        before, self.flags = self.flags, self.flags | on & ~off
        part = self.of(inner)
        self.flags = before
        return part

    def _branches(self, branches: Iterable[Any]) -> _Part:
        whole = _Part(is_nullable=False)
        for part in map(self.of, branches):
            whole.first |= part.first
            whole.last |= part.last
            whole.is_nullable |= part.is_nullable
        return whole

    def _repeated(self, least: int, most: Any, inner: Any) -> _Part:
        if most == 1:
            part = self.of(inner)
            return _Part(part.first, part.last, part.is_nullable or least == 0)
        if isinstance(most, int) and most <= MANY:
            whole = _Part()
            for number in range(most):
                part = self.of(inner)
                whole = self._joined(whole, _Part(part.first, part.last, part.is_nullable or number >= least))
            return whole
        part = self.of(inner)
        for end in part.last:
            self.follows[end].update(part.first)
        return _Part(part.first, part.last, part.is_nullable or least == 0)

    def _joined(self, one: _Part, two: _Part) -> _Part:
        for end in one.last:
            self.follows[end].update(two.first)
        return _Part(
            one.first | two.first if one.is_nullable else one.first,
            two.last | one.last if two.is_nullable else two.last,
            one.is_nullable and two.is_nullable,
        )

    def _position(self, taken: int) -> _Part:
        self.takes.append(taken)
        self.follows.append(Counter())
        number = len(self.takes) - 1
        return _Part({number}, {number}, is_nullable=False)

    def _taken(self, op: Any, value: Any) -> int:
        """The samples that one character of the expression stands for, asked of `re` itself."""
        return sum(1 << number for number, sample in enumerate(SAMPLES) if self._takes(op, value, sample))

    def _takes(self, op: Any, value: Any, sample: str) -> bool:
        if op is ops.ANY:
            return sample != "\n" or bool(self.flags & re.DOTALL)
        if op is ops.IN:
            is_negated = bool(value) and value[0][0] is ops.NEGATE
            return any(self._takes(kind, each, sample) for kind, each in value[is_negated:]) is not is_negated
        if op is ops.CATEGORY:
            return sample in _CATEGORIES[value]
        if op is ops.RANGE:
            low, high = value
            return any(low <= ord(each) <= high for each in self._cases(sample))
        if op is ops.NOT_LITERAL:
            return all(ord(each) != value for each in self._cases(sample))
        assert op is ops.LITERAL, f"{op} is of no kind that is known"
        return any(ord(each) == value for each in self._cases(sample))

    def _cases(self, sample: str) -> str:
        return sample + sample.swapcase() if self.flags & re.IGNORECASE and len(sample.swapcase()) == 1 else sample


_APART: Final = {ops.POSSESSIVE_REPEAT: 2, ops.ATOMIC_GROUP: 0, ops.ASSERT: 1, ops.ASSERT_NOT: 1}
"""What is read without going back into it, and where in the parser's value its items stand."""
_CATEGORIES: Final = {
    ops.CATEGORY_DIGIT: frozenset(re.findall(r"\d", SAMPLES)),
    ops.CATEGORY_NOT_DIGIT: frozenset(re.findall(r"\D", SAMPLES)),
    ops.CATEGORY_SPACE: frozenset(re.findall(r"\s", SAMPLES)),
    ops.CATEGORY_NOT_SPACE: frozenset(re.findall(r"\S", SAMPLES)),
    ops.CATEGORY_WORD: frozenset(re.findall(r"\w", SAMPLES)),
    ops.CATEGORY_NOT_WORD: frozenset(re.findall(r"\W", SAMPLES)),
}


def is_ambiguous(pattern: re.Pattern[Any]) -> bool:
    """Whether some loop of the expression can read some text in two ways."""
    text = pattern.pattern
    source = text.decode("latin-1") if isinstance(text, bytes) else text
    return any(_has_two_ways(graph) for graph in _graphs(_parser.parse(source, pattern.flags), pattern.flags))


def _graphs(items: Iterable[Any], flags: int) -> Iterator[_Graph]:
    graph = _Graph(flags)
    graph.of(items)
    yield graph
    for inside in graph.inside:
        yield from _graphs(inside, flags)


def _has_two_ways(graph: _Graph) -> bool:
    after = {(each,): [(inner,) for inner in follows] for each, follows in enumerate(graph.follows)}
    around = {each: _round(after, (each,)) for each in range(len(graph.takes))}
    if any(
        ways > 1 and (two,) in around[one] for one, follows in enumerate(graph.follows) for two, ways in follows.items()
    ):
        return True
    pairs = {
        (one, two): [(a, b) for a in graph.follows[one] for b in graph.follows[two] if graph.takes[a] & graph.takes[b]]
        for one in around
        for two in around
        if around[one] and around[two]
    }
    return any(one != two for each in around if around[each] for one, two in _round(pairs, (each, each)))


type _Node = tuple[int, ...]


def _round(after: Mapping[_Node, Iterable[_Node]], start: _Node) -> set[_Node]:
    """What can be reached from the node, and can reach it."""
    before: dict[_Node, list[_Node]] = {}
    for node in (reached := _reached(after, start)):
        for each in after.get(node, ()):
            before.setdefault(each, []).append(node)
    return reached & _reached(before, start)


def _reached(after: Mapping[_Node, Iterable[_Node]], start: _Node) -> set[_Node]:
    found, waiting = set[_Node](), [start]
    while waiting:
        for each in after.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found
