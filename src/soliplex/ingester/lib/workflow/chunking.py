"""The chunk step: from a parsed document to passages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from soliplex.ingester.lib.chunking import ChunkOptions, chunk
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, RunStep, WorkflowStepType
from soliplex.ingester.lib.operations import record_history
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.artifacts import SKIPPED, are_there, the_step, write_json
from soliplex.ingester.lib.workflow.skipping import skippable

LARGE: Final = 2 << 20
"""Bytes of a parsed document from which another process reads and cuts it. Here it would hold up others, and become
twenty times as many bytes of objects."""


@skippable
async def chunk_document(
    run_step: RunStep,
    doc_hash: str,
    earlier: Mapping[str, Earlier],
    step_params: Mapping[str, Any],
    processes: ProcessPool,
) -> dict[str, Any]:
    """Cut the parsed document into chunks."""
    config_id = run_step.step_config_id
    if await are_there(doc_hash, config_id, ArtifactType.CHUNKS):
        return SKIPPED
    options = ChunkOptions.read(step_params)
    parsed = the_step(earlier, WorkflowStepType.PARSE).config_id
    chunks = await _cut(doc_hash, parsed, options, processes)
    await write_json(doc_hash, ArtifactType.CHUNKS, config_id, chunks)
    await record_history(doc_hash, HistoryAction.CHUNKED, meta={"chunks": len(chunks)})
    return {"chunks": len(chunks)}


async def _cut(doc_hash: str, parsed: int, options: ChunkOptions, processes: ProcessPool) -> list[dict[str, Any]]:
    artifacts = get_artifacts()
    async with (
        artifacts.artifact_file(doc_hash, ArtifactType.PARSED_JSON, parsed) as document,
        artifacts.artifact_file(doc_hash, ArtifactType.PARSED_MD, parsed) as markdown,
    ):
        if await asyncio.to_thread(_size, document) <= LARGE:
            return await asyncio.to_thread(cut_files, document, markdown, options)
        arguments = {"document": document, "markdown": markdown, "options": options}
        return cast("list[dict[str, Any]]", await processes.run(f"{__name__}.cut_files", arguments))


def _size(path: Path) -> int:
    return path.stat().st_size


def cut_files(document: Path, markdown: Path, options: ChunkOptions) -> list[dict[str, Any]]:
    """The chunks of a parsed document, as JSON."""
    content = json.loads(document.read_bytes())
    return [each.as_json() for each in chunk(content, markdown.read_text("utf-8"), options)]
