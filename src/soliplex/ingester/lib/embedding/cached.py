"""An embedder that asks its provider only for what nobody has asked before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from itertools import batched
from typing import TYPE_CHECKING

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding.cache import EmbeddingCache, TextHash, from_bytes, hash_of, to_bytes
from soliplex.ingester.lib.embedding.embedders import Embedder, Vector
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.embedding.registry import open_embedder
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wiring import get_settings

if TYPE_CHECKING:
    from prometheus_client import Counter


class CachedEmbedder:
    """Looks texts up in the cache, has the missing ones embedded, each once, and remembers them.

    What a call to the provider gave is kept before the next call begins: when one fails, the next attempt goes on from
    there.
    """

    def __init__(self, embedder: Embedder, cache: EmbeddingCache, *, batch_size: int) -> None:
        self._embedder = embedder
        self._cache = cache
        self._batch_size = batch_size
        self.hits = 0
        """Texts that needed no provider."""
        self.misses = 0
        """Texts that the provider was asked for."""

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dim(self) -> int | None:
        return self._embedder.dim

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        hashes = [hash_of(text) for text in texts]
        known = await self._cache.find(hashes)
        missing = {it: text for it, text in zip(hashes, texts, strict=True) if it not in known}
        self._count(hits=len(texts) - len(missing), misses=len(missing))
        for some in batched(missing.items(), self._batch_size):
            known |= await self._embed_missing(dict(some))
        return [known[it] for it in hashes]

    async def _embed_missing(self, missing: dict[TextHash, str]) -> dict[TextHash, Vector]:
        vectors = await self._embedder.embed(list(missing.values()))
        found = dict(zip(missing, vectors, strict=True))
        await self._cache.keep(found)
        # As the cache will give them: a text has one vector, the first time too.
        return {it: from_bytes(to_bytes(vector)) for it, vector in found.items()}

    def _count(self, *, hits: int, misses: int) -> None:
        self.hits += hits
        self.misses += misses
        labels = {"provider": self.name, "model": self.model}
        hit_counter, miss_counter = _counters()
        hit_counter.labels(**labels).inc(hits)
        miss_counter.labels(**labels).inc(misses)


@asynccontextmanager
async def open_cached_embedder(options: EmbedOptions, settings: Settings | None = None) -> AsyncGenerator[Embedder]:
    """The embedder that the options name, with the cache before it unless EMBEDDING_CACHE_LIMIT is 0."""
    settings = settings or get_settings()
    async with open_embedder(options, settings) as embedder:
        if settings.embedding_cache_limit:
            cache = _cache_of(Database.identity(), embedder.name, embedder.model, settings.embedding_cache_limit)
            yield CachedEmbedder(embedder, cache, batch_size=options.batch_size or settings.embed_batch_size)
        else:
            yield embedder


@lru_cache(maxsize=64)
def _cache_of(_database: int, provider: str, model: str, limit: int) -> EmbeddingCache:
    """The cache of a provider and model, shared by all calls: it remembers when it last looked at its size."""
    return EmbeddingCache(provider, model, limit=limit)


@cache
def _counters() -> tuple[Counter, Counter]:
    from prometheus_client import Counter  # noqa: PLC0415  only where something is embedded

    labels = ("provider", "model")
    return (
        Counter("soliplex_embedding_cache_hits", "Texts whose vector was known.", labels),
        Counter("soliplex_embedding_cache_misses", "Texts that a provider was asked for.", labels),
    )
