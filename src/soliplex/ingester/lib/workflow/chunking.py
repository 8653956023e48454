"""The chunk step: from a parsed document to passages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from soliplex.ingester.lib.chunking import Chunk, ChunkOptions, chunk
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, WorkflowStepType
from soliplex.ingester.lib.operations import record_histories
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.handlers import StepContext, batch_handler
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.artifacts import SKIPPED, are_there, each_alone, encoded, the_step
from soliplex.ingester.lib.workflow.skipping import skippable

DOCUMENTS_AT_ONCE: Final = 16
LARGE: Final = 2 << 20
"""Bytes of a parsed document from which another process reads and cuts it. Here it would hold up others, and become
twenty times as many bytes of objects."""


@skippable
@batch_handler(limit=DOCUMENTS_AT_ONCE, wants={"earlier"})
async def chunk_document(batch: list[StepContext], processes: ProcessPool) -> list[Any]:
    """Cut parsed documents into chunks. One that cannot be read fails alone."""
    results = await each_alone(partial(_chunk, processes=processes), batch)
    made = {
        step["doc_hash"]: result
        for step, result in zip(batch, results, strict=True)
        if isinstance(result, dict) and result is not SKIPPED
    }
    await record_histories(made, HistoryAction.CHUNKED)
    return results


async def _chunk(step: StepContext, processes: ProcessPool) -> dict[str, Any]:
    doc_hash, config_id = step["doc_hash"], step["run_step"].step_config_id
    if await are_there(doc_hash, config_id, ArtifactType.CHUNKS):
        return SKIPPED
    options = ChunkOptions.read(step["step_params"])
    parsed = the_step(step["earlier"], WorkflowStepType.PARSE).config_id
    count, content = await _cut(doc_hash, parsed, options, processes)
    await get_artifacts().write(doc_hash, ArtifactType.CHUNKS, config_id, content)
    return {"chunks": count}


type Cut = tuple[int, bytes]
"""How many chunks, and these as JSON."""


async def _cut(doc_hash: str, parsed: int, options: ChunkOptions, processes: ProcessPool) -> Cut:
    artifacts = get_artifacts()
    async with artifacts.artifact_file(doc_hash, ArtifactType.PARSED_JSON, parsed) as document:
        if found := await asyncio.to_thread(_cut_short, document, options):
            return found
        async with artifacts.artifact_file(doc_hash, ArtifactType.PARSED_MD, parsed) as markdown:
            if await asyncio.to_thread(_is_short, document):
                return await asyncio.to_thread(cut_files, document, markdown, options)
            arguments = {"document": document, "markdown": markdown, "options": options}
            return cast("Cut", await processes.run(f"{__name__}.cut_files", arguments))


def _cut_short(document: Path, options: ChunkOptions) -> Cut | None:
    """The chunks of a document that is not large; None if it is, or has no structure to be cut by."""
    if not _is_short(document):
        return None
    chunks = chunk(json.loads(document.read_bytes()), "", options)
    return _as_json(chunks) if chunks else None


def _is_short(document: Path) -> bool:
    return document.stat().st_size <= LARGE


def cut_files(document: Path, markdown: Path, options: ChunkOptions) -> Cut:
    """The chunks of a parsed document, by its Markdown if it has no structure."""
    return _as_json(chunk(json.loads(document.read_bytes()), markdown.read_text("utf-8"), options))


def _as_json(chunks: Sequence[Chunk]) -> Cut:
    return len(chunks), encoded([each.as_json() for each in chunks])
