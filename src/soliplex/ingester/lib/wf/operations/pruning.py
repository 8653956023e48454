"""Deleting run groups, at a user's wish or because they are old: in small transactions, however large a group is.

    request     the group is marked: nothing joins it any more, and whoever looks sees that it is being deleted
    pieces      some hundred runs at a time, with all that belongs to them; before those, the tasks of large map steps
    end         the group itself

If the process dies in between, the mark stays, and a duty of the workers goes on from there. What was pruned for its
age leaves its profile behind (`stepprofile`): how many steps of each kind there were, how they ended and how long they
took. The profile is counted by the transaction that deletes the steps, so each is counted once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Final, Self

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row, Script, datetime_of, single
from soliplex.ingester.lib.wf.operations.deleting import DeletedRuns, delete_runs
from soliplex.ingester.lib.wf.sql import SQL

RUNS_AT_ONCE: Final = 200
STEPS_AT_ONCE: Final = 2_000
PAYLOADS_AT_ONCE: Final = 200
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
GROUPS_AT_ONCE: Final = 500
FORGOTTEN_AFTER: Final = timedelta(minutes=5)
"""A deletion that was requested longer ago is taken up by others: whoever began it may have died."""


@dataclass(slots=True)
class DeletedGroups:
    """How much was deleted."""

    groups: int = 0
    runs: int = 0
    steps: int = 0
    events: int = 0

    def add(self, deleted: DeletedRuns) -> None:
        self.runs += deleted.runs
        self.steps += deleted.steps
        self.events += deleted.events


async def delete_run_group(run_group_id: int, *, now: datetime | None = None) -> dict[str, int]:
    """Delete a group with its runs, steps and events, and say how many of each."""
    done = DeletedGroups()
    moment = now or utcnow()
    if not await Database.transact(single(SQL.request_deletion(group_id=run_group_id, now=moment))):
        raise NotFoundError("run group", run_group_id)
    await _delete_requested(run_group_id, done, moment, keep_profile=False)
    deleted = {
        "deleted_runsteps": done.steps,
        "deleted_lifecyclehistory": done.events,
        "deleted_workflowruns": done.runs,
        "deleted_rungroups": done.groups,
    }
    return {**deleted, "total_deleted": sum(deleted.values())}


async def _delete_requested(group_id: int, done: DeletedGroups, now: datetime, *, keep_profile: bool) -> None:
    """Delete a group that is marked, in pieces."""
    while run_ids := await _first_runs(group_id):
        while tasks := await Database.transact(_delete_tasks(run_ids, keep_profile=keep_profile)):
            done.steps += tasks
            if tasks < STEPS_AT_ONCE:
                break
        while await Database.transact(_delete_payloads(run_ids)) == PAYLOADS_AT_ONCE:
            pass
        done.add(await Database.transact(_delete_runs(run_ids, now, keep_profile=keep_profile)))
    events, groups = await Database.transact(_delete_group(group_id))
    done.events += events
    done.groups += groups


async def _first_runs(group_id: int) -> list[int]:
    """Some runs of the group: as many as have few enough steps together, and one at least."""
    rows = await Database.read(SQL.first_runs_of_group(group_id=group_id, limit=RUNS_AT_ONCE))
    totals = accumulate(row["steps"] for row in rows)
    few = [row["id"] for row, total in zip(rows, totals, strict=True) if total <= STEPS_AT_ONCE]
    return few or [row["id"] for row in rows[:1]]


def _delete_tasks(run_ids: Sequence[int], *, keep_profile: bool) -> Script[int]:
    """Delete some tasks of the runs' map steps; gives how many."""
    yield SQL.lock_runs(ids=run_ids)
    ids = [row["id"] for row in (yield SQL.some_tasks_of_runs(ids=run_ids, limit=STEPS_AT_ONCE))]
    if ids:
        if keep_profile:
            yield SQL.profile_steps(ids=ids)
        leases = yield SQL.leases_of_steps(ids=ids)
        yield SQL.delete_attempts_of_steps(ids=ids)
        yield SQL.delete_steps(ids=ids)
        yield SQL.drop_locks_of_leases(leases=sorted(row["lease_token"] for row in leases))
    return len(ids)


def _delete_payloads(run_ids: Sequence[int]) -> Script[int]:
    """Delete some large inputs and outputs of the runs; gives how many."""
    yield SQL.lock_runs(ids=run_ids)
    ids = [row["id"] for row in (yield SQL.some_payloads_of_runs(ids=run_ids, limit=PAYLOADS_AT_ONCE))]
    if ids:
        yield SQL.delete_payloads(ids=ids)
    return len(ids)


def _delete_runs(run_ids: Sequence[int], now: datetime, *, keep_profile: bool) -> Script[DeletedRuns]:
    yield SQL.lock_runs(ids=run_ids)
    runs: Sequence[Row] = yield SQL.runs_to_delete(ids=run_ids)
    for run in runs:
        if run["parent_step_id"] is not None and run["completed_date"] is None:
            yield SQL.signal_parents(run_id=run["id"], status=RunStatus.CANCELLED, error="the run was deleted", now=now)
    if keep_profile:
        steps = yield SQL.steps_of_runs_to_delete(ids=run_ids)
        yield SQL.profile_steps(ids=[row["id"] for row in steps])
    return (yield from delete_runs(runs, now))


def _delete_group(group_id: int) -> Script[tuple[int, int]]:
    events = yield SQL.delete_events_of_group(group_id=group_id)
    groups = yield SQL.delete_group(group_id=group_id)
    return len(events), len(groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the history of run groups that have ended is kept."""

    ended: timedelta | None = None
    """For groups that are COMPLETED or CANCELLED. None: for ever."""
    failed: timedelta | None = None
    """For groups that FAILED, since somebody may still want to know why. None: for ever."""
    by_workflow: Mapping[str, timedelta] = field(default_factory=dict[str, timedelta])
    """For some workflows, in place of `ended`."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        pairs = (item.partition("=") for item in settings.history_retention_by_workflow)
        return cls(
            ended=_days(settings.history_retention_days),
            failed=_days(settings.history_retention_failed_days),
            by_workflow={name.strip(): timedelta(days=float(days)) for name, _, days in pairs},
        )

    @property
    def keeps_all(self) -> bool:
        return self.ended is None and self.failed is None and not self.by_workflow

    def is_over(self, group: OldGroup, now: datetime) -> bool:
        kept = self.by_workflow.get(group.workflow_id, self.ended)
        if group.status is RunStatus.FAILED:
            kept = self.failed
        return kept is not None and group.completed_date <= now - kept

    def shortest(self, status: RunStatus) -> timedelta | None:
        """What is younger than this is kept, whatever its workflow."""
        if status is RunStatus.FAILED:
            return self.failed
        return min((each for each in (self.ended, *self.by_workflow.values()) if each is not None), default=None)


def _days(number: float) -> timedelta | None:
    return timedelta(days=number) if number else None


@dataclass(frozen=True, slots=True)
class OldGroup:
    """A run group that has ended."""

    id: int
    workflow_id: str
    status: RunStatus
    completed_date: datetime
    total_runs: int


async def groups_to_prune(retention: Retention, *, now: datetime | None = None) -> AsyncIterator[OldGroup]:
    """The groups whose time is over, by status and in the order of their ends. Those with events to deliver stay."""
    moment = now or utcnow()
    for status in (RunStatus.COMPLETED, RunStatus.CANCELLED, RunStatus.FAILED):
        kept = retention.shortest(status)
        async for group in _old_groups(status, moment - kept) if kept is not None else _none():
            if retention.is_over(group, moment):
                yield group


async def _none() -> AsyncIterator[OldGroup]:
    for nothing in ():
        yield nothing


async def _old_groups(status: RunStatus, before: datetime) -> AsyncIterator[OldGroup]:
    """Groups in this status that ended by this moment."""
    last, last_id = LONG_AGO, 0
    while True:
        rows = await Database.read(
            SQL.groups_by_end(
                status=status.value, before=before, after_date=last, after_id=last_id, limit=GROUPS_AT_ONCE
            )
        )
        for row in rows:
            last, last_id = datetime_of(row, "completed_date") or last, row["id"]
            if not row["has_deliveries"]:
                yield OldGroup(row["id"], row["workflow_definition_id"], status, last, row["total_runs"])
        if len(rows) < GROUPS_AT_ONCE:
            return


async def prune_history(retention: Retention, *, now: datetime | None = None) -> DeletedGroups:
    """Delete the groups whose time is over, and keep the profiles of their steps."""
    done = DeletedGroups()
    moment = now or utcnow()
    async for group in groups_to_prune(retention, now=moment):
        if await Database.transact(single(SQL.request_pruning(group_id=group.id, now=moment))):
            await _delete_requested(group.id, done, moment, keep_profile=True)
    return done


async def resume_deletions(*, now: datetime | None = None) -> DeletedGroups:
    """Go on with deletions whose process has died."""
    done = DeletedGroups()
    moment = now or utcnow()
    for row in await Database.read(SQL.unfinished_deletions(before=moment - FORGOTTEN_AFTER)):
        await _delete_requested(row["id"], done, moment, keep_profile=bool(row["is_pruned"]))
    return done


async def prune_signals(older_than: timedelta, *, now: datetime | None = None) -> int:
    """Delete signals that nobody has waited for within this time; gives how many."""
    before = (now or utcnow()) - older_than
    return len(await Database.transact(single(SQL.delete_old_signals(before=before))))
