"""Deleting the runs of what is itself deleted, inside the transaction that deletes it.

The groups of the runs stay, and count what is left to them. A group whose last unfinished run goes ends by it, as it
would have by the end of that run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from soliplex.ingester.lib.models import LifeCycleEvent, RunStatus
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.events import Outbox
from soliplex.ingester.lib.wf.operations.batches import complete_batches
from soliplex.ingester.lib.wf.operations.finish import WORK_CHANNEL
from soliplex.ingester.lib.wf.sql import SQL


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted, and which resources the runs of each document would have used."""

    runs: int = 0
    steps: int = 0
    events: int = 0
    resources: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


def forget_runs_of_documents(doc_ids: Sequence[str], now: datetime) -> Script[Forgotten]:
    """Delete every run of these documents with its steps and events."""
    runs = yield SQL.lock_runs_of_documents(doc_ids=sorted(doc_ids))
    if not runs:
        return Forgotten()
    ids = [run["id"] for run in runs]
    resources = yield SQL.resources_of_runs(ids=ids)
    leases = yield SQL.leases_of_runs(ids=ids)
    yield SQL.delete_edges_of_runs(ids=ids)
    tasks = yield SQL.delete_tasks_of_runs(ids=ids)
    steps = yield SQL.delete_steps_of_runs(ids=ids)
    events = yield SQL.delete_events_of_runs(ids=ids)
    yield SQL.delete_runs(ids=ids)
    yield SQL.drop_locks_of_leases(leases=sorted(row["lease_token"] for row in leases))
    yield from _shrink_groups(runs, now)
    yield SQL.notify(channel=WORK_CHANNEL)
    return Forgotten(len(ids), len(tasks) + len(steps), len(events), _by_document(resources))


def _by_document(resources: Sequence[Row]) -> dict[str, frozenset[str]]:
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for row in resources:
        keys[row["doc_id"]].add(row["resource_key"])
    return {doc_id: frozenset(found) for doc_id, found in keys.items()}


def _shrink_groups(runs: Sequence[Row], now: datetime) -> Script[None]:
    by_group: defaultdict[int, list[RunStatus]] = defaultdict(list)
    for run in runs:
        by_group[run["run_group_id"]].append(RunStatus(run["status"]))
    outbox, ended = Outbox(get_registry()), list[Row]()
    for group_id in sorted(by_group):
        yield from _shrink_group(group_id, by_group[group_id], outbox, ended, now)
    yield from outbox.write(now)
    yield from complete_batches(ended, now)


def _shrink_group(
    group_id: int, gone: Sequence[RunStatus], outbox: Outbox, ended: list[Row], now: datetime
) -> Script[None]:
    before = (yield SQL.lock_group(group_id=group_id))[0]
    rows = yield SQL.shrink_group(
        group_id=group_id,
        total=len(gone),
        remaining=sum(not status.is_final for status in gone),
        failed=sum(status is RunStatus.FAILED for status in gone),
        cancelled=sum(status is RunStatus.CANCELLED for status in gone),
    )
    left = rows[0]
    if left["remaining"] or not left["total"]:
        return  # it goes on; or it has no runs from which it could take a status, and keeps the one it has
    status = _status_of(left)
    has_ended = before["completed_date"] is not None
    yield SQL.set_group_status(
        group_id=group_id,
        **{name: left[name] for name in ("total", "remaining", "failed", "cancelled")},
        status=status.value,
        status_date=before["status_date"] if has_ended else now,
        completed_date=before["completed_date"] if has_ended else now,
    )
    if not has_ended:
        outbox.add(LifeCycleEvent.GROUP_END, workflow_id=before["workflow_definition_id"], group_id=group_id)
        ended.append(before)


def _status_of(left: Row) -> RunStatus:
    if left["failed"]:
        return RunStatus.FAILED
    return RunStatus.CANCELLED if left["cancelled"] else RunStatus.COMPLETED
