"""Deleting runs inside a larger transaction, which decides which runs are to go.

The groups of the runs stay, and count the runs that are left. A group that loses its last unfinished run ends by that,
as it would have ended with the end of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from soliplex.ingester.lib.models import LifeCycleEvent, RunStatus
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.events import Outbox
from soliplex.ingester.lib.wf.operations.belonging import groups_ended
from soliplex.ingester.lib.wf.operations.definitions import learned_all
from soliplex.ingester.lib.wf.operations.task_queues import withdraw_tasks
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL


@dataclass(frozen=True, slots=True)
class DeletedRuns:
    """How much was deleted."""

    runs: int = 0
    steps: int = 0
    events: int = 0


def delete_runs(runs: Sequence[Row], now: datetime) -> Script[DeletedRuns]:
    """Delete runs with their steps and events. The caller holds them, and gives `id`, `run_group_id` and `status`."""
    if not runs:
        return DeletedRuns()
    ids = [run["id"] for run in runs]
    leases = yield SQL.leases_of_runs(ids=ids)
    yield from withdraw_tasks((yield SQL.tasks_of_runs(ids=ids)))
    yield SQL.delete_attempts_of_runs(ids=ids)
    yield SQL.delete_edges_of_runs(ids=ids)
    tasks = yield SQL.delete_tasks_of_runs(ids=ids)
    steps = yield SQL.delete_steps_of_runs(ids=ids)
    events = yield SQL.delete_events_of_runs(ids=ids)
    yield SQL.delete_payloads_of_runs(ids=ids)
    yield SQL.delete_runs(ids=ids)
    yield SQL.drop_locks_of_leases(leases=sorted(row["lease_token"] for row in leases))
    yield from _shrink_groups(runs, now)
    yield SQL.notify(channel=WORK_CHANNEL, types="")
    return DeletedRuns(len(ids), len(tasks) + len(steps), len(events))


def _shrink_groups(runs: Sequence[Row], now: datetime) -> Script[None]:
    by_group: defaultdict[int, list[RunStatus]] = defaultdict(list)
    for run in runs:
        by_group[run["run_group_id"]].append(RunStatus(run["status"]))
    yield from learned_all()
    outbox, ended = Outbox(get_registry()), list[Row]()
    for group_id in sorted(by_group):
        yield from _shrink_group(group_id, by_group[group_id], outbox, ended, now)
    yield from outbox.write(now)
    yield from groups_ended(ended, now)


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
    has_ended = before["completed_date"] is not None
    if left["remaining"] or (has_ended and not left["total"]):
        return  # The group goes on; or it has no runs from which it could take a status, and keeps the one it has.
    if before["delete_requested_at"] is not None:
        return  # The group is deleted as well, and does not end before that.
    status = _status_of(left)
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
