"""How well questions find the documents that answer them: SciFact, by each kind of search."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from itertools import batched
from pathlib import Path
from typing import Final

from benchmarks.documents.data import Abstract, Data
from benchmarks.report import Result
from soliplex.ingester.lib.chunking import ChunkOptions, chunk, embedding_text
from soliplex.ingester.lib.embedding import Embedder, EmbedOptions, open_embedder
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.searching import SearchKind, search
from soliplex.ingester.lib.rag.writing import NewRagDocument, RagChunk, write_documents
from soliplex.ingester.lib.vectors import embed_question, identity_of

CUT: Final = 10
STORED_AT_ONCE: Final = 500
HITS: Final = 50
"""Passages looked at; those of one document count as one."""


async def measure(data: Data, folder: Path, *, documents: int | None, questions: int | None) -> Result:
    """The mean nDCG@10 of each kind of search, over the questions of the test set."""
    judgements = dict(list(data.judgements().items())[:questions])
    chosen = _chosen(data.abstracts(), judgements, documents)
    path = folder / "scifact"
    await _store(path, chosen)
    asked = data.questions()
    scores: dict[str, float] = {}
    for kind in SearchKind:
        found = [ndcg(await _ranked(path, asked[each], kind), right) for each, right in judgements.items()]
        scores[kind.value] = sum(found) / len(found)
    return {"ndcg10": scores}


def ndcg(ranked: Sequence[str], right: Mapping[str, int]) -> float:
    """How good the first ten are, by the best order there could be."""
    gained = sum(right.get(each, 0) / math.log2(place + 2) for place, each in enumerate(ranked[:CUT]))
    best = sorted(right.values(), reverse=True)[:CUT]
    return gained / sum(score / math.log2(place + 2) for place, score in enumerate(best))


def _chosen(
    abstracts: Sequence[Abstract], judgements: Mapping[str, Mapping[str, int]], most: int | None
) -> list[Abstract]:
    """All documents, or so many, those that answer a question first."""
    if most is None:
        return list(abstracts)
    right = {document for each in judgements.values() for document in each}
    return sorted(abstracts, key=lambda abstract: abstract.id not in right)[: max(most, len(right))]


async def _store(path: Path, abstracts: Sequence[Abstract]) -> None:
    options = EmbedOptions()
    identity = await identity_of(options)
    async with open_embedder(options) as embedder:
        for some in batched(abstracts, STORED_AT_ONCE):
            await write_documents(path, identity, await _embedded(some, embedder), fence=SoleWriter())


async def _embedded(abstracts: Sequence[Abstract], embedder: Embedder) -> list[NewRagDocument]:
    chunks = {each.id: await asyncio.to_thread(chunk, None, each.markdown, ChunkOptions()) for each in abstracts}
    vectors = iter(await embedder.embed([embedding_text(it) for found in chunks.values() for it in found]))
    return [
        NewRagDocument(
            doc_hash=each.id,
            uri=each.id,
            title=each.title,
            document={"schema_name": "DoclingDocument", "name": each.id},
            chunks=[
                RagChunk(
                    id=it.id,
                    content=it.content,
                    order=it.order,
                    embedding=next(vectors),
                    metadata=it.as_json()["metadata"],
                )
                for it in chunks[each.id]
            ],
        )
        for each in abstracts
    ]


async def _ranked(path: Path, question: str, kind: SearchKind) -> list[str]:
    hits = await search(path, question, embed_question, kind=kind, limit=HITS)
    return list(dict.fromkeys(hit.uri for hit in hits if hit.uri is not None))
