"""Work on very many things that leaves the event loop free: in pieces of some milliseconds, and others between them.

Not in a thread: reading or writing a hundred megabytes of JSON is one call in C, for which all threads wait.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from itertools import batched
from json.decoder import JSONDecodeError
from typing import Any, Final, NoReturn

PIECE: Final = 5_000
"""Things that are worked on in one go."""
ROWS: Final = 500
"""Rows of a table that are read, or written as JSON, in one go: each takes as long as ten other things."""
TEXT: Final = 64 << 10
"""Characters that are read in one go. A key and its value may not be longer."""
LARGEST_PAGE: Final = 10_000
"""More rows than this are not read at once, whoever asks: they would have to be held in memory together."""
_BLANK: Final = " \t\r\n"


async def in_pieces[T](things: Iterable[T], size: int = PIECE) -> AsyncIterator[tuple[T, ...]]:
    """The things, so many at a time; others have their turn between."""
    for piece in batched(things, size):
        yield piece
        await asyncio.sleep(0)


async def json_in_pieces(mapping: Mapping[str, Any]) -> list[bytes]:
    """A large object as JSON; the pieces stand one after the other."""
    pieces = [b"{"]
    async for some in in_pieces(mapping.items()):
        text = json.dumps(dict(some), ensure_ascii=False, separators=(",", ":"))
        pieces.append((("," if len(pieces) > 1 else "") + text[1:-1]).encode())
    return [*pieces, b"}"]


async def json_array_in_pieces[T](items: Iterable[T], dump: Callable[[T], bytes], size: int = ROWS) -> list[bytes]:
    """A long list as JSON, each item as `dump` writes it; the pieces stand one after the other."""
    pieces = [b"["]
    async for some in in_pieces(items, size):
        pieces.append((b"," if len(pieces) > 1 else b"") + b",".join(map(dump, some)))
    return [*pieces, b"]"]


async def read_large_object(blocks: AsyncIterable[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The pairs of a JSON object, a piece after the other, while its bytes come. ValueError says what is wrong."""
    reader, decoder = _ObjectReader(), codecs.getincrementaldecoder("utf-8")()
    async for block in blocks:
        for start in range(0, len(block), TEXT):
            if found := reader.feed(decoder.decode(block[start : start + TEXT])):
                yield found
            await asyncio.sleep(0)
    if found := reader.feed(decoder.decode(b"", final=True), is_last=True):
        yield found


class _Incomplete(Exception):  # noqa: N818  no error: the rest has not come yet
    """The text ends before what was looked for."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _ObjectReader:
    """Reads an object from pieces of its text. A pair is read when what follows it is known."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)
        self._rest = ""
        self._read = 0
        """Characters before the rest."""
        self._good = 0
        """How much of the rest has been read and need not be read again."""
        self._has_begun = self._has_pairs = self._has_ended = False

    def feed(self, text: str, *, is_last: bool = False) -> dict[str, Any]:
        """The pairs that are complete now."""
        self._rest += text
        found: dict[str, Any] = {}
        try:
            at = self._begin()
            while not self._has_ended:
                at = self._pair(at, found)
            self._see_blank(at)
            at = len(self._rest)
        except (_Incomplete, JSONDecodeError) as exc:
            at = self._good
            if is_last or len(self._rest) - at > TEXT:
                raise self._wrong(exc, at) from exc
        self._read += at
        self._rest = self._rest[at:]
        self._good = 0
        return found

    def _begin(self) -> int:
        if self._has_begun:
            return 0
        at = self._skip(0)
        if self._rest[at] != "{":
            raise ValueError("it does not begin with {")
        self._has_begun = True
        self._good = at + 1
        return at + 1

    def _pair(self, at: int, found: dict[str, Any]) -> int:
        """Read a pair and what follows it; gives where the next one begins."""
        at = self._skip(at)
        if self._rest[at] == "}" and not self._has_pairs:
            return self._end(at + 1)
        if self._rest[at] != '"':
            raise JSONDecodeError("Expecting property name enclosed in double quotes", self._rest, at)
        key, at = self._decoder.raw_decode(self._rest, at)
        at = self._skip(at)
        if self._rest[at] != ":":
            raise JSONDecodeError("Expecting ':' delimiter", self._rest, at)
        value, at = self._decoder.raw_decode(self._rest, self._skip(at + 1))
        at = self._skip(at)
        if self._rest[at] not in ",}":
            raise JSONDecodeError("Expecting ',' delimiter", self._rest, at)
        found[key] = value
        self._has_pairs = True
        self._good = at + 1
        return self._end(at + 1) if self._rest[at] == "}" else at + 1

    def _end(self, at: int) -> int:
        self._has_ended = True
        self._good = at
        return at

    def _skip(self, at: int) -> int:
        """Where the next character stands that is not blank."""
        while at < len(self._rest) and self._rest[at] in _BLANK:
            at += 1
        if at == len(self._rest):
            raise _Incomplete
        return at

    def _see_blank(self, at: int) -> None:
        if rest := self._rest[at:].strip(_BLANK):
            raise ValueError(f"more follows after its end: {rest[:20]!r}")

    def _wrong(self, exc: Exception, at: int) -> ValueError:
        if len(self._rest) - at > TEXT:
            place, problem = at, f"what begins there is no pair, or one of more than {TEXT} characters"
        elif isinstance(exc, JSONDecodeError):
            place, problem = exc.pos, exc.msg
        else:
            place, problem = len(self._rest), "it ends too early"
        return ValueError(f"{problem}: char {self._read + place}")
