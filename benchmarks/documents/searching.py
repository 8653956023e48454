"""How long an answer takes from a large database, the embedding of the question included.

The passages are cut from real abstracts; their vectors are points around as many centres as there are abstracts, since
embedding so many would take an hour, and costs the same to search.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import batched
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.documents.data import Abstract, Data
from benchmarks.measuring import percentiles
from benchmarks.report import Result
from soliplex.ingester.lib.embedding import EmbedOptions
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.readers import readers_kept
from soliplex.ingester.lib.rag.searching import Scope, SearchKind, search
from soliplex.ingester.lib.rag.writing import NewRagDocument, RagChunk, write_documents
from soliplex.ingester.lib.vectors import embed_question, identity_of

CHUNKS: Final = 20
"""Of a document."""
WORDS: Final = 120
WRITTEN_AT_ONCE: Final = 250
SEED: Final = 20301
WITHIN: Final = "hybrid, of a tenth"


async def measure(data: Data, folder: Path, *, chunks: int, questions: int) -> Result:
    """Milliseconds of each kind of search, as a server answers it that keeps the database open."""
    path, identity = folder / "large", await identity_of(EmbedOptions())
    for some in batched(_documents(data.abstracts(), chunks // CHUNKS, identity.dim), WRITTEN_AT_ONCE):
        await write_documents(path, identity, list(some), fence=SoleWriter())
    asked = list(data.questions().values())[: questions + 1]
    scopes = {kind.value: (kind, None) for kind in SearchKind} | {WITHIN: (SearchKind.HYBRID, Scope(uri_prefix="/7"))}
    async with readers_kept():
        found = {name: await _milliseconds(path, asked, kind, scope) for name, (kind, scope) in scopes.items()}
    return {"search_ms": {name: percentiles(times) for name, times in found.items()}}


async def _milliseconds(path: Path, asked: Sequence[str], kind: SearchKind, scope: Scope | None) -> list[float]:
    times: list[float] = []
    for question in asked:
        began = time.perf_counter()
        hits = await search(path, question, embed_question, kind=kind, scope=scope)
        times.append((time.perf_counter() - began) * 1000)
        assert hits, question
    return times[1:]  # the first one opens


def _documents(abstracts: Sequence[Abstract], count: int, dim: int) -> Iterator[NewRagDocument]:
    chance = np.random.default_rng(SEED)
    words = [each.text.split() for each in abstracts]
    centres = chance.normal(size=(len(abstracts), dim))
    for number in range(count):
        topics = chance.integers(len(abstracts), size=CHUNKS)
        vectors = _unit(centres[topics] + 0.5 * chance.normal(size=(CHUNKS, dim)))
        yield NewRagDocument(
            doc_hash=f"sha256-{number:064}",
            uri=f"/{number % 10}/{number}.md",
            title=abstracts[topics[0]].title,
            document={"schema_name": "DoclingDocument", "name": str(number)},
            chunks=[
                RagChunk(
                    id=f"{number}-{order}",
                    content=_passage(words[topic], int(chance.integers(1 << 16))),
                    order=order,
                    embedding=vectors[order].tolist(),
                )
                for order, topic in enumerate(topics)
            ],
        )


def _passage(words: Sequence[str], start: int) -> str:
    first = start % max(len(words) - WORDS, 1)
    return " ".join(words[first : first + WORDS])


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
