"""The embedding cache: vectors by provider, model and text, in the database that all processes share.

A text is known by its SHA-256. All of a call are looked up, and kept, by one statement for thousands of them. The
cache holds as many vectors as its limit says; beyond it, those that nobody used for longest are dropped, to a twentieth
below the limit, so that this is seldom needed. Each process looks at the size after every so many vectors it kept, so
the limit may be passed by a few hundredths for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import batched
from typing import Final

import numpy as np

from soliplex.ingester.lib.embedding.embedders import Vector
from soliplex.ingester.lib.embedding.sql import SQL
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import single

_AT_ONCE: Final = 2000
"""Vectors in one statement: a few megabytes."""
_SLACK: Final = 20
"""The part of the limit that is freed at once, and that a process keeps before it looks at the size again."""
_STALE: Final = timedelta(days=1)
"""How old the note of the last use may get. Writing one for each use would make every look-up a write."""
_FLOATS: Final = "<f4"

type TextHash = str


def hash_of(text: str) -> TextHash:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def to_bytes(vector: Sequence[float]) -> bytes:
    return np.asarray(vector, _FLOATS).tobytes()


def from_bytes(content: bytes) -> Vector:
    return np.frombuffer(content, _FLOATS).tolist()


class EmbeddingCache:
    """The vectors of one model of one provider, within a limit on all of them."""

    def __init__(self, provider: str, model: str, *, limit: int, clock: Callable[[], datetime] = utcnow) -> None:
        self._whose = {"provider": provider, "model": model}
        self._limit = limit
        self._clock = clock
        self._unseen = limit  # a process that keeps little looks at the size once
        """Vectors this process kept since it looked at the size."""

    async def find(self, hashes: Iterable[TextHash]) -> dict[TextHash, Vector]:
        """The vectors that are known, by hash."""
        found, stale = dict[TextHash, Vector](), list[TextHash]()
        for some in batched(sorted(set(hashes)), _AT_ONCE):
            call = SQL.find_embeddings(**self._whose, hashes=list(some), stale=self._clock() - _STALE)
            for row in await Database.read(call):
                found[row["text_hash"]] = from_bytes(row["vector"])
                stale += [row["text_hash"]] if row["is_stale"] else []
        await self._note_use(stale)
        return found

    async def keep(self, vectors: Mapping[TextHash, Sequence[float]]) -> None:
        """Remember the vectors, all of one length. What is known already stays as it is."""
        for some in batched(sorted(vectors), _AT_ONCE):
            packed = [to_bytes(vectors[it]) for it in some]
            joined, width = b"".join(packed), len(packed[0])
            kept = SQL.keep_embeddings(**self._whose, hashes=list(some), vectors=joined, width=width, now=self._clock())
            await Database.transact(single(kept))
        self._unseen += len(vectors)
        if self._unseen > self._limit // _SLACK:
            await self.trim()

    async def trim(self) -> int:
        """Drop what nobody used for longest, if there is more than the limit allows; gives how many."""
        self._unseen = 0
        (row,) = await Database.read(SQL.count_embeddings())
        if row["entries"] <= self._limit:
            return 0
        excess = row["entries"] - (self._limit - self._limit // _SLACK)
        for start in range(0, excess, _AT_ONCE):
            await Database.transact(single(SQL.drop_oldest_embeddings(excess=min(_AT_ONCE, excess - start))))
        return excess

    async def _note_use(self, hashes: Sequence[TextHash]) -> None:
        for some in batched(hashes, _AT_ONCE):
            await Database.transact(single(SQL.use_embeddings(**self._whose, hashes=list(some), now=self._clock())))
