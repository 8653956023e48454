"""Searching a RAG database: by meaning, by words, or by both.

Both means that each way finds its best, their scores are brought to one scale, and added. Fusing by rank alone
(reciprocal rank fusion) throws away how much better one result is than the next, and finds less than the better of
the two ways alone.

How well a hit fits is told by a measure that does not depend on the others: the cosine of the angle between question
and chunk, or BM25 where only words were asked for. The order of the hits is that of the ranking, which for both ways at
once is another.

The tables are asked here and not by haiku.rag's client, which brings every vector along and turns rows into data
frames: that takes longer than the search.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.answers import Hit, HitPlace, SearchKind
from soliplex.ingester.lib.rag.indexes import METRIC
from soliplex.ingester.lib.rag.metadata import Placement, places_of
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity
from soliplex.ingester.lib.rag.readers import Reader, read
from soliplex.ingester.lib.rag.scopes import NOTHING, Scope, chunks_within, quoted
from soliplex.ingester.lib.rag.wording import Wording, holders_query, wording_of, words_query
from soliplex.ingester.lib.rag.writing import CHUNK_ID, DOC_HASH

__all__ = ["Hit", "Scope", "SearchKind", "search"]

CANDIDATES: Final = 100
"""How many results of each way are fused."""
PROBES: Final = 32
"""Partitions of the index of vectors that are looked into."""
REFINE: Final = 2
"""The index gives this many times the results that are wanted; they are then ordered by the vectors themselves."""
LONGEST_SNIPPET: Final = 500
TRIES: Final = 20
"""How often a search begins anew because a write came between its questions to the database."""


type EmbedQuery = Callable[[EmbeddingIdentity, str], Awaitable[Sequence[float]]]
type Ranked = list[tuple[Chunk, float]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A row of the table of chunks."""

    id: str
    document_id: str
    content: str
    metadata: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, as each way asks it."""

    question: str
    wording: Wording
    embed: EmbedQuery


async def search(
    db_path: str | Path,
    question: str,
    embed: EmbedQuery,
    *,
    kind: SearchKind = SearchKind.HYBRID,
    limit: int = 10,
    scope: Scope | None = None,
    min_score: float | None = None,
) -> list[Hit]:
    """The best pieces for a question, best first; only those whose score is no lower than `min_score`."""
    embed = _once(embed)
    # In a thread: the models that tell languages are loaded at the first question.
    asked = Asked(question, await asyncio.to_thread(wording_of, question), embed)

    async def ask(reader: Reader) -> list[Hit]:
        where = await chunks_within(reader, scope)
        if where == NOTHING:
            return []
        found = await asyncio.gather(*(way(reader, asked, where, max(limit, CANDIDATES)) for way in _WAYS[kind]))
        ranked = _both(*found) if kind is SearchKind.HYBRID else found[0]
        candidates = [chunk for chunk, _ in (ranked[:limit] if min_score is None else ranked)]
        scores = {chunk.id: score for chunk, score in found[0]}
        unscored = [chunk.id for chunk in candidates if chunk.id not in scores]  # found by their words alone
        documents, others = await asyncio.gather(
            documents_of(reader, {chunk.document_id for chunk in candidates}),
            _cosines(reader, asked, unscored),
        )
        scores |= others
        # Rounded before it is compared: what is shown is what was asked for.
        scored = [(chunk, round(scores.get(chunk.id, 0.0), 6)) for chunk in candidates]
        best = [(chunk, score) for chunk, score in scored if min_score is None or score >= min_score]
        return _hits(best[:limit], documents, scope or Scope())

    return await read(db_path, partial(_at_one_version, ask))


async def _at_one_version(ask: Callable[[Reader], Awaitable[list[Hit]]], reader: Reader) -> list[Hit]:
    """Ask until all was asked of one version: another search may have taken the database on to a newer one meanwhile.

    Else one way would find the chunks of an older version of a document, and the other those of a newer.
    """
    found: list[Hit] = []
    for _ in range(TRIES):
        version = await reader.chunks.version()
        found = await ask(reader)
        if await reader.chunks.version() == version:
            break
    return found


def _once(embed: EmbedQuery) -> EmbedQuery:
    """An embedder of one question that embeds it once, however often it is asked."""
    vectors: list[Sequence[float]] = []

    async def embed_once(identity: EmbeddingIdentity, question: str) -> Sequence[float]:
        if not vectors:
            vectors.append(await embed(identity, question))
        return vectors[0]

    return embed_once


async def _by_meaning(reader: Reader, asked: Asked, where: str | None, limit: int) -> Ranked:
    vector = list(await asked.embed(reader.identity, asked.question))
    query = reader.chunks.query().nearest_to(vector).column("vector").distance_type(METRIC)
    rows = await _rows(query.nprobes(PROBES).refine_factor(REFINE), where, limit, "_distance")
    return [(chunk, _finite(1 - distance)) for chunk, distance in rows]


async def _by_words(reader: Reader, asked: Asked, where: str | None, limit: int) -> Ranked:
    """Passages with the words of the question: where something stands in quotes, only those that hold it."""
    ask = _holding if asked.wording.phrases else _by_any_words
    return await ask(reader, asked, where, limit)


async def _holding(reader: Reader, asked: Asked, where: str | None, limit: int) -> Ranked:
    """Passages that hold everything in quotes; no passages where nothing is in quotes."""
    if not asked.wording.phrases:
        return []
    return await _rows(reader.chunks.query().nearest_to_text(holders_query(asked.wording)), where, limit, "_score")


async def _by_any_words(reader: Reader, asked: Asked, where: str | None, limit: int) -> Ranked:
    return await _rows(reader.chunks.query().nearest_to_text(words_query(asked.wording)), where, limit, "_score")


def _both(near: Ranked, worded: Ranked, holding: Ranked) -> Ranked:
    """Passages by meaning and words; before all others those that hold what stands in quotes."""
    held = {chunk.id for chunk, _ in holding}
    words = [*holding, *((chunk, score) for chunk, score in worded if chunk.id not in held)]
    # Python sorts stably: within each half, the ranking stays.
    return sorted(fused([_closeness(near), words]), key=lambda pair: pair[0].id not in held)


def _closeness(ranked: Ranked) -> Ranked:
    """Cosines as the measure that is fused: 1 / (1 + distance)."""
    return [(chunk, 1 / (2 - cosine)) for chunk, cosine in ranked]


def _finite(cosine: float) -> float:
    """A vector of nothing but zeros has no direction, and so no angle to another."""
    return max(-1.0, min(1.0, cosine)) if isfinite(cosine) else 0.0


async def _cosines(reader: Reader, asked: Asked, ids: Sequence[str]) -> dict[str, float]:
    """The cosines of the angles between the question and these chunks."""
    if not ids:
        return {}
    import numpy as np  # noqa: PLC0415

    query = reader.chunks.query().select(["id", "vector"]).where(f"id IN ({quoted(ids)})")
    table = await query.to_arrow()
    if not table.num_rows:
        return {}
    vectors = table.column("vector").combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1)
    wanted = np.asarray(await asked.embed(reader.identity, asked.question), dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(wanted)
    products = vectors @ wanted
    cosines = [
        _finite(float(product) / float(length)) if length else 0.0
        for product, length in zip(products, lengths, strict=True)
    ]
    return dict(zip(table.column("id").to_pylist(), cosines, strict=True))


_TABLE_RULE: Final = re.compile(r"^[ \t]*+\|?(?:[ \t]*+:?-+:?[ \t]*+\|)+(?:[ \t]*+:?-+:?)?[ \t]*+$", re.MULTILINE)
_WAYS: Final = {
    SearchKind.VECTOR: (_by_meaning,),
    SearchKind.TEXT: (_by_words,),
    SearchKind.HYBRID: (_by_meaning, _by_any_words, _holding),
}
_COLUMNS: Final = [each.name for each in fields(Chunk)]


async def _rows(query: Any, where: str | None, limit: int, measure: str) -> Ranked:
    """The best rows with their measure. LanceDB applies the condition before it counts to the limit."""
    if where is not None:
        query = query.where(where)
    table = await query.select([*_COLUMNS, measure]).limit(limit).to_arrow()
    columns = [table.column(name).to_pylist() for name in (*_COLUMNS, measure)]
    return [(Chunk(*row[:-1]), row[-1]) for row in zip(*columns, strict=True)]


def fused(found: Sequence[Ranked]) -> Ranked:
    """One ranking of several: the scores of each are brought to between 0 and 1, and averaged."""
    chunks: dict[str, Chunk] = {}
    scores: dict[str, float] = {}
    for ranked in found:
        for chunk, score in _scaled(ranked):
            chunks.setdefault(chunk.id, chunk)
            scores[chunk.id] = scores.get(chunk.id, 0.0) + score / len(found)
    return sorted(((chunks[each], score) for each, score in scores.items()), key=lambda pair: -pair[1])


def _scaled(ranked: Ranked) -> Ranked:
    if not ranked:
        return []
    scores = [score for _, score in ranked]
    low, high = min(scores), max(scores)
    width = high - low
    return [(chunk, (score - low) / width if width else 1.0) for chunk, score in ranked]


def _hits(best: Ranked, documents: Mapping[str, dict[str, Any]], scope: Scope) -> list[Hit]:
    """The chunks with their documents. A chunk whose document was deleted meanwhile is left out."""
    return [
        _hit(chunk, score, documents[chunk.document_id], scope)
        for chunk, score in best
        if chunk.document_id in documents
    ]


async def documents_of(reader: Reader, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """The rows of documents, by their ids."""
    if not ids:
        return {}
    query = reader.documents.query().select(["id", "uri", "title", "metadata"]).where(f"id IN ({quoted(ids)})")
    return {row["id"]: row for row in await query.to_list()}


def _hit(chunk: Chunk, score: float, document: Mapping[str, Any], scope: Scope) -> Hit:
    stands, about = json.loads(chunk.metadata), json.loads(document["metadata"])
    places = places_of(document["uri"], about)
    # Not any place: whoever asks for one source is told where in that source the document lives.
    shown = next((place for place in places if scope.holds(place, about)), places[0])
    return Hit(
        score=score,
        snippet=_snippet(chunk.content),
        content=chunk.content,
        uri=shown.uri,
        title=document["title"],
        doc_hash=about.get(DOC_HASH),
        source=shown.source,
        sources=sources_of(places),
        places=hit_places(places),
        headings=stands.get("headings") or [],
        page_numbers=stands.get("page_numbers") or [],
        chunk_id=stands.get(CHUNK_ID) or chunk.id,
        rag_chunk_id=chunk.id,
    )


def sources_of(places: Sequence[Placement]) -> list[str]:
    return list(dict.fromkeys(place.source for place in places if place.source is not None))


def hit_places(places: Sequence[Placement]) -> list[HitPlace]:
    return [HitPlace(uri=place.uri, source=place.source, batch_id=place.batch_id) for place in places]


def _snippet(content: str) -> str:
    """Its beginning in one line, without the rules between the head and the rows of its tables."""
    text = " ".join(_TABLE_RULE.sub("", content).split())
    if len(text) <= LONGEST_SNIPPET:
        return text
    return text[:LONGEST_SNIPPET].rsplit(" ", 1)[0] + " …"
