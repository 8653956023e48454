"""The chunk step: from a parsed document to passages.

A large document is cut in another process, which leaves its chunks in a file: the worker holds none of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any, Final, cast

from soliplex.ingester.lib.chunking import Chunk, ChunkOptions, chunk
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, WorkflowStepType
from soliplex.ingester.lib.operations import record_histories
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.storage.threads import in_thread
from soliplex.ingester.lib.wf.handlers import StepContext, Weights, batch_handler
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.arrays import PIECE, ArrayFile
from soliplex.ingester.lib.workflow.step_artifacts import SKIPPED, are_there, each_alone, encoded, the_step
from soliplex.ingester.lib.workflow.weighing import characters_of

DOCUMENTS_AT_ONCE: Final = 16
LARGE: Final = 2 << 20
"""Bytes of a parsed document from which another process reads and cuts it. Here it would hold up others, and become
twenty times as many bytes of objects."""
CHARACTERS_AT_ONCE: Final = 4 << 20
"""Most characters that the documents of one call have together."""


@batch_handler(limit=DOCUMENTS_AT_ONCE, wants={"earlier"}, weights=Weights(characters_of, most=CHARACTERS_AT_ONCE))
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
    return {"chunks": await _cut(doc_hash, parsed, config_id, options, processes)}


type Cut = tuple[int, bytes]
"""The number of chunks, and the chunks as JSON."""


async def _cut(doc_hash: str, parsed: int, config_id: int, options: ChunkOptions, processes: ProcessPool) -> int:
    """Store the chunks of a parsed document; gives how many there are."""
    artifacts = get_artifacts()
    async with artifacts.artifact_file(doc_hash, ArtifactType.PARSED_JSON, parsed) as document:
        found = await asyncio.to_thread(_cut_short, document, options)
        if found is None:
            async with artifacts.artifact_file(doc_hash, ArtifactType.PARSED_MD, parsed) as markdown:
                if not await asyncio.to_thread(_are_short, document, markdown):
                    return await _cut_long(doc_hash, config_id, document, markdown, options, processes)
                found = await asyncio.to_thread(_cut_short_files, document, markdown, options)
    count, content = found
    await artifacts.write(doc_hash, ArtifactType.CHUNKS, config_id, content)
    return count


def _cut_short(document: Path, options: ChunkOptions) -> Cut | None:
    """The chunks of a document that is not large; None if it is, or has no structure to be cut by."""
    if not _are_short(document):
        return None
    chunks = chunk(json.loads(document.read_bytes()), "", options)
    return _as_json(chunks) if chunks else None


def _cut_short_files(document: Path, markdown: Path, options: ChunkOptions) -> Cut:
    return _as_json(_cut_files(document, markdown, options))


def _are_short(*files: Path) -> bool:
    return sum(file.stat().st_size for file in files) <= LARGE


async def _cut_long(
    doc_hash: str, config_id: int, document: Path, markdown: Path, options: ChunkOptions, processes: ProcessPool
) -> int:
    artifacts = get_artifacts()
    into = artifacts.spool.new_path()
    arguments = {"document": document, "markdown": markdown, "options": options, "into": into}
    try:
        count = cast("int", await processes.run(f"{__name__}.cut_into", arguments))
        await artifacts.write_file(doc_hash, ArtifactType.CHUNKS, config_id, into)
    finally:
        await in_thread(into.unlink, missing_ok=True)
    return count


def cut_into(document: Path, markdown: Path, options: ChunkOptions, into: Path) -> int:
    """Write the chunks of a parsed document into a file; gives how many there are. Called in another process."""
    file = ArrayFile(into)
    for some in batched(_cut_files(document, markdown, options), PIECE):
        file.append(each.as_json() for each in some)
    file.finish()
    return file.count


def _cut_files(document: Path, markdown: Path, options: ChunkOptions) -> Sequence[Chunk]:
    """The chunks of a parsed document, by its Markdown if it has no structure."""
    return chunk(json.loads(document.read_bytes()), markdown.read_text("utf-8"), options)


def _as_json(chunks: Sequence[Chunk]) -> Cut:
    return len(chunks), encoded([each.as_json() for each in chunks])
