"""The embed step: the chunks of many documents in one call, each text embedded once.

A document of many chunks has a call of its own, and is embedded piece by piece: chunks are read, embedded and written
so many at a time, and memory holds one piece however long the document is. What was embedded before an attempt failed
is in the cache, so the next attempt goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from soliplex.ingester.lib.chunking import Chunk, embedding_text
from soliplex.ingester.lib.embedding import EmbeddingRefusedError, EmbedOptions, open_cached_embedder
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, WorkflowStepType
from soliplex.ingester.lib.operations import record_histories
from soliplex.ingester.lib.wf.handlers import StepContext, Weights, batch_handler
from soliplex.ingester.lib.workflow.arrays import read_pieces, read_short, writing_pieces
from soliplex.ingester.lib.workflow.step_artifacts import (
    SKIPPED,
    are_there,
    each_alone,
    required,
    the_step,
    write_json,
)
from soliplex.ingester.lib.workflow.weighing import chunks_of

DOCUMENTS_AT_ONCE: Final = 64
CHUNKS_AT_ONCE: Final = 4_000
"""Most chunks in a call of several documents: more would fill the memory, and keep a slow embedder busy for long."""
LONG: Final = 1 << 20
"""Bytes of chunks from which they are embedded in pieces. With their vectors they become a hundred times as much."""
FEW_CHUNKS: Final = 4
"""The vectors of so few chunks are written as JSON without a hop to a thread."""


@batch_handler(
    limit=DOCUMENTS_AT_ONCE, wants={"doc", "places", "earlier"}, weights=Weights(chunks_of, most=CHUNKS_AT_ONCE)
)
async def embed_document(batch: list[StepContext]) -> list[Any]:
    """Embed the chunks of the documents. One whose chunks cannot be read fails alone."""
    results: list[Any] = await each_alone(_chunks, batch)
    waiting = [(number, batch[number], found) for number, found in enumerate(results) if isinstance(found, list)]
    for number, result in await _embed_all(waiting):
        results[number] = result
    for number, step in enumerate(batch):
        if results[number] is None:
            (results[number],) = await each_alone(_embed_long, [step])
    return results


async def _chunks(step: StepContext) -> list[dict[str, Any]] | dict[str, Any] | None:
    """The chunks to embed, or None if they are many; or the result of the step, where they are embedded already."""
    doc_hash = step["doc_hash"]
    required(step["doc"], doc_hash)
    if await are_there(doc_hash, step["run_step"].step_config_id, ArtifactType.EMBEDDINGS):
        return SKIPPED
    chunked = the_step(step["earlier"], WorkflowStepType.CHUNK)
    return await read_short(doc_hash, ArtifactType.CHUNKS, chunked.config_id, most=LONG)


type _Waiting = tuple[int, StepContext, list[dict[str, Any]]]
"""The place of a step in the call, the step, and its chunks."""


async def _embed_all(waiting: Sequence[_Waiting]) -> list[tuple[int, Any]]:
    results: list[tuple[int, Any]] = []
    options = {number: EmbedOptions.read(step["step_params"]) for number, step, _ in waiting}
    for chosen in dict.fromkeys(options.values()):
        results += await _embed_some([each for each in waiting if options[each[0]] == chosen], chosen)
    return results


async def _embed_some(some: Sequence[_Waiting], options: EmbedOptions) -> list[tuple[int, Any]]:
    texts = _texts([chunk for _, _, chunks in some for chunk in chunks])
    try:
        async with open_cached_embedder(options) as embedder:
            vectors = iter(await embedder.embed(texts)) if texts else iter(())
    except EmbeddingRefusedError as exc:
        if len(some) == 1:
            return [(some[0][0], exc)]
        # One of the documents is refused: the others must not fail with it.
        return [result for each in some for result in await _embed_some([each], options)]
    embedded = [
        (step, [{**chunk, **_about(step), "embedding": next(vectors)} for chunk in chunks]) for _, step, chunks in some
    ]
    return list(zip([number for number, _, _ in some], await _keep(embedded), strict=True))


async def _embed_long(step: StepContext) -> dict[str, Any]:
    """Embed one document piece by piece."""
    doc_hash, about = step["doc_hash"], _about(step)
    chunked = the_step(step["earlier"], WorkflowStepType.CHUNK)
    async with (
        open_cached_embedder(EmbedOptions.read(step["step_params"])) as embedder,
        aclosing(read_pieces(doc_hash, ArtifactType.CHUNKS, chunked.config_id)) as pieces,
        writing_pieces(doc_hash, ArtifactType.EMBEDDINGS, step["run_step"].step_config_id) as made,
    ):
        async for chunks in pieces:
            vectors = await embedder.embed(_texts(chunks))
            await made.add(
                [{**chunk, **about, "embedding": vector} for chunk, vector in zip(chunks, vectors, strict=True)]
            )
    await record_histories({doc_hash: {"chunks": made.count}}, HistoryAction.EMBEDDED)
    return {"embeddings": made.count}


def _texts(chunks: Sequence[dict[str, Any]]) -> list[str]:
    return [embedding_text(Chunk.from_json(chunk)) for chunk in chunks]


def _about(step: StepContext) -> dict[str, Any]:
    places, document = step["places"], step["doc"]
    return {
        "document_id": document.hash,
        "document_uri": places[0].uri if places else None,
        "document_meta": document.doc_meta,
    }


type _Embedded = tuple[StepContext, list[dict[str, Any]]]


async def _keep(embedded: Sequence[_Embedded]) -> list[dict[str, Any] | Exception]:
    """Store the vectors, then record that the steps were done; all together, since each commit waits for the disk."""
    written = await each_alone(_write, embedded)
    told = {
        step["doc_hash"]: {"chunks": len(chunks)}
        for (step, chunks), failure in zip(embedded, written, strict=True)
        if failure is None
    }
    await record_histories(told, HistoryAction.EMBEDDED)
    return [
        {"embeddings": len(chunks)} if failure is None else failure
        for (_, chunks), failure in zip(embedded, written, strict=True)
    ]


async def _write(embedded: _Embedded) -> None:
    step, chunks = embedded
    config_id, is_short = step["run_step"].step_config_id, len(chunks) <= FEW_CHUNKS
    await write_json(step["doc_hash"], ArtifactType.EMBEDDINGS, config_id, chunks, is_short=is_short)
