"""Claiming: taking ready steps, many at a time, under one lease.

The cost does not depend on how much waits, runs or has ended: every look is a probe of an index that holds ready steps
only. Steps that need a resource stand in an index of their own, by key. For them the claim takes the next key that
nobody holds, the lock on it, and up to a batch of its steps, in one transaction: they are executed together under that
one lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.models import Database, LifeCycleEvent, ResourceLockKind, RunStatus, RunStep
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Link, Row, Rows, Script, datetime_of
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.events import Outbox
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.work import ClaimedStep, claimed_step

DEFAULT_LOCK_TTL: Final = timedelta(minutes=5)


@dataclass(slots=True)
class Pool:
    """Which step types a claim may take, and where its rounds have come to."""

    types: frozenset[str] | None = None
    """None: every type but the excluded ones."""
    excluded: frozenset[str] = frozenset()
    keyed_limit: int = 1
    """How many steps of one resource are claimed at least, if there are so many: nobody else could execute them now."""
    last_type: str = ""
    """Types that need a resource are served in turn: the next claim starts after this one."""
    last_keys: dict[str, str] = field(default_factory=dict[str, str])
    """So are the keys of each type."""
    keyed_next: bool = False
    """Steps with and without a resource are served in turn."""

    def accepts(self, step_type: str) -> bool:
        return step_type not in self.excluded if self.types is None else step_type in self.types


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim brought."""

    steps: list[ClaimedStep] = field(default_factory=list[ClaimedStep])
    resource_key: str | None = None
    lost_race: bool = False
    """Another took the key between the choice and the lock: worth trying again at once."""
    has_deliveries: bool = False
    next_due: datetime | None = None
    """Where nothing was claimed: when the next step that waits for its time becomes ready."""


async def claim_steps(
    worker_id: str,
    pool: Pool,
    limit: int,
    *,
    lease: str | None = None,
    link: Link | None = None,
    now: datetime | None = None,
    lock_ttl: timedelta = DEFAULT_LOCK_TTL,
) -> Claim:
    """Take up to `limit` ready steps, under a fresh lease unless one is given."""
    script = claim_script(worker_id, lease or str(uuid4()), pool, limit, now=now or utcnow(), lock_ttl=lock_ttl)
    run = link.transact if link else Database.transact
    return await run(script)


async def claim_next_step(
    worker_id: str,
    lease_token: str,
    allowed_types: Iterable[str] | None = None,
    *,
    excluded_types: Iterable[str] = (),
    now: datetime | None = None,
) -> RunStep | None:
    """Take the next ready step under the given lease."""
    types = None if allowed_types is None else frozenset(allowed_types)
    pool = Pool(types=types, excluded=frozenset(excluded_types))
    script = claim_script(worker_id, lease_token, pool, 1, now=now or utcnow(), lock_ttl=DEFAULT_LOCK_TTL)
    claim = await Database.transact(script)
    return claim.steps[0].run_step() if claim.steps else None


def claim_script(
    worker_id: str, lease: str, pool: Pool, limit: int, *, now: datetime, lock_ttl: timedelta
) -> Script[Claim]:
    yield SQL.promote_due_steps(now=now)
    holder = _Holder(worker_id, lease, limit, max(limit, pool.keyed_limit), now, lock_ttl)
    kinds = (_claim_keyed, _claim_plain) if pool.keyed_next else (_claim_plain, _claim_keyed)
    pool.keyed_next = not pool.keyed_next
    taken = _Taken()
    for claim in kinds:
        taken = yield from claim(holder, pool)
        if taken.rows or taken.lost_race:
            break
    if not taken.rows:
        due = yield SQL.next_due()
        return Claim(lost_race=taken.lost_race, next_due=datetime_of(due[0], "due"))
    steps, has_deliveries = yield from _start(taken.rows, holder)
    return Claim(steps, taken.resource_key, lost_race=not steps, has_deliveries=has_deliveries)


@dataclass(frozen=True, slots=True)
class _Holder:
    worker_id: str
    lease: str
    limit: int
    keyed_limit: int
    now: datetime
    lock_ttl: timedelta

    def claim(self, limit: int) -> dict[str, Any]:
        return {"worker_id": self.worker_id, "lease": self.lease, "now": self.now, "limit": limit}


@dataclass(frozen=True, slots=True)
class _Taken:
    rows: Sequence[Row] = ()
    resource_key: str | None = None
    lost_race: bool = False


def _claim_plain(holder: _Holder, pool: Pool) -> Script[_Taken]:
    heads = yield SQL.ready_types()
    accepted = [head for head in heads if pool.accepts(head["step_type"])]
    accepted.sort(key=lambda head: (-head["priority"], head["queue_key"]))
    rows: list[Row] = []
    for head in accepted:
        if len(rows) >= holder.limit:
            break
        rows += yield SQL.claim_ready(step_type=head["step_type"], **holder.claim(holder.limit - len(rows)))
    return _Taken(rows)


def _claim_keyed(holder: _Holder, pool: Pool) -> Script[_Taken]:
    kinds = [row["step_type"] for row in (yield SQL.ready_keyed_types()) if pool.accepts(row["step_type"])]
    for kind in sorted(kinds, key=lambda kind: (kind <= pool.last_type, kind)):
        key = yield from _next_free_key(kind, pool.last_keys.get(kind, ""), holder.now)
        if key is None:
            continue
        pool.last_type, pool.last_keys[kind] = kind, key
        return (yield from _claim_under_lock(holder, kind, key))
    return _Taken()


def _next_free_key(step_type: str, after: str, now: datetime) -> Script[str | None]:
    for start in dict.fromkeys((after, "")):
        found = yield SQL.next_free_key(step_type=step_type, after=start, now=now)
        if found:
            return found[0]["resource_key"]
    return None


def _claim_under_lock(holder: _Holder, step_type: str, key: str) -> Script[_Taken]:
    locked = yield SQL.acquire_lock(
        resource_key=key,
        holder_id=holder.lease,
        holder_kind=ResourceLockKind.WORKER.value,
        step_id=None,
        now=holder.now,
        expires_at=holder.now + holder.lock_ttl,
        meta=Json({"worker_id": holder.worker_id}),
    )
    if not locked:
        return _Taken(lost_race=True)
    rows = yield SQL.claim_ready_keyed(step_type=step_type, resource_key=key, **holder.claim(holder.keyed_limit))
    if not rows:
        yield SQL.release_lock(resource_key=key, holder_id=holder.lease)
        return _Taken(lost_race=True)
    yield SQL.name_step_of_lock(resource_key=key, holder_id=holder.lease, step_id=rows[0]["id"])
    return _Taken(rows, key)


def _start(rows: Sequence[Row], holder: _Holder) -> Script[tuple[list[ClaimedStep], bool]]:
    """Load the runs of the claimed steps; begin those, and the groups, for which this is the first step."""
    run_rows = yield SQL.claimed_runs(ids=sorted({row["workflow_run_id"] for row in rows}))
    runs = {run["id"]: run for run in run_rows}
    outbox = Outbox(get_registry())
    waiting = [run_id for run_id, run in runs.items() if run["status"] == RunStatus.PENDING]
    if waiting and (busy := (yield from _begin_runs(waiting, runs, outbox, holder.now))):
        yield from _leave([row for row in rows if row["workflow_run_id"] in busy], holder)
        rows = [row for row in rows if row["workflow_run_id"] not in busy]
    steps = [
        claimed_step(row, runs[row["workflow_run_id"]], worker_id=holder.worker_id, lease=holder.lease, now=holder.now)
        for row in rows
    ]
    steps.sort(key=_place_in_queue)
    if outbox.wants({run["workflow_definition_id"] for run in run_rows}, LifeCycleEvent.STEP_START):
        for step in steps:
            outbox.add(
                LifeCycleEvent.STEP_START,
                workflow_id=step.workflow_id,
                group_id=step.group_id,
                run_id=step.run_id,
                step_id=step.id,
            )
    has_deliveries = yield from outbox.write(holder.now)
    return steps, has_deliveries


def _place_in_queue(step: ClaimedStep) -> tuple[int, int, int]:
    return -step.row["priority"], step.row["queue_key"], step.id


def _begin_runs(waiting: list[int], runs: dict[int, Row], outbox: Outbox, now: datetime) -> Script[set[int]]:
    """Begin the runs. Gives those that somebody else is changing at this moment."""
    begun: Rows = yield SQL.start_runs(ids=sorted(waiting), now=now)
    passed_over = set(waiting) - {run["id"] for run in begun}
    groups = sorted({run["run_group_id"] for run in begun})
    begun_groups = yield SQL.start_groups(ids=groups, now=now)
    workflow_of = {run["run_group_id"]: run["workflow_definition_id"] for run in runs.values()}
    for group in begun_groups:
        outbox.add(LifeCycleEvent.GROUP_START, workflow_id=workflow_of[group["id"]], group_id=group["id"])
    for run in begun:
        outbox.add(
            LifeCycleEvent.ITEM_START,
            workflow_id=runs[run["id"]]["workflow_definition_id"],
            group_id=run["run_group_id"],
            run_id=run["id"],
        )
    if not passed_over:
        return set()
    # Another worker may have begun one in the meantime, with another of its steps.
    now_known = yield SQL.claimed_runs(ids=sorted(passed_over))
    runs.update({run["id"]: run for run in now_known})
    return {run["id"] for run in now_known if run["status"] == RunStatus.PENDING}


def _leave(rows: Sequence[Row], holder: _Holder) -> Script[None]:
    """Put steps back whose run is held by one who cancels, retries or deletes it, and may be waiting for them.

    Everyone else takes a run before its steps. A claim, which finds steps first, must not wait for a run.
    """
    yield SQL.release_steps(results=Json([{"id": row["id"], "lease": holder.lease} for row in rows]), now=holder.now)
    yield SQL.drop_locks_of_leases(leases=[holder.lease])
