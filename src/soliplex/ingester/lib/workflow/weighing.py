"""What the steps of documents weigh, so that one of a giant shares no call with others: see `Weights` of the engine.

An earlier step said in its output how large the document is. One that had nothing to do said nothing: then the size of
the file tells roughly, and rather too much than too little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from soliplex.ingester.lib.models import Database, WorkflowStepType
from soliplex.ingester.lib.models.transactions import json_of
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.workflow.sql import SQL

BYTES_OF_A_CHUNK: Final = 200
"""Bytes of a chunk of plain text that is cut small. Other documents have more bytes for each chunk."""


async def chunks_of(steps: Sequence[ClaimedStep]) -> list[int]:
    """How many chunks the document of each step has."""
    return await _told(steps, WorkflowStepType.CHUNK, "chunks", BYTES_OF_A_CHUNK)


async def characters_of(steps: Sequence[ClaimedStep]) -> list[int]:
    """How many characters the document of each step has."""
    return await _told(steps, WorkflowStepType.PARSE, "characters", 1)


async def _told(steps: Sequence[ClaimedStep], step_type: WorkflowStepType, name: str, bytes_of_one: int) -> list[int]:
    """What the step of this type said under this name in each run; else a guess by the file's size."""
    told: defaultdict[int, int] = defaultdict(int)
    runs = sorted({step.run_id for step in steps})
    for row in await Database.read(SQL.outputs_of_runs(ids=runs, types=[step_type])):
        output = json_of(row, "output")
        if isinstance(output, dict) and isinstance(output.get(name), int):
            told[row["workflow_run_id"]] += output[name]
    sizes = await _sizes({step.run["doc_id"] for step in steps if step.run_id not in told})
    return [told[step.run_id] if step.run_id in told else sizes[step.run["doc_id"]] // bytes_of_one for step in steps]


async def _sizes(doc_hashes: set[str | None]) -> defaultdict[str | None, int]:
    """Bytes of documents; 0 for those that are gone."""
    found: defaultdict[str | None, int] = defaultdict(int)
    if hashes := sorted(each for each in doc_hashes if each is not None):
        for row in await Database.read(SQL.documents_by_hash(hashes=hashes)):
            found[row["hash"]] = row["file_size"] or 0
    return found
