"""Groups and runs as a whole: cancelling, retrying by hand, deleting, and counting anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database, LifeCycleEvent, RunStatus
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import Row, Script, single
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.events import Outbox
from soliplex.ingester.lib.wf.operations.belonging import groups_began, groups_ended
from soliplex.ingester.lib.wf.operations.definitions import learned_all
from soliplex.ingester.lib.wf.operations.finish import settlement_for_runs, tell_parent, why_it_failed
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL, work_is_ready

RUNS_AT_ONCE: Final = 500
"""Cancelling and retrying go through a large group in transactions of this many runs, so that nobody waits long."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancellation found to stop."""

    runs: int
    steps: int
    """Steps that waited and are cancelled; running ones are stopped by their workers within a second."""


@dataclass(frozen=True, slots=True)
class Retried:
    """What a manual retry put back."""

    reset_runs: int
    reset_steps: int


async def cancel_run(run_id: int, *, now: datetime | None = None) -> Cancelled:
    """Stop a run: what waits is cancelled now, what runs is stopped by the worker that holds it."""
    moment = now or utcnow()
    await _require(SQL.run_exists(run_id=run_id), "workflow run", run_id)
    cancelled = await Database.transact(_cancel_script([run_id], moment))
    work_is_ready()
    return cancelled


async def cancel_run_group(group_id: int, *, now: datetime | None = None) -> Cancelled:
    """Stop every run of a group.

    The wish is recorded for all of them first, in one statement: a worker that claims one of their steps meanwhile does
    not execute it.
    """
    moment = now or utcnow()
    # The group is flagged first, in a transaction of its own: from then on no run joins it. Holding its runs and then
    # the group in one transaction could deadlock with another that holds them in the other order.
    await _require(SQL.flag_group(group_id=group_id, now=moment), "run group", group_id)
    flagged = await Database.transact(single(SQL.flag_runs_of_group(group_id=group_id, now=moment)))
    run_ids = sorted(row["id"] for row in flagged)
    steps = 0
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        part = await Database.transact(_cancel_script(run_ids[start : start + RUNS_AT_ONCE], moment))
        steps += part.steps
    work_is_ready()
    return Cancelled(len(run_ids), steps)


def _cancel_script(run_ids: Sequence[int], now: datetime) -> Script[Cancelled]:
    settlement = yield from settlement_for_runs(run_ids, now)
    rows = yield SQL.mark_runs_stopping(ids=sorted(run_ids), now=now)
    settlement.stop(row["id"] for row in rows)
    yield from settlement.settle()
    finished = yield from settlement.close()
    yield SQL.notify(channel=WORK_CHANNEL, types="")
    return Cancelled(len(rows), finished.cancelled)


async def retry_run_group(group_id: int, *, hard: bool = False, now: datetime | None = None) -> Retried:
    """Put the failed and cancelled steps of a group back to PENDING; hard: all that are not COMPLETED."""
    moment = now or utcnow()

    def runs_to_retry() -> Script[list[int]]:
        held = yield SQL.lock_group(group_id=group_id)
        if not held:
            raise NotFoundError("run group", group_id)
        _refuse_deleted(held)
        rows = yield SQL.unfinished_runs_of_group(group_id=group_id, hard=hard)
        return sorted(row["id"] for row in rows)

    run_ids = await Database.transact(runs_to_retry())
    runs = steps = 0
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        part = await Database.transact(retry_script(run_ids[start : start + RUNS_AT_ONCE], hard=hard, now=moment))
        runs, steps = runs + part.reset_runs, steps + part.reset_steps
    work_is_ready()
    return Retried(runs, steps)


async def retry_run(run_id: int, *, hard: bool = False, now: datetime | None = None) -> Retried:
    """As retry_run_group, for one run."""
    await _require(SQL.run_exists(run_id=run_id), "workflow run", run_id)
    retried = await Database.transact(retry_script([run_id], hard=hard, now=now or utcnow()))
    work_is_ready()
    return retried


def retry_script(run_ids: Sequence[int], *, hard: bool, now: datetime) -> Script[Retried]:
    """As retry_run, for several runs, as a part of a transaction."""
    held = yield SQL.lock_runs(ids=sorted(run_ids))
    before = {row["id"]: row for row in (yield SQL.runs_by_id(ids=[row["id"] for row in held]))}
    chosen = [run_id for run_id, run in before.items() if hard or run["status"] in _RETRIED]
    if not chosen:
        return Retried(0, 0)
    _refuse_subflows((yield SQL.runs_not_waited_for(ids=chosen)))
    leases: list[str] = []
    if hard:
        # A running step loses its lease here: what its worker still computes will be dropped. A worker that lives may
        # be writing under its lock. It keeps the lock until it has stopped, which it does within about a second.
        leases = [row["lease_token"] for row in (yield SQL.leases_of_absent_workers(ids=chosen))]
    reset = yield (SQL.reset_unfinished_steps if hard else SQL.reset_ended_steps)(ids=chosen, now=now)
    touched = sorted({row["workflow_run_id"] for row in reset})
    if not touched:
        return Retried(0, 0)
    yield SQL.recount_dependencies(ids=touched)
    yield SQL.recount_tasks(ids=touched, now=now)
    yield SQL.reopen_runs(ids=touched, now=now)
    # After the steps, as everywhere. A lock that steps of other runs share stays theirs.
    yield SQL.drop_locks_of_leases(leases=sorted(leases))
    yield from _reopen_groups([before[run_id] for run_id in touched], now)
    yield SQL.notify(channel=WORK_CHANNEL, types="")
    return Retried(len(touched), len(reset))


def _refuse_subflows(runs: Sequence[Row]) -> None:
    """Nobody would be told how these end, and they would be cancelled as orphans."""
    for run in runs:
        raise ConflictError(_why_nobody_waits(run))


def _why_nobody_waits(run: Row) -> str:
    if run["parent_run_id"] is None:
        name = run["workflow_definition_id"]
        return f"run {run['id']} was started by a step of another run, which is deleted: start a new run of {name!r}"
    parent = run["parent_run_id"]
    return (
        f"run {run['id']} was started by the step {run['workflow_step_name']!r} of run {parent}, which waits for it no "
        f"more: retry run {parent}, whose step starts another one"
    )


def _refuse_deleted(groups: Sequence[Row]) -> None:
    """What begins anew in a group that is being deleted, or pruned, would be deleted with it."""
    for group in groups:
        if group["delete_requested_at"] is not None:
            raise ConflictError(f"run group {group['id']} is being deleted")


def _reopen_groups(runs: Sequence[Row], now: datetime) -> Script[None]:
    """Let the groups of these runs, given as they were before the retry, go on with them."""
    groups: list[Row] = []
    for group_id in sorted({run["run_group_id"] for run in runs}):
        held = yield SQL.lock_group(group_id=group_id)
        _refuse_deleted(held)
        ended = [run for run in runs if run["run_group_id"] == group_id and run["status"] in _ENDED]
        if ended:
            groups += held
            yield SQL.reopen_group(
                group_id=group_id,
                runs=len(ended),
                failed=sum(run["status"] == RunStatus.FAILED for run in ended),
                cancelled=sum(run["status"] == RunStatus.CANCELLED for run in ended),
                now=now,
            )
    yield from groups_began(group["batch_id"] for group in groups)


_RETRIED = frozenset({str(RunStatus.FAILED), str(RunStatus.CANCELLED)})
_ENDED = _RETRIED | {str(RunStatus.COMPLETED)}


async def recompute_run_status(run_id: int, *, now: datetime | None = None) -> RunStatus:
    """Count the run's steps anew and derive its status from them. Doing it twice changes nothing."""
    moment = now or utcnow()

    def script() -> Script[RunStatus]:
        held = yield SQL.lock_runs(ids=[run_id])
        if not held:
            raise NotFoundError("workflow run", run_id)
        before = (yield SQL.runs_by_id(ids=[run_id]))[0]
        counts = (yield SQL.count_steps_of_run(run_id=run_id))[0]
        status = _status_of_run(before, counts)
        rows = yield SQL.set_run_status(
            run_id=run_id,
            remaining=counts["remaining"],
            failed=counts["failed"],
            **_dated(before, status, moment),
        )
        if status != before["status"]:
            yield from _note_change(before, rows[0], moment)
        return status

    return await Database.transact(script())


def _status_of_run(run: Row, counts: Row) -> RunStatus:
    if counts["remaining"]:
        if counts["executed"]:
            return RunStatus.RUNNING
        if run["status"] not in _ENDED:
            return RunStatus(run["status"])  # begun and given back, or put back by hand: only the run itself knows
        return RunStatus.RUNNING if counts["begun"] else RunStatus.PENDING
    if counts["failed"] or run["is_overdue"]:
        return RunStatus.FAILED
    is_cancelled = counts["cancelled"] or run["cancel_requested_at"] is not None
    return RunStatus.CANCELLED if is_cancelled else RunStatus.COMPLETED


def _dated(before: Row, status: RunStatus, now: datetime) -> dict[str, Any]:
    """The status with its dates, which change only with it."""
    return {
        "status": status.value,
        "status_date": before["status_date"] if status == before["status"] else now,
        "completed_date": (before["completed_date"] or now) if status.is_final else None,
    }


def _note_change(before: Row, run: Row, now: datetime) -> Script[None]:
    if run["status"] in _ENDED and before["status"] not in _ENDED:
        completed = run["status"] == RunStatus.COMPLETED
        if completed and run["doc_id"] is None:
            yield SQL.gather_run_outputs(ids=[run["id"]])
        yield from learned_all()
        outbox = Outbox(get_registry())
        outbox.add(
            LifeCycleEvent.ITEM_END if completed else LifeCycleEvent.ITEM_FAILED,
            workflow_id=before["workflow_definition_id"],
            group_id=run["run_group_id"],
            run_id=run["id"],
            message=None if completed else why_it_failed(run),
        )
        yield from outbox.write(now)
        if run["parent_step_id"] is not None:
            yield from tell_parent(run, now)
    yield from _recount_group(run["run_group_id"], now)


async def try_complete_run_group(group_id: int, *, now: datetime | None = None) -> bool:
    """End the group if all its runs have ended. True for the one caller that ended it and so wrote GROUP_END."""
    moment = now or utcnow()
    return await Database.transact(_recount_group(group_id, moment))


def _recount_group(group_id: int, now: datetime) -> Script[bool]:
    held = yield SQL.lock_group(group_id=group_id)
    if not held:
        raise NotFoundError("run group", group_id)
    before = held[0]
    counts = (yield SQL.count_runs_of_group(group_id=group_id))[0]
    status = _status_of_group(before, counts)
    yield SQL.set_group_status(
        group_id=group_id, **{name: counts[name] for name in _COUNTED}, **_dated(before, status, now)
    )
    ended = status.is_final and before["status"] not in _ENDED
    if ended:
        yield from _tell_end(before, now)
    return ended


def end_without_runs(group_id: int, now: datetime) -> Script[None]:
    """End a group that has nothing to do, so that nobody waits for it for ever; runs that join it open it again."""
    group = (yield SQL.lock_group(group_id=group_id))[0]
    counts = (yield SQL.count_runs_of_group(group_id=group_id))[0]
    if group["status"] in _ENDED or counts["total"]:
        return
    yield SQL.set_group_status(
        group_id=group_id,
        **{name: counts[name] for name in _COUNTED},
        **_dated(group, RunStatus.COMPLETED, now),
    )
    yield from _tell_end(group, now)


def _tell_end(group: Row, now: datetime) -> Script[None]:
    yield from learned_all()
    outbox = Outbox(get_registry())
    outbox.add(LifeCycleEvent.GROUP_END, workflow_id=group["workflow_definition_id"], group_id=group["id"])
    yield from outbox.write(now)
    yield from groups_ended([group], now)


_COUNTED = ("total", "remaining", "failed", "cancelled")


def _status_of_group(group: Row, counts: Row) -> RunStatus:
    if counts["remaining"] or not counts["total"]:
        has_ended = group["status"] in _ENDED and counts["total"]
        return RunStatus.RUNNING if has_ended else RunStatus(group["status"])
    if counts["failed"]:
        return RunStatus.FAILED
    return RunStatus.CANCELLED if counts["cancelled"] else RunStatus.COMPLETED


async def _require(call: Call, kind: str, name: object) -> None:
    if not await Database.transact(single(call)):
        raise NotFoundError(kind, name)


async def anything_left() -> bool:
    """Whether a step or an event waits or is under way."""

    def script() -> Script[bool]:
        rows = yield SQL.anything_left()
        return bool(rows[0]["some"])

    return await Database.transact(script())
