"""Searching a RAG database: by meaning, by words, or by both.

Both means that each way finds its best, their scores are brought to one scale, and added. Fusing by rank alone
(reciprocal rank fusion) throws away how much better one result is than the next, and came out below the better of the
two ways.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.rag.opening import EmbeddingIdentity, open_rag
from soliplex.ingester.lib.rag.writing import DOC_HASH

CANDIDATES: Final = 100
"""How many results of each way are fused."""
LONGEST_SNIPPET: Final = 500


class SearchKind(StrEnum):
    """How to search."""

    VECTOR = "vector"
    TEXT = "text"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which documents to search; all that are given must fit."""

    source: str | None = None
    batch_id: int | None = None
    uri_prefix: str | None = None
    metadata: Mapping[str, str | int | bool] = field(default_factory=dict[str, str | int | bool])


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
    where = _condition(scope) if scope else None
    async with open_rag(db_path, None, read_only=True) as rag:
        found = [await _search(rag, question, embed, way, where, max(limit, CANDIDATES)) for way in _ways(kind)]
    ranked = fused(found) if len(found) > 1 else found[0]
    return [_hit(chunk, score) for chunk, score in ranked[:limit]]


def _ways(kind: SearchKind) -> Sequence[SearchKind]:
    return (SearchKind.VECTOR, SearchKind.TEXT) if kind is SearchKind.HYBRID else (kind,)


async def _search(
    rag: Any, question: str, embed: EmbedQuery, way: SearchKind, where: str | None, limit: int
) -> list[tuple[Any, float]]:
    search = rag.chunk_repository.search
    if way is SearchKind.TEXT:
        return await search(query=question, limit=limit, search_type="fts", filter=where)
    recorded = rag.store.stored_embedding
    identity = EmbeddingIdentity(recorded.provider, recorded.name, recorded.vector_dim)
    vector = list(await embed(identity, question))
    return await search(query=question, limit=limit, search_type="vector", filter=where, query_vector=vector)


def fused(found: Sequence[Sequence[tuple[Any, float]]]) -> list[tuple[Any, float]]:
    """One ranking of several: the scores of each are brought to between 0 and 1, and averaged."""
    chunks: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for ranked in found:
        for chunk, score in _scaled(ranked):
            chunks.setdefault(chunk.id, chunk)
            scores[chunk.id] = scores.get(chunk.id, 0.0) + score / len(found)
    return sorted(((chunks[each], score) for each, score in scores.items()), key=lambda pair: -pair[1])


def _scaled(ranked: Sequence[tuple[Any, float]]) -> list[tuple[Any, float]]:
    if not ranked:
        return []
    scores = [score for _, score in ranked]
    low, high = min(scores), max(scores)
    width = high - low
    return [(chunk, (score - low) / width if width else 1.0) for chunk, score in ranked]


def _hit(chunk: Any, score: float) -> Hit:
    place, about = chunk.get_chunk_metadata(), chunk.document_meta or {}
    return Hit(
        score=round(score, 6),
        snippet=_snippet(chunk.content),
        uri=chunk.document_uri,
        title=chunk.document_title,
        doc_hash=about.get(DOC_HASH),
        source=about.get("source"),
        headings=list(place.headings or []),
        page_numbers=list(place.page_numbers),
        chunk_id=chunk.id,
    )


def _snippet(content: str) -> str:
    text = " ".join(content.split())
    if len(text) <= LONGEST_SNIPPET:
        return text
    return text[:LONGEST_SNIPPET].rsplit(" ", 1)[0] + " …"


def _condition(scope: Scope) -> str | None:
    """As a condition on documents. Their metadata is one JSON text, with a blank after each colon."""
    facts = {"source": scope.source, "batch_id": scope.batch_id, **scope.metadata}
    parts = [_holds(name, value) for name, value in facts.items() if value is not None]
    if scope.uri_prefix:
        parts.append(f"uri LIKE '{_like(scope.uri_prefix)}%' ESCAPE '\\'")
    return " AND ".join(parts) or None


def _holds(name: str, value: str | float) -> str:
    fact = f"{json.dumps(name)}: {json.dumps(value)}"
    # The next character ends the value: without it, 1 would be found in 12.
    return "(" + " OR ".join(f"metadata LIKE '%{_like(fact)}{end}%' ESCAPE '\\'" for end in (",", "}")) + ")"


def _like(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return text.replace("'", "''")
