"""Finishing: recording what became of claimed steps, many at a time, in one transaction.

The number of statements does not depend on the number of steps. A result whose lease no longer matches changes nothing
and is counted as lost. What follows from the end of a step (dependents that become ready, map steps, runs and groups
that end, steps that are cancelled because a sibling failed, events) is worked out by `Settlement` in the same
transaction.

A worker whose steps are short may take the next step of a run along (`Following`): what becomes ready is claimed by the
transaction that makes it so, and neither enters the ready index nor has to be looked for. That is no unfair advantage:
the claim would choose the same, since a run that began earlier comes first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from soliplex.ingester.lib.models import Database, LifeCycleEvent, RunStatus
from soliplex.ingester.lib.models.columns import to_sqlite_text, utcnow
from soliplex.ingester.lib.models.statements import Json, to_json
from soliplex.ingester.lib.models.transactions import Link, Row, Script, datetime_of
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.events import Outbox
from soliplex.ingester.lib.wf.operations.belonging import groups_ended
from soliplex.ingester.lib.wf.operations.definitions import learned
from soliplex.ingester.lib.wf.operations.parking import park
from soliplex.ingester.lib.wf.operations.payloads import lay_aside_gathered
from soliplex.ingester.lib.wf.operations.task_queues import withdraw_tasks
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.work import (
    ClaimedStep,
    Completed,
    Errored,
    Expanded,
    Parked,
    Released,
    Result,
    claimed_step,
)

ITEMS_AT_ONCE: Final = 1_000
"""Most items of map steps in one statement. An item has at most 64 KiB, and PostgreSQL takes lists of up to 256 MiB."""


@dataclass(frozen=True, slots=True)
class Following:
    """A claim, made along with finishing, of steps that become ready by it."""

    worker_id: str
    lease: str
    types: frozenset[str]


@dataclass(slots=True)
class Finished:
    """What a finishing transaction did."""

    completed: set[int] = field(default_factory=set[int])
    errored: set[int] = field(default_factory=set[int])
    """Steps that will be tried again."""
    failed: set[int] = field(default_factory=set[int])
    released: set[int] = field(default_factory=set[int])
    expanded: set[int] = field(default_factory=set[int])
    parked: set[int] = field(default_factory=set[int])
    """Steps that wait for a delay or a signal, or are ready again."""
    lost: set[int] = field(default_factory=set[int])
    """Steps whose lease another worker held: nothing was changed."""
    ready: dict[str, int] = field(default_factory=dict[str, int])
    """Types of which steps became ready, with the highest priority among them."""
    ended_runs: dict[int, str] = field(default_factory=dict[int, str])
    ended_groups: dict[int, float] = field(default_factory=dict[int, float])
    """Groups that have ended, and the seconds since each was created."""
    cancelled: int = 0
    """Steps that waited and were cancelled."""
    freed_keys: set[str] = field(default_factory=set[str])
    """Resources that nobody holds any more."""
    has_deliveries: bool = False
    has_signals: bool = False
    """Whether there are new signals: the ends of runs that steps of other runs wait for."""
    followers: list[ClaimedStep] = field(default_factory=list[ClaimedStep])
    """Steps that became ready by this transaction and were claimed in it."""

    @property
    def ready_types(self) -> set[str]:
        return set(self.ready)

    def note_ready(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.note_ready_types([row["step_type"]], row["priority"])

    def note_ready_types(self, types: Iterable[str], priority: int) -> None:
        for kind in types:
            self.ready[kind] = max(priority, self.ready.get(kind, priority))


async def finish_steps(
    results: Sequence[Result],
    *,
    following: Following | None = None,
    link: Link | None = None,
    now: datetime | None = None,
) -> Finished:
    """Record the results of claimed steps."""
    run = link.transact if link else Database.transact
    return await run(finish_script(results, following=following, now=now or utcnow()))


async def complete_step(step_id: int, lease: str, *, output: Any = None, now: datetime | None = None) -> bool:
    """Record that the step is COMPLETED, if the lease still matches. Says whether the lease did."""
    result = Completed(step_id=step_id, run_id=0, lease=lease, output=None if output is None else to_json(output))
    finished = await _finish_one(result, now)
    return step_id in finished.completed


async def error_step(
    step_id: int,
    lease: str,
    message: str,
    *,
    permanent: bool = False,
    delay: timedelta = timedelta(),
    now: datetime | None = None,
) -> RunStatus | None:
    """Count a failed attempt: ERROR while attempts remain, else FAILED, which cancels the rest of the run.

    None: the lease no longer matches, and nothing was changed.
    """
    result = Errored(step_id=step_id, run_id=0, lease=lease, message=message, permanent=permanent, delay=delay)
    finished = await _finish_one(result, now)
    if step_id in finished.lost:
        return None
    return RunStatus.FAILED if step_id in finished.failed else RunStatus.ERROR


async def release_step(step_id: int, lease: str, *, now: datetime | None = None) -> bool:
    """Put the step back to PENDING, without counting an attempt. Says whether the lease still matched."""
    finished = await _finish_one(Released(step_id=step_id, run_id=0, lease=lease), now)
    return step_id in finished.released


async def _finish_one(result: Result, now: datetime | None) -> Finished:
    return await Database.transact(finish_script([result], now=now or utcnow()))


def finish_script(results: Sequence[Result], *, following: Following | None = None, now: datetime) -> Script[Finished]:
    settlement = yield from settlement_for_steps(results, now)
    settlement.following = following
    by_kind = _by_kind(results)
    yield from _complete(by_kind[Completed], settlement)
    yield from _expand(by_kind[Expanded], settlement)
    yield from _error(by_kind[Errored], settlement)
    yield from _release(by_kind[Released], settlement)
    yield from park(by_kind[Parked], settlement)
    yield from settlement.settle()
    finished = settlement.finished
    known = (
        finished.completed
        | finished.errored
        | finished.failed
        | finished.released
        | finished.expanded
        | finished.parked
    )
    finished.lost = {result.step_id for result in results} - known
    if settlement.held_resources or finished.lost:
        freed = yield SQL.drop_locks_of_leases(leases=sorted({result.lease for result in results}))
        finished.freed_keys = {row["resource_key"] for row in freed}
    yield from settlement.close()
    return finished


def _by_kind(results: Iterable[Result]) -> defaultdict[type, list[Any]]:
    kinds: defaultdict[type, list[Any]] = defaultdict(list)
    for result in results:
        kinds[type(result)].append(result)
    return kinds


def settlement_for_steps(results: Sequence[Result], now: datetime) -> Script[Settlement]:
    run_ids = {result.run_id for result in results}
    if 0 in run_ids:
        rows = yield SQL.run_ids_of_steps(ids=[result.step_id for result in results])
        run_ids = {row["workflow_run_id"] for row in rows}
    return (yield from settlement_for_runs(run_ids, now))


def settlement_for_runs(run_ids: Iterable[int], now: datetime) -> Script[Settlement]:
    """Hold the runs, and begin to work out what follows for them."""
    rows = yield SQL.lock_runs(ids=sorted(run_ids))
    yield from learned(rows)
    return Settlement(now, {row["id"]: row for row in rows})


def _complete(results: list[Completed], settlement: Settlement) -> Script[None]:
    if not results:
        return
    leases = {lease: to_json(lease) for lease in {result.lease for result in results}}
    packed = ",".join([_packed_end(result, leases[result.lease]) for result in results])
    rows = yield SQL.complete_steps(results=f"[{packed}]", now=settlement.now)
    settlement.knows(results)
    settlement.left(rows)
    settlement.ended(rows, RunStatus.COMPLETED)


def _packed_end(result: Completed, lease: str) -> str:
    """The end of a step as JSON, around a lease and an output that are JSON already."""
    text = f'{{"id":{result.step_id},"lease":{lease}'
    if result.started_at is not None:
        text += f',"started_at":"{to_sqlite_text(result.started_at)}"'
    if result.message is not None:
        text += f',"message":{to_json(result.message)}'
    if result.meta is not None:
        text += f',"meta":{to_json(result.meta)}'
    if result.output is not None:
        text += f',"output":{result.output}'
    return text + "}"


def _packed_return(result: Errored | Released, now: datetime) -> dict[str, Any]:
    started_at = result.started_at if isinstance(result, Errored) else None
    every = {
        "id": result.step_id,
        "lease": result.lease,
        "started_at": to_sqlite_text(started_at) if started_at else None,
        "meta": result.meta,
        "message": result.message,
        "attempts": result.attempts if isinstance(result, Errored) and result.attempts > 1 else None,
        "available_at": to_sqlite_text(now + result.delay) if result.delay else None,
    }
    return {name: value for name, value in every.items() if value is not None}


def _expand(results: list[Expanded], settlement: Settlement) -> Script[None]:
    if not results:
        return
    # The same step may be among the results twice, under two leases of which either may be valid: they are tried one
    # after the other.
    first = {result.step_id: result for result in reversed(results)}
    yield from _complete([_without_items(result) for result in first.values() if not result.items], settlement)
    yield from _expand_maps({step_id: result for step_id, result in first.items() if result.items}, settlement)
    yield from _expand([result for result in results if first[result.step_id] is not result], settlement)


def _without_items(result: Expanded) -> Completed:
    return Completed(step_id=result.step_id, run_id=result.run_id, lease=result.lease, output="[]")


def _expand_maps(results: dict[int, Expanded], settlement: Settlement) -> Script[None]:
    if not results:
        return
    packed = [{"id": each.step_id, "lease": each.lease, "tasks": len(each.items)} for each in results.values()]
    rows = yield SQL.await_tasks(results=Json(packed))
    if rows:
        for pieces in _pieces({row["id"]: results[row["id"]].items for row in rows}):
            yield SQL.expand_maps(maps=Json(pieces), now=settlement.now)
        settlement.finished.expanded |= {row["id"] for row in rows}
        settlement.finished.note_ready(rows)
        settlement.left(rows)
        settlement.recheck(rows)


def _pieces(maps: dict[int, list[Any]]) -> Iterator[list[dict[str, Any]]]:
    """The items of these map steps, as many at a time as one statement takes."""
    pieces, room = list[dict[str, Any]](), ITEMS_AT_ONCE
    for step_id, items in maps.items():
        first = 0
        while first < len(items):
            some = items[first : first + room]
            pieces.append({"id": step_id, "first": first, "items": some})
            first, room = first + len(some), room - len(some)
            if not room:
                yield pieces
                pieces, room = [], ITEMS_AT_ONCE
    if pieces:
        yield pieces


def _error(results: list[Errored], settlement: Settlement) -> Script[None]:
    if not results:
        return
    now = settlement.now
    packed = [_packed_return(result, now) for result in results]
    rows = yield SQL.error_steps(results=Json(packed), now=now)
    if rows:
        # The same step may be among the results twice, under two leases of which one is valid: one attempt is recorded.
        once = list({each["id"]: each for each in packed}.values())
        yield SQL.insert_attempts(results=Json(once), ids=[row["id"] for row in rows], now=now)
    permanent = {result.step_id for result in results if result.permanent}
    failing = [row["id"] for row in rows if row["retry"] >= row["retries"] or row["id"] in permanent]
    settlement.finished.errored |= {row["id"] for row in rows} - set(failing)
    settlement.left(rows)
    settlement.recheck(rows)
    if failing:
        failed = yield SQL.fail_steps(ids=failing, now=now)
        settlement.ended(failed, RunStatus.FAILED)


def _release(results: list[Released], settlement: Settlement) -> Script[None]:
    if not results:
        return
    now = settlement.now
    rows = yield SQL.release_steps(results=Json([_packed_return(result, now) for result in results]), now=now)
    settlement.left(rows)
    settlement.released(rows)


class _Ended(NamedTuple):
    row: Row
    status: RunStatus


@dataclass(slots=True)
class _RunCount:
    ended: int = 0
    failed: int = 0
    message: str | None = None


@dataclass(slots=True)
class _Map:
    """A map step whose tasks are under way."""

    remaining: int
    failed: int
    max_failures: int | None
    has_failed_now: bool = False
    """Whether a task that has just ended was one failure too many."""

    def count(self, status: RunStatus) -> None:
        """Note that a task of the map step has ended."""
        self.remaining -= 1
        if status is RunStatus.FAILED:
            self.failed += 1
            self.has_failed_now = not self.tolerates(self.failed)

    def tolerates(self, failures: int) -> bool:
        return failures <= (self.max_failures or 0)


def _words_about(tasks: Row) -> str | None:
    """What a map step that has completed says of the tasks that failed."""
    return f"{tasks['failed']} of its tasks failed: {tasks['message']}" if tasks["failed"] else None


class Settlement:
    """What the end of some steps brings about, worked out in the transaction that ends them. The runs are held."""

    def __init__(self, now: datetime, runs: dict[int, Row]) -> None:
        self.now = now
        self.finished = Finished()
        self._runs = runs
        self._outbox = Outbox(get_registry())
        self._queue: list[_Ended] = []
        self._counts: defaultdict[int, _RunCount] = defaultdict(_RunCount)
        self._to_stop: set[int] = set()
        self.following: Following | None = None
        self.held_resources = False
        """Whether any of the steps was held under a lock on its resource."""
        self._claimed_runs: dict[int, Row] = {}

    def knows(self, results: Iterable[Completed]) -> None:
        """Remember the runs as these results' claims read them: what followers need of a run never changes."""
        self._claimed_runs |= {result.run_id: result.run for result in results if result.run is not None}

    def left(self, rows: Iterable[Row]) -> None:
        """The worker has let go of these steps."""
        self.held_resources = self.held_resources or any(row["resource_key"] is not None for row in rows)

    def ended(self, rows: Iterable[Row], status: RunStatus) -> None:
        """These steps have just ended."""
        listed = {RunStatus.COMPLETED: self.finished.completed, RunStatus.FAILED: self.finished.failed}.get(status)
        event = {RunStatus.COMPLETED: LifeCycleEvent.STEP_END, RunStatus.FAILED: LifeCycleEvent.STEP_FAILED}.get(status)
        for row in rows:
            self._queue.append(_Ended(row, status))
            if listed is not None:
                listed.add(row["id"])
            if event is not None:
                self._note(event, row)

    def released(self, rows: Iterable[Row]) -> None:
        """These steps have just gone back to PENDING."""
        rows = list(rows)
        self.finished.released |= {row["id"] for row in rows}
        self.recheck(rows)

    def parked(self, rows: Iterable[Row]) -> None:
        """These steps wait until they are called again; those with nothing to wait for are ready."""
        rows = list(rows)
        self.finished.parked |= {row["id"] for row in rows}
        self.finished.note_ready(row for row in rows if row["available_at"] is None)
        self.left(rows)
        self.recheck(rows)

    def recheck(self, rows: Iterable[Row]) -> None:
        """These steps wait (again): if their run is to stop, they are cancelled."""
        for row in rows:
            run = self._runs[row["workflow_run_id"]]
            if run["cancel_requested_at"] is not None:
                self._to_stop.add(run["id"])

    def stop(self, run_ids: Iterable[int]) -> None:
        """What waits in these runs is to be cancelled."""
        self._to_stop |= set(run_ids)

    def settle(self) -> Script[None]:
        """Follow the consequences until there are no more."""
        while self._queue or self._to_stop:
            ended, self._queue = self._queue, []
            tasks = [each for each in ended if each.row["parent_step_id"] is not None]
            steps = [each for each in ended if each.row["parent_step_id"] is None]
            maps = yield from self._maps_of(tasks)
            yield from self._release_dependents(steps)
            self._count(steps)
            yield from self._stop_runs(ended, maps)
            yield from self._settle_tasks(maps)

    def close(self) -> Script[Finished]:
        """Advance the runs and groups, and write the events."""
        ended = yield from self._advance_runs()
        yield from self._advance_groups(ended)
        self.finished.has_deliveries = yield from self._outbox.write(self.now)
        return self.finished

    def _release_dependents(self, steps: list[_Ended]) -> Script[None]:
        ids = [row["id"] for row, status in steps if _lets_others_begin(row, status)]
        if not ids:
            return
        if self.following is None or not self.following.types:
            rows = yield SQL.release_dependents(ids=ids)
        else:
            rows = yield from self._claim_dependents(ids, self.following)
        self.finished.note_ready(row for row in rows if row["remaining_deps"] == 0)

    def _claim_dependents(self, ids: list[int], following: Following) -> Script[list[Row]]:
        """Release the dependents, and claim those that are ready. Gives the rest."""
        rows = yield SQL.claim_dependents(
            ids=ids,
            strange_runs=[
                run_id
                for run_id, run in self._runs.items()
                if run["cancel_requested_at"] is not None or run_id not in self._claimed_runs
            ],
            types=sorted(following.types),
            worker_id=following.worker_id,
            lease=following.lease,
            now=self.now,
        )
        claimed = [row for row in rows if row["status"] == RunStatus.RUNNING]
        for row in claimed:
            self._note(LifeCycleEvent.STEP_START, row)
        self.finished.followers += [
            claimed_step(
                row,
                self._claimed_runs[row["workflow_run_id"]],
                worker_id=following.worker_id,
                lease=following.lease,
                now=self.now,
            )
            for row in claimed
        ]
        return [row for row in rows if row["status"] != RunStatus.RUNNING]

    def _count(self, steps: list[_Ended]) -> None:
        for row, status in steps:
            count = self._counts[row["workflow_run_id"]]
            count.ended += 1
            if status is RunStatus.FAILED and not row["optional"]:
                count.failed += 1
                count.message = f"step {row['workflow_step_name']!r} failed: {row['status_message']}"

    def _stop_runs(self, ended: list[_Ended], maps: dict[int, _Map]) -> Script[None]:
        """Stop the runs of steps that have failed.

        Steps that wait are cancelled here, steps that run are stopped by the worker that holds them. A task whose
        failure its map step tolerates stops nothing.
        """
        tolerant = {map_id for map_id, each in maps.items() if each.tolerates(each.failed)}
        failing = {
            row["workflow_run_id"]
            for row, status in ended
            if status is RunStatus.FAILED and not row["optional"] and row["parent_step_id"] not in tolerant
        }
        if failing:
            yield SQL.mark_runs_stopping(ids=sorted(failing), now=self.now)
        stopping, self._to_stop = failing | self._to_stop, set()
        if stopping:
            yield from withdraw_tasks((yield SQL.tasks_of_runs(ids=sorted(stopping))))
            rows = yield SQL.cancel_waiting_steps(ids=sorted(stopping), now=self.now)
            self.finished.cancelled += len(rows)
            self.ended(rows, RunStatus.CANCELLED)

    def _maps_of(self, tasks: list[_Ended]) -> Script[dict[int, _Map]]:
        """The map steps of tasks that have just ended, by id, with these tasks counted."""
        if not tasks:
            return {}
        rows = yield SQL.parents_by_id(ids=sorted({row["parent_step_id"] for row, _ in tasks}))
        maps = {row["id"]: _Map(row["remaining_tasks"], row["failed_tasks"], row["max_failures"]) for row in rows}
        for row, status in tasks:
            if (parent := maps.get(row["parent_step_id"])) is not None:
                parent.count(status)
        return maps

    def _settle_tasks(self, maps: dict[int, _Map]) -> Script[None]:
        if not maps:
            return
        failing = sorted(map_id for map_id, each in maps.items() if each.has_failed_now)
        if failing:
            yield from withdraw_tasks((yield SQL.tasks_of_maps(ids=failing)))
            for row in (yield SQL.cancel_waiting_tasks(ids=failing, now=self.now)):
                maps[row["parent_step_id"]].count(RunStatus.CANCELLED)
        going_on = [
            {"id": map_id, "remaining": each.remaining, "failed": each.failed}
            for map_id, each in maps.items()
            if each.remaining > 0
        ]
        if going_on:
            yield SQL.advance_parents(parents=Json(going_on))
        yield from self._end_maps({map_id: each for map_id, each in maps.items() if each.remaining == 0})

    def _end_maps(self, maps: dict[int, _Map]) -> Script[None]:
        if not maps:
            return
        counts = yield SQL.count_tasks(ids=sorted(maps))
        failed = [row for row in counts if not maps[row["parent_step_id"]].tolerates(row["failed"])]
        rest = [row for row in counts if maps[row["parent_step_id"]].tolerates(row["failed"])]
        cancelled = [row["parent_step_id"] for row in rest if row["cancelled"]]
        completed = [
            {"id": row["parent_step_id"], "failed": row["failed"], "message": _words_about(row)}
            for row in rest
            if not row["cancelled"]
        ]
        if completed:
            rows = yield SQL.complete_parents(parents=Json(completed), now=self.now)
            yield from lay_aside_gathered([row["id"] for row in rows], self.now)
            self.ended(rows, RunStatus.COMPLETED)
        if failed:
            parents = [{"id": row["parent_step_id"], "message": _words_about(row)} for row in failed]
            yield SQL.error_parents(parents=Json(parents), now=self.now)
            rows = yield SQL.fail_steps(ids=[row["parent_step_id"] for row in failed], now=self.now)
            self.ended(rows, RunStatus.FAILED)
        if cancelled:
            yield SQL.release_parents(ids=cancelled, now=self.now)
            rows = yield SQL.cancel_parents(ids=cancelled, now=self.now)
            self.ended(rows, RunStatus.CANCELLED)

    def _advance_runs(self) -> Script[list[Row]]:
        if not self._counts:
            return []
        rows = yield from self._advance_counted_runs()
        ended = [row for row in rows if row["status"] in _FINAL]
        flows = [row["id"] for row in ended if row["doc_id"] is None and row["status"] == RunStatus.COMPLETED]
        if flows:
            yield SQL.gather_run_outputs(ids=flows)
        for run in ended:
            if run["parent_step_id"] is not None:
                yield from tell_parent(run, self.now)
                self.finished.has_signals = True
        return ended

    def _advance_counted_runs(self) -> Script[list[Row]]:
        plain = sorted(run_id for run_id, count in self._counts.items() if count.ended == 1 and not count.failed)
        other = [
            {"id": run_id, "ended": count.ended, "failed": count.failed, "message": count.message}
            for run_id, count in sorted(self._counts.items())
            if count.ended != 1 or count.failed
        ]
        rows: list[Row] = []
        if plain:
            rows += yield SQL.advance_runs_by_one(ids=plain, now=self.now)
        if other:
            rows += yield SQL.advance_runs(runs=Json(other), now=self.now)
        return rows

    def _advance_groups(self, ended: list[Row]) -> Script[None]:
        if not ended:
            return
        groups: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for run in ended:
            self.finished.ended_runs[run["id"]] = run["status"]
            groups[run["run_group_id"]][run["status"]] += 1
            self._note_run(run)
        packed = [
            {
                "id": group_id,
                "ended": counts.total(),
                "failed": counts[RunStatus.FAILED],
                "cancelled": counts[RunStatus.CANCELLED],
            }
            for group_id, counts in sorted(groups.items())
        ]
        rows = yield SQL.advance_groups(groups=Json(packed), now=self.now)
        ended_groups = [group for group in rows if group["remaining_runs"] == 0]
        for group in ended_groups:
            created = datetime_of(group, "created_date") or self.now
            self.finished.ended_groups[group["id"]] = (self.now - created).total_seconds()
            workflow_id = group["workflow_definition_id"]
            self._outbox.add(LifeCycleEvent.GROUP_END, workflow_id=workflow_id, group_id=group["id"])
        yield from groups_ended(ended_groups, self.now)

    def _note(self, event: LifeCycleEvent, row: Row) -> None:
        run = self._runs[row["workflow_run_id"]]
        self._outbox.add(
            event,
            workflow_id=run["workflow_definition_id"],
            group_id=run["run_group_id"],
            run_id=run["id"],
            step_id=row["id"],
            message=row["status_message"] if event is LifeCycleEvent.STEP_FAILED else None,
        )

    def _note_run(self, run: Row) -> None:
        facts = self._runs[run["id"]]
        completed = run["status"] == RunStatus.COMPLETED
        self._outbox.add(
            LifeCycleEvent.ITEM_END if completed else LifeCycleEvent.ITEM_FAILED,
            workflow_id=facts["workflow_definition_id"],
            group_id=facts["run_group_id"],
            run_id=run["id"],
            message=None if completed else why_it_failed(run),
        )


_FINAL = frozenset(str(status) for status in RunStatus if status.is_final)


def _lets_others_begin(row: Row, status: RunStatus) -> bool:
    """Whether the end of this step lets the steps that depend on it begin. An optional step may fail for that, too."""
    if status is RunStatus.COMPLETED:
        return not row["is_last_step"]
    return status is RunStatus.FAILED and bool(row["optional"]) and not row["is_last_step"]


def tell_parent(run: Row, now: datetime) -> Script[None]:
    """Send the step that waits for this run, which has ended, the signal that it waits for."""
    error = None if run["status"] == RunStatus.COMPLETED else why_it_failed(run)
    yield SQL.signal_parents(run_id=run["id"], status=run["status"], error=error, now=now)


def why_it_failed(run: Row) -> str:
    return run["status_message"] or (
        "the run was cancelled" if run["status"] == RunStatus.CANCELLED else "the run failed"
    )
