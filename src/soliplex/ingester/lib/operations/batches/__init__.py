"""Batches: documents that come in together, how they fare, and how long they took.

batch_rows  starting a batch, finding and listing batches
status      how far a batch has come
times       how long batches took
keeping     a batch is complete when the last of its run groups has ended
"""

from __future__ import annotations

from soliplex.ingester.lib.operations.batches.batch_rows import (
    create_batch,
    get_batch,
    list_batches,
    require_batch,
    unfinished_batch,
)
from soliplex.ingester.lib.operations.batches.status import RUNS_SHOWN, BatchStatus, batch_status
from soliplex.ingester.lib.operations.batches.times import BatchTimes, batch_times

__all__ = [
    "RUNS_SHOWN",
    "BatchStatus",
    "BatchTimes",
    "batch_status",
    "batch_times",
    "create_batch",
    "get_batch",
    "list_batches",
    "require_batch",
    "unfinished_batch",
]
