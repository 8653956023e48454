"""The embed step: the chunks of many documents in one call, each text embedded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from soliplex.ingester.lib.chunking import Chunk, embedding_text
from soliplex.ingester.lib.embedding import EmbeddingRefusedError, EmbedOptions, open_cached_embedder
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, WorkflowStepType
from soliplex.ingester.lib.operations import record_history
from soliplex.ingester.lib.wf.handlers import StepContext, batch_handler
from soliplex.ingester.lib.workflow.artifacts import SKIPPED, are_there, read_json, required, the_step, write_json
from soliplex.ingester.lib.workflow.skipping import skippable

DOCUMENTS_AT_ONCE: Final = 64


@skippable
@batch_handler(limit=DOCUMENTS_AT_ONCE)
async def embed_document(batch: list[StepContext]) -> list[Any]:
    """Embed the chunks of the documents. One whose chunks cannot be read fails alone."""
    results: list[Any] = [None] * len(batch)
    waiting: list[_Waiting] = []
    for number, step in enumerate(batch):
        try:
            chunks = await _chunks(step)
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the error of this document alone
            results[number] = exc
        else:
            if chunks is None:
                results[number] = SKIPPED
            else:
                waiting.append((number, step, chunks))
    for number, result in await _embed_all(waiting):
        results[number] = result
    return results


async def _chunks(step: StepContext) -> list[dict[str, Any]] | None:
    """The chunks to embed; None where they are embedded already."""
    doc_hash = step["doc_hash"]
    required(step["doc"], doc_hash)
    if await are_there(doc_hash, step["run_step"].step_config_id, ArtifactType.EMBEDDINGS):
        return None
    chunked = the_step(step["earlier"], WorkflowStepType.CHUNK)
    return await read_json(doc_hash, ArtifactType.CHUNKS, chunked.config_id)


type _Waiting = tuple[int, StepContext, list[dict[str, Any]]]
"""The place of a step in the batch, the step, and its chunks."""


async def _embed_all(waiting: Sequence[_Waiting]) -> list[tuple[int, Any]]:
    results: list[tuple[int, Any]] = []
    options = {number: EmbedOptions.read(step["step_params"]) for number, step, _ in waiting}
    for chosen in dict.fromkeys(options.values()):
        results += await _embed_some([each for each in waiting if options[each[0]] == chosen], chosen)
    return results


async def _embed_some(some: Sequence[_Waiting], options: EmbedOptions) -> list[tuple[int, Any]]:
    texts = [embedding_text(Chunk.from_json(chunk)) for _, _, chunks in some for chunk in chunks]
    try:
        async with open_cached_embedder(options) as embedder:
            vectors = iter(await embedder.embed(texts)) if texts else iter(())
    except EmbeddingRefusedError as exc:
        if len(some) == 1:
            return [(some[0][0], exc)]
        # One of the documents is refused: it must not take the others along.
        return [result for each in some for result in await _embed_some([each], options)]
    return [
        (number, await _keep(step, [{**chunk, **_about(step), "embedding": next(vectors)} for chunk in chunks]))
        for number, step, chunks in some
    ]


def _about(step: StepContext) -> dict[str, Any]:
    places, document = step["places"], step["doc"]
    return {
        "document_id": document.hash,
        "document_uri": places[0].uri if places else None,
        "document_meta": document.doc_meta,
    }


async def _keep(step: StepContext, embedded: list[dict[str, Any]]) -> dict[str, Any]:
    doc_hash = step["doc_hash"]
    await write_json(doc_hash, ArtifactType.EMBEDDINGS, step["run_step"].step_config_id, embedded)
    await record_history(doc_hash, HistoryAction.EMBEDDED, meta={"chunks": len(embedded)})
    return {"embeddings": len(embedded)}
