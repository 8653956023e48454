"""Cuts a block that is too heavy for one chunk: text between sentences, code and tables between lines.

A piece of a table begins with the table's header, a piece of code with its fence. A piece of text repeats the end of
the one before it, as far as `overlap` allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from soliplex.ingester.lib.chunking.blocks import Block, Kind
from soliplex.ingester.lib.chunking.packing import Part, pack
from soliplex.ingester.lib.chunking.tokens import weigh

# The full stops are those of Latin, then those of Chinese and Japanese, which no space follows.
_SENTENCE: Final = re.compile(
    ".+?(?:[.!?\u2026][\"'\u201d\u2019)\\]]*(?=\\s)|[\u3002\uff01\uff1f]|\\n|\\Z)\\s*", re.DOTALL
)
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+\Z")
# A word of more letters than this is cut: nothing else would keep a page of base64 within its limit.
_WORD: Final = re.compile(r"\S{1,40}\s*|\s+")


class Span(NamedTuple):
    """A stretch of a text that is not cut, its weight, and how well a piece may begin there (least is best)."""

    start: int
    end: int
    weight: int
    rank: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """What every piece of a block begins and ends with, and the body between."""

    body: str
    prefix: str = ""
    suffix: str = ""


class Weighed(NamedTuple):
    """A block, and what it weighs."""

    block: Block
    weight: int


def split(block: Block, limit: int, overlap: int) -> Iterator[Weighed]:
    """Pieces of the block, none heavier than the limit, which is at least a few words."""
    shape = _shape(block, limit)
    frame = sum(weigh([shape.prefix, shape.suffix]))
    room = limit - frame
    shared = min(overlap, room // 2) if block.kind in {Kind.TEXT, Kind.LIST_ITEM} else 0
    spans = _spans(shape.body, _SENTENCE if block.kind in {Kind.TEXT, Kind.LIST_ITEM} else _LINE, room - shared)
    parts = [Part(shape.body[span.start : span.start + 80], span.weight, span.rank) for span in spans]
    for number, group in enumerate(pack(parts, room - shared, is_one_topic=True)):
        first = _reaching_back(spans, group.start, shared) if number else group.start
        members = spans[first : group.stop]
        text = shape.body[members[0].start : members[-1].end]
        if text.strip():
            joiner = block.joiner if number == 0 else "\n\n"
            piece = replace(block, text=f"{shape.prefix}{text.strip('\n').rstrip()}{shape.suffix}", joiner=joiner)
            yield Weighed(piece, frame + sum(span.weight for span in members))


def _shape(block: Block, limit: int) -> _Shape:
    match block.kind:
        case Kind.TABLE if block.header_lines:
            lines = block.text.split("\n")
            header = "\n".join(lines[: block.header_lines]) + "\n"
            # A header that leaves no room for rows is cut like a row, once.
            fits = weigh([header])[0] * 2 <= limit
            return _Shape("\n".join(lines[block.header_lines :]), header) if fits else _Shape(block.text)
        case Kind.CODE:
            return _fences(block.text)
        case _:
            return _Shape(block.text)


def _fences(text: str) -> _Shape:
    opening, _, rest = text.partition("\n")
    fence = re.match(r"\s*(`{3,}|~{3,})", opening)
    if fence is None or len(opening) > _LONGEST_FENCE:
        return _Shape(text)
    body = rest.rstrip()
    if body.endswith(fence[1]):
        body = body[: -len(fence[1])].rstrip()
    return _Shape(body, f"{opening.strip()}\n", f"\n{fence[1]}")


_LONGEST_FENCE: Final = 40


def _spans(text: str, unit: re.Pattern[str], limit: int) -> list[Span]:
    """Sentences or lines; those heavier than the limit as words, and such words as parts."""
    spans = list[Span]()
    for span in _weighed(text, ((found.start(), found.end()) for found in unit.finditer(text)), rank=0):
        spans += [span] if span.weight <= limit else _words(text, span, limit)
    return spans


def _words(text: str, span: Span, limit: int) -> Iterator[Span]:
    found = _WORD.finditer(text, span.start, span.end)
    for word in _weighed(text, ((word.start(), word.end()) for word in found), rank=1):
        first = word._replace(rank=0) if word.start == span.start else word
        yield from [first] if word.weight <= limit else _letters(first, limit)


def _letters(word: Span, limit: int) -> Iterator[Span]:
    """Parts of a word that is too heavy by itself. No letter is more than one token."""
    step = max(limit // 2, 1)
    for start in range(word.start, word.end, step):
        end = min(start + step, word.end)
        yield Span(start, end, end - start, word.rank)


def _weighed(text: str, places: Iterable[tuple[int, int]], rank: int) -> Iterator[Span]:
    known: Sequence[tuple[int, int]] = list(places)
    weights = weigh(text[start:end] for start, end in known)
    return (Span(start, end, weight, rank) for (start, end), weight in zip(known, weights, strict=True))


def _reaching_back(spans: Sequence[Span], first: int, room: int) -> int:
    """Where a piece begins that repeats as much of the one before it as there is room for."""
    while first > 0 and spans[first - 1].weight <= room:
        first -= 1
        room -= spans[first].weight
    return first
