"""How far batches have come."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from soliplex.ingester.lib.models import Database, DocumentBatch, RunStatus, WorkflowRun
from soliplex.ingester.lib.operations.batches.batch_rows import get_batch
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.wf.views import Paging, list_runs

RUNS_SHOWN: Final = Paging(1, 100)
"""How many of a batch's runs its status shows; `list_runs` pages through all of them."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch has come."""

    batch: DocumentBatch
    document_count: int
    """How many documents the batch has; one that lives at several URIs counts once."""
    workflow_count: dict[RunStatus, int]
    """How many documents are in each status, by their newest runs; those without a run are in none."""
    workflows: list[WorkflowRun]
    """The newest runs."""

    @property
    def parsed(self) -> int:
        """How many documents were processed to the end."""
        return self.workflow_count.get(RunStatus.COMPLETED, 0)

    @property
    def remaining(self) -> int:
        return max(0, self.document_count - self.parsed)


async def batch_status(batch_id: int, *, paging: Paging = RUNS_SHOWN) -> BatchStatus:
    """How many documents a batch has, and how they fare; with its runs, the newest first."""
    batch = await get_batch(batch_id)
    documents = (await Database.read(SQL.count_documents_of_batch(batch_id=batch_id)))[0]["documents"]
    counts: Counter[RunStatus] = Counter()
    for row in await Database.read(SQL.documents_by_status(batch_id=batch_id)):
        counts[RunStatus(row["status"])] += row["documents"]
    runs = await list_runs(batch_id=batch_id, paging=paging)
    return BatchStatus(batch, documents, dict(counts), runs.items)
