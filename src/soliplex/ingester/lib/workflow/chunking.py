"""The chunk step: from a parsed document to passages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

from soliplex.ingester.lib.chunking import ChunkOptions, chunk
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, RunStep, WorkflowStepType
from soliplex.ingester.lib.operations import record_history
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.artifacts import SKIPPED, are_there, read_json, the_step, write_json
from soliplex.ingester.lib.workflow.skipping import skippable

LARGE: Final = 300_000
"""Characters from which the cutting, a millisecond a page, is done in another process: here it would hold up others."""


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
    document = await read_json(doc_hash, ArtifactType.PARSED_JSON, parsed)
    markdown = (await get_artifacts().read(doc_hash, ArtifactType.PARSED_MD, parsed)).decode()
    arguments = {"document": document, "markdown": markdown, "options": options}
    if len(markdown) > LARGE:
        chunks = cast("list[dict[str, Any]]", await processes.run(f"{__name__}.cut", arguments))
    else:
        chunks = await asyncio.to_thread(cut, document, markdown, options)
    await write_json(doc_hash, ArtifactType.CHUNKS, config_id, chunks)
    await record_history(doc_hash, HistoryAction.CHUNKED, meta={"chunks": len(chunks)})
    return {"chunks": len(chunks)}


def cut(document: dict[str, Any] | None, markdown: str, options: ChunkOptions) -> list[dict[str, Any]]:
    return [each.as_json() for each in chunk(document, markdown, options)]
