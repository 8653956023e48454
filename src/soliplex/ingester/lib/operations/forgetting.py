"""Deleting the runs of documents that are deleted, inside the transaction that deletes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.wf.operations.deleting import DeletedRuns, delete_runs


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted, and which resources the runs of each document would have used."""

    deleted: DeletedRuns
    resources: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


def forget_runs_of_documents(doc_ids: Sequence[str], now: datetime) -> Script[Forgotten]:
    """Delete every run of these documents with its steps and events."""
    runs = yield SQL.lock_runs_of_documents(doc_ids=sorted(doc_ids))
    if not runs:
        return Forgotten(DeletedRuns())
    resources = yield SQL.resources_of_runs(ids=[run["id"] for run in runs])
    deleted = yield from delete_runs(runs, now)
    return Forgotten(deleted, _by_document(resources))


def _by_document(resources: Sequence[Row]) -> dict[str, frozenset[str]]:
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for row in resources:
        keys[row["doc_id"]].add(row["resource_key"])
    return {doc_id: frozenset(found) for doc_id, found in keys.items()}
