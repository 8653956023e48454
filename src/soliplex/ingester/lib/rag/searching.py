"""Searching a RAG database: by meaning, by words, or by both.

Both means that each way finds its best, their scores are brought to one scale, and added. Fusing by rank alone
(reciprocal rank fusion) throws away how much better one result is than the next, and came out below the better of the
two ways.

The tables are asked here and not by haiku.rag's client, which brings every vector along and turns rows into data
frames: that takes longer than the search.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.rag.indexes import METRIC
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity
from soliplex.ingester.lib.rag.readers import Reader, read
from soliplex.ingester.lib.rag.scopes import NOTHING, Scope, chunks_within, quoted
from soliplex.ingester.lib.rag.writing import DOC_HASH

__all__ = ["Hit", "Scope", "SearchKind", "search"]

CANDIDATES: Final = 100
"""How many results of each way are fused."""
PROBES: Final = 32
"""Partitions of the index of vectors that are looked into."""
REFINE: Final = 2
"""So many times the results are taken from the index, and then ordered by the vectors themselves."""
LONGEST_SNIPPET: Final = 500
TRIES: Final = 20
"""To ask at one version; writes would have to come faster than searches to use them up."""


class SearchKind(StrEnum):
    """How to search."""

    VECTOR = "vector"
    TEXT = "text"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A piece of a document that fits a question, and where it stands."""

    score: float
    snippet: str
    uri: str | None
    title: str | None
    doc_hash: str | None
    source: str | None
    headings: list[str]
    page_numbers: list[int]
    chunk_id: str | None


type EmbedQuery = Callable[[EmbeddingIdentity, str], Awaitable[Sequence[float]]]
type Ranked = list[tuple[Chunk, float]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A row of the table of chunks."""

    id: str
    document_id: str
    content: str
    metadata: str


async def search(
    db_path: str | Path,
    question: str,
    embed: EmbedQuery,
    *,
    kind: SearchKind = SearchKind.HYBRID,
    limit: int = 10,
    scope: Scope | None = None,
) -> list[Hit]:
    """The best pieces for a question, best first."""
    embed = _once(embed)

    async def ask(reader: Reader) -> list[Hit]:
        where = await chunks_within(reader, scope)
        if where == NOTHING:
            return []
        ways = [_WAYS[way](reader, question, embed, where, max(limit, CANDIDATES)) for way in _ways(kind)]
        found = await asyncio.gather(*ways)
        ranked = fused(found) if len(found) > 1 else found[0]
        return await _hits(reader, ranked, limit)

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
    """As the embedder, for one question: asked again, it knows the answer."""
    vectors: list[Sequence[float]] = []

    async def embed_once(identity: EmbeddingIdentity, question: str) -> Sequence[float]:
        if not vectors:
            vectors.append(await embed(identity, question))
        return vectors[0]

    return embed_once


def _ways(kind: SearchKind) -> Sequence[SearchKind]:
    return (SearchKind.VECTOR, SearchKind.TEXT) if kind is SearchKind.HYBRID else (kind,)


async def _by_meaning(reader: Reader, question: str, embed: EmbedQuery, where: str | None, limit: int) -> Ranked:
    vector = list(await embed(reader.identity, question))
    query = reader.chunks.query().nearest_to(vector).column("vector").distance_type(METRIC)
    rows = await _rows(query.nprobes(PROBES).refine_factor(REFINE), where, limit, "_distance")
    return [(chunk, 1 / (1 + distance)) for chunk, distance in rows]


async def _by_words(reader: Reader, question: str, _embed: EmbedQuery, where: str | None, limit: int) -> Ranked:
    query = reader.chunks.query().nearest_to_text(question, columns="content_fts")
    return await _rows(query, where, limit, "_score")


_WAYS: Final = {SearchKind.VECTOR: _by_meaning, SearchKind.TEXT: _by_words}
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


async def _hits(reader: Reader, ranked: Ranked, limit: int) -> list[Hit]:
    """The first of them, with their documents. A chunk whose document was deleted meanwhile is left out."""
    best = ranked[:limit]
    documents = await _documents(reader, {chunk.document_id for chunk, _ in best})
    return [_hit(chunk, score, documents[chunk.document_id]) for chunk, score in best if chunk.document_id in documents]


async def _documents(reader: Reader, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    if not ids:
        return {}
    query = reader.documents.query().select(["id", "uri", "title", "metadata"]).where(f"id IN ({quoted(ids)})")
    return {row["id"]: row for row in await query.to_list()}


def _hit(chunk: Chunk, score: float, document: Mapping[str, Any]) -> Hit:
    place, about = json.loads(chunk.metadata), json.loads(document["metadata"])
    return Hit(
        score=round(score, 6),
        snippet=_snippet(chunk.content),
        uri=document["uri"],
        title=document["title"],
        doc_hash=about.get(DOC_HASH),
        source=about.get("source"),
        headings=place.get("headings") or [],
        page_numbers=place.get("page_numbers") or [],
        chunk_id=chunk.id,
    )


def _snippet(content: str) -> str:
    text = " ".join(content.split())
    if len(text) <= LONGEST_SNIPPET:
        return text
    return text[:LONGEST_SNIPPET].rsplit(" ", 1)[0] + " …"
