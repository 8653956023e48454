"""The embed step: the chunks of many documents in one call, each text embedded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from soliplex.ingester.lib.chunking import Chunk, embedding_text
from soliplex.ingester.lib.embedding import EmbedOptions, open_cached_embedder
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, WorkflowStepType
from soliplex.ingester.lib.operations import record_history
from soliplex.ingester.lib.wf.handlers import StepContext, batch_handler
from soliplex.ingester.lib.workflow.artifacts import SKIPPED, are_there, read_json, required, the_step, write_json

DOCUMENTS_AT_ONCE: Final = 64


@batch_handler(limit=DOCUMENTS_AT_ONCE)
async def embed_document(batch: list[StepContext]) -> list[Any]:
    """Embed the chunks of the documents. One whose chunks cannot be read fails alone."""
    results: list[Any] = [None] * len(batch)
    waiting: list[tuple[int, StepContext, list[dict[str, Any]]]] = []
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


async def _embed_all(
    waiting: Sequence[tuple[int, StepContext, list[dict[str, Any]]]],
) -> list[tuple[int, dict[str, Any]]]:
    if not waiting:
        return []
    # Steps that share a call share their configuration only where it is the same.
    results: list[tuple[int, dict[str, Any]]] = []
    options = {number: EmbedOptions.read(step["step_params"]) for number, step, _ in waiting}
    for chosen in dict.fromkeys(options.values()):
        some = [each for each in waiting if options[each[0]] == chosen]
        async with open_cached_embedder(chosen) as embedder:
            texts = [embedding_text(Chunk.from_json(chunk)) for _, _, chunks in some for chunk in chunks]
            vectors = iter(await embedder.embed(texts)) if texts else iter(())
        for number, step, chunks in some:
            embedded = [{**chunk, **_about(step), "embedding": next(vectors)} for chunk in chunks]
            results.append((number, await _keep(step, embedded)))
    return results


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
