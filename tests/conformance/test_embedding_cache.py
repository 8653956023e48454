"""A text is embedded once, whoever asks, in whatever process; and the cache stays within its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlmodel import func, select

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.embedding import (
    CachedEmbedder,
    EmbedderUnavailableError,
    EmbeddingCache,
    EmbedOptions,
    Vector,
    open_cached_embedder,
)
from soliplex.ingester.lib.embedding.cache import hash_of
from soliplex.ingester.lib.embedding.sql import SQL
from soliplex.ingester.lib.models import CachedEmbedding, Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Call
from tests.support.embedding_server import vector_of


class Counting:
    """An embedder that notes what it is asked for, and fails when told to."""

    name = "counting"
    dim = 8

    def __init__(self, model: str = "one") -> None:
        self.model = model
        self.asked = list[str]()
        self.fails_after: int | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.fails_after is not None and len(self.asked) >= self.fails_after:
            raise EmbedderUnavailableError(self.name, "told to fail")
        self.asked += texts
        return [vector_of(text) for text in texts]


class Clock:
    def __init__(self) -> None:
        self.now = utcnow()

    def __call__(self) -> datetime:
        return self.now


def cache_of(embedder: Counting, limit: int = 1000, clock: Clock | None = None) -> EmbeddingCache:
    return EmbeddingCache(embedder.name, embedder.model, limit=limit, clock=clock or Clock())


def cached(embedder: Counting, limit: int = 1000, batch_size: int = 100) -> CachedEmbedder:
    return CachedEmbedder(embedder, cache_of(embedder, limit), batch_size=batch_size)


def close(one: Vector, other: Vector) -> bool:
    return one == pytest.approx(other, abs=1e-6)


async def entries() -> int:
    async with Database.session(read_only=True) as session:
        return (await session.exec(select(func.count()).select_from(CachedEmbedding))).one()


async def test_a_text_is_asked_for_once_within_a_call_and_ever_after(database: type[Database]) -> None:
    embedder = Counting()
    first = cached(embedder)
    vectors = await first.embed(["a", "b", "a"])
    assert (embedder.asked, first.hits, first.misses) == (["a", "b"], 1, 2)
    assert close(vectors[0], vector_of("a"))
    second = cached(embedder)
    assert await second.embed(["b", "c", "a"]) == [vectors[1], *(await second.embed(["c"])), vectors[0]]
    assert embedder.asked == ["a", "b", "c"]


async def test_models_do_not_share_vectors(database: type[Database]) -> None:
    one, two = Counting("one"), Counting("two")
    await cached(one).embed(["a"])
    await cached(two).embed(["a"])
    assert (one.asked, two.asked) == (["a"], ["a"])


async def test_no_text_asks_nobody(database: type[Database]) -> None:
    embedder = Counting()
    assert await cached(embedder).embed([]) == []
    assert embedder.asked == []


async def test_thousands_of_texts_take_a_few_statements(database: type[Database]) -> None:
    embedder = Counting()
    texts = [f"text {number} \u6f22\u5b57 \x00 \ud800" for number in range(5000)]
    vectors = await cached(embedder, limit=10_000, batch_size=5000).embed(texts)
    again = cached(Counting(), limit=10_000)
    assert await again.embed(texts[::-1]) == vectors[::-1]
    assert (again.hits, again.misses, await entries()) == (5000, 0, 5000)


async def test_what_a_failing_provider_gave_before_is_kept(database: type[Database]) -> None:
    embedder = Counting()
    embedder.fails_after = 4
    texts = [f"text {number}" for number in range(10)]
    with pytest.raises(EmbedderUnavailableError):
        await cached(embedder, batch_size=2).embed(texts)
    embedder.fails_after = None
    await cached(embedder, batch_size=2).embed(texts)
    assert embedder.asked == texts


async def test_those_who_keep_the_same_at_the_same_time_do_not_disturb_each_other(database: type[Database]) -> None:
    embedder = Counting()
    texts = [f"text {number}" for number in range(200)]
    orders = [texts, texts[::-1], texts[100:] + texts[:100], texts]
    found = await asyncio.gather(*(cached(embedder, batch_size=50).embed(order) for order in orders))
    assert all(
        close(vectors[order.index("text 7")], vector_of("text 7")) for order, vectors in zip(orders, found, strict=True)
    )
    assert await entries() == 200


async def test_beyond_the_limit_those_unused_for_longest_are_dropped(database: type[Database]) -> None:
    clock, embedder = Clock(), Counting()
    cache = cache_of(embedder, limit=100, clock=clock)
    for day in range(6):
        clock.now += timedelta(days=2)
        await cache.keep({hash_of(f"{day}.{number}"): vector_of("it") for number in range(20)})
        await cache.find([hash_of("0.0")])
    assert 95 <= await entries() <= 100
    kept = await cache.find(hash_of(f"{day}.{number}") for day in range(6) for number in range(20))
    assert hash_of("0.0") in kept, "it was used again and again"
    assert hash_of("0.1") not in kept
    assert hash_of("5.19") in kept


async def test_a_new_process_holds_the_limit_too(database: type[Database]) -> None:
    embedder = Counting()
    await cached(embedder, limit=1000).embed([f"text {number}" for number in range(300)])
    await cached(embedder, limit=100).embed(["one more"])
    assert await entries() == 95


async def test_looking_up_writes_nothing_within_a_day(database: type[Database]) -> None:
    clock, embedder = Clock(), Counting()
    cache = cache_of(embedder, clock=clock)
    await cache.keep({hash_of("a"): vector_of("a")})
    before = await used_at()
    clock.now += timedelta(hours=23)
    await cache.find([hash_of("a")])
    assert await used_at() == before
    clock.now += timedelta(hours=2)
    await cache.find([hash_of("a")])
    assert await used_at() == clock.now


async def used_at() -> datetime:
    async with Database.session(read_only=True) as session:
        return (await session.exec(select(CachedEmbedding.used_at))).one()


async def test_looking_up_reads_by_the_key_and_dropping_by_the_age(database: type[Database]) -> None:
    embedder = Counting()
    await cached(embedder, limit=10_000, batch_size=5000).embed([f"text {number}" for number in range(3000)])
    async with Database.engine().begin() as connection:
        await connection.exec_driver_sql("ANALYZE")
    whose = {"provider": "counting", "model": "one", "hashes": [hash_of("text 1")]}
    plan = await plan_of(SQL.find_embeddings(**whose, stale=utcnow()))
    assert "pk_cachedembedding" in plan or "USING INDEX sqlite_autoindex_cachedembedding_1" in plan
    assert "ix_cachedembedding_used_at" in await plan_of(SQL.drop_oldest_embeddings(excess=10))


async def plan_of(call: Call) -> str:
    it = call.statement
    explained = replace(it, sqlite=f"EXPLAIN QUERY PLAN {it.sqlite}", postgres=f"EXPLAIN {it.postgres}")
    rows = await Database.read(explained(**call.parameters))
    return "\n".join(str(row[len(list(row.keys())) - 1]) for row in rows)


async def test_a_cache_of_no_entries_is_no_cache(database: type[Database]) -> None:
    options = EmbedOptions.read({"provider": "wordllama"})
    async with open_cached_embedder(options, load_settings(embedding_cache_limit=0)) as embedder:
        await embedder.embed(["a"])
    assert await entries() == 0
    async with open_cached_embedder(options) as embedder:
        assert isinstance(embedder, CachedEmbedder)
        (vector,) = await embedder.embed(["a"])
        assert len(vector) == embedder.dim
        assert (embedder.name, embedder.model) == ("wordllama", "l2_supercat")
    assert await entries() == 1


async def test_many_short_calls_look_at_the_size_once(
    database: type[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[int]()
    trim = EmbeddingCache.trim

    async def noted(cache: EmbeddingCache) -> int:
        looks.append(1)
        return await trim(cache)

    monkeypatch.setattr(EmbeddingCache, "trim", noted)
    for text in "abc":
        async with open_cached_embedder(EmbedOptions.read({"provider": "wordllama"})) as embedder:
            await embedder.embed([text])
    assert len(looks) == 1


async def test_hits_and_misses_are_counted_for_prometheus(database: type[Database]) -> None:
    from prometheus_client import REGISTRY

    embedder = Counting("counted")
    labels = {"provider": "counting", "model": "counted"}
    before = [
        REGISTRY.get_sample_value(f"soliplex_embedding_cache_{it}_total", labels) or 0 for it in ("hits", "misses")
    ]
    await cached(embedder).embed(["a", "b", "a"])
    after = [
        REGISTRY.get_sample_value(f"soliplex_embedding_cache_{it}_total", labels) or 0 for it in ("hits", "misses")
    ]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 2]
