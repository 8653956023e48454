"""Claiming: taking ready steps, many at a time, under one lease.

The cost does not depend on how much waits, runs or has ended: every look is a probe of an index that holds ready steps
only. Steps that need a resource stand in an index of their own, by key. For them the claim takes the next key that
nobody holds, the lock on it, and many of its steps, in one transaction: they are executed together under that one
lock.

On PostgreSQL, where every statement is a message there and back, steps without a resource are claimed by one statement
that also starts their runs and groups and writes the events (`claim_and_start`). A worker that was told which types
have become ready makes it without a look.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.models import Database, LifeCycleEvent, ResourceLockKind, RunStatus, RunStep
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Link, Row, Rows, Script, datetime_of
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.events import Outbox, listeners_at_the_start
from soliplex.ingester.lib.wf.operations.definitions import learn_definitions, learned
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.work import ClaimedStep, claimed_step

DEFAULT_LOCK_TTL: Final = timedelta(minutes=5)
BY_NAME: Final = "@"
"""The beginning of types of steps that are taken only by a worker that asks for the type by its name."""
KEEPS_PLACE: Final = timedelta(seconds=4)
"""How long a worker that waits for a resource keeps its place in the queue without asking again: several looks."""
OF_A_PROCESS: Final = f"{BY_NAME}process:"


class _ThisProcess:
    """The type of steps that only this process takes; a process that is forked from it has another."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.type = f"{OF_A_PROCESS}{uuid4().hex}"


_this: Final = _ThisProcess()


def this_process() -> str:
    """The type of steps whose functions exist in this process alone: its workers take them, and no others."""
    return _this.type


@dataclass(slots=True)
class Pool:
    """Which step types a claim may take, and whose turn it is among types and resources."""

    types: frozenset[str] | None = None
    """None: every type but the excluded ones, and those that have to be asked for by name."""
    excluded: frozenset[str] = frozenset()
    keyed_limit: int = 1
    """How many steps of one resource are claimed at least, if there are so many: no other worker could execute them."""
    last_type: str = ""
    """Types that need a resource are served in turn: the next claim starts after this one."""
    last_keys: dict[str, str] = field(default_factory=dict[str, str])
    """The keys of each type are served in turn, too: the key that was served last, by type."""
    keyed_next: bool = False
    """Steps with and without a resource are served in turn."""

    def accepts(self, step_type: str) -> bool:
        if self.types is not None:
            return step_type in self.types
        return step_type not in self.excluded and (not step_type.startswith(BY_NAME) or step_type == this_process())


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim brought."""

    steps: list[ClaimedStep] = field(default_factory=list[ClaimedStep])
    resource_key: str | None = None
    lost_race: bool = False
    """Whether another worker took the resource between the choice and the lock: trying again at once may help."""
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
    told: Collection[str] = (),
) -> Claim:
    """Take up to `limit` ready steps, under a fresh lease unless one is given. `told`: types that have become ready."""
    moment, source = now or utcnow(), link or Database
    holder = _Holder(worker_id, lease or str(uuid4()), limit, max(limit, pool.keyed_limit), moment, lock_ttl)
    kinds = [kind for kind in told if pool.accepts(kind)]
    if kinds and Database.is_postgres():
        claim = await _first(source, [_claim_plain(holder, kinds)])
        if claim is not None:
            return claim
    look = Look.at(await source.read(SQL.look_for_work()))
    if look.is_due(moment):
        look = await source.transact(_look_for_due(moment))
    return await _first(source, _scripts(holder, pool, look)) or Claim(next_due=look.next_due)


def place_in_queue(now: datetime) -> dict[str, datetime]:
    """The moments that belong to a place in the queue for a resource."""
    return {"now": now, "expires_at": now + KEEPS_PLACE, "renew_before": now + KEEPS_PLACE / 2}


async def priorities_of_ready() -> dict[str, int]:
    """The types of steps that are ready and need no resource, with the highest priority of each."""
    look = Look.at(await Database.read(SQL.look_for_work()))
    return {head["step_type"]: head["priority"] for head in look.plain}


async def _first(source: Link, scripts: Iterable[Script[Claim]]) -> Claim | None:
    """Run the scripts, each in a transaction of its own, until one claims something; gives what it claimed."""
    for script in scripts:
        claim = await source.transact(script)
        if claim.lost_race:
            await learn_definitions(source)  # that nothing was claimed may be because definitions were not known
        if claim.steps or claim.lost_race:
            return claim
    return None


def _scripts(holder: _Holder, pool: Pool, look: Look) -> list[Script[Claim]]:
    """The claims to try. Steps with and without a resource take turns."""
    kinds = [head["step_type"] for head in look.plain if pool.accepts(head["step_type"])]
    scripts = [_claim_plain(holder, kinds)] if kinds else []
    if any(map(pool.accepts, look.keyed)):
        scripts.append(claim_keyed(holder, pool, look))
    if pool.keyed_next:
        scripts.reverse()
    pool.keyed_next = not pool.keyed_next
    return scripts


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
    claim = await claim_steps(worker_id, pool, 1, lease=lease_token, now=now)
    return claim.steps[0].run_step() if claim.steps else None


@dataclass(frozen=True, slots=True)
class Look:
    """What is ready, by type: read without a transaction, so that a look in vain disturbs nobody."""

    plain: list[Row]
    """The head of the queue of each type, the most urgent first."""
    keyed: list[str]
    """Types of steps that need a resource."""
    next_due: datetime | None

    @classmethod
    def at(cls, rows: Rows) -> Look:
        plain = [row for row in rows if row["kind"] == "plain"]
        keyed = [row["step_type"] for row in rows if row["kind"] == "keyed"]
        due = next(datetime_of(row, "due") for row in rows if row["kind"] == "due")
        return cls(sorted(plain, key=lambda head: (-head["priority"], head["queue_key"])), keyed, due)

    def is_due(self, now: datetime) -> bool:
        """Whether the time of some step has come."""
        return self.next_due is not None and self.next_due <= now


def _look_for_due(now: datetime) -> Script[Look]:
    """Let steps whose time has come join the ready ones, and look again."""
    yield SQL.promote_due_steps(now=now)
    return Look.at((yield SQL.look_for_work()))


@dataclass(frozen=True, slots=True)
class _Holder:
    worker_id: str
    lease: str
    limit: int
    keyed_limit: int
    now: datetime
    lock_ttl: timedelta

    @property
    def waiter(self) -> str:
        """The name under which the worker stands in the queue for a resource."""
        return f"worker:{self.worker_id}"

    def claim(self, limit: int) -> dict[str, Any]:
        return {"worker_id": self.worker_id, "lease": self.lease, "now": self.now, "limit": limit}

    def steps(self, rows: Iterable[Row], runs: Mapping[int, Row]) -> list[ClaimedStep]:
        """What was claimed, in the order of the queue."""
        steps = [
            claimed_step(row, runs[row["workflow_run_id"]], worker_id=self.worker_id, lease=self.lease, now=self.now)
            for row in rows
        ]
        steps.sort(key=_place_in_queue)
        return steps


def _claim_plain(holder: _Holder, kinds: Sequence[str]) -> Script[Claim]:
    listeners = listeners_at_the_start(get_registry()) if Database.is_postgres() else None
    return _claim_by_steps(holder, kinds) if listeners is None else _claim_at_once(holder, kinds, listeners)


def _claim_at_once(holder: _Holder, kinds: Sequence[str], listeners: list[dict[str, Any]]) -> Script[Claim]:
    found = yield SQL.postgres.claim_and_start(
        types=kinds,
        listeners=Json(listeners),
        known_definitions=stored().known_up_to,
        **holder.claim(holder.limit),
    ).last()
    rows: dict[str, list[Row]] = {"step": [], "run": [], "busy": [], "delivery": []}
    for row in found:
        rows[row["kind"]].append(row)
    steps = holder.steps(rows["step"], {run["id"]: run for run in rows["run"]})
    return Claim(steps, lost_race=bool(rows["busy"]) and not steps, has_deliveries=bool(rows["delivery"]))


def _claim_by_steps(holder: _Holder, kinds: Iterable[str]) -> Script[Claim]:
    rows: list[Row] = []
    for kind in kinds:
        if len(rows) >= holder.limit:
            break
        rows += yield SQL.claim_ready(step_type=kind, **holder.claim(holder.limit - len(rows)))
    return (yield from _start(rows, holder)) if rows else Claim()


def claim_keyed(holder: _Holder, pool: Pool, look: Look) -> Script[Claim]:
    kinds = [kind for kind in look.keyed if pool.accepts(kind)]
    for kind in sorted(kinds, key=lambda kind: (kind <= pool.last_type, kind)):
        key = yield from _next_free_key(kind, pool.last_keys.get(kind, ""), holder)
        if key is None:
            # Where others wait for what these steps need, this worker stands behind them, and before who comes later.
            yield SQL.join_queues(step_type=kind, holder_id=holder.waiter, **place_in_queue(holder.now))
            continue
        pool.last_type, pool.last_keys[kind] = kind, key
        return (yield from _claim_under_lock(holder, kind, key))
    return Claim()


def _next_free_key(step_type: str, after: str, holder: _Holder) -> Script[str | None]:
    for start in dict.fromkeys((after, "")):
        found = yield SQL.next_free_key(step_type=step_type, after=start, now=holder.now, waiter=holder.waiter)
        if found:
            return found[0]["resource_key"]
    return None


def _claim_under_lock(holder: _Holder, step_type: str, key: str) -> Script[Claim]:
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
        return Claim(lost_race=True)
    yield SQL.leave_queue(resource_key=key, holder_id=holder.waiter)
    rows = yield SQL.claim_ready_keyed(step_type=step_type, resource_key=key, **holder.claim(holder.keyed_limit))
    if not rows:
        yield SQL.release_lock(resource_key=key, holder_id=holder.lease)
        return Claim(lost_race=True)
    yield SQL.name_step_of_lock(resource_key=key, holder_id=holder.lease, step_id=rows[0]["id"])
    return (yield from _start(rows, holder, key))


def _start(rows: Sequence[Row], holder: _Holder, resource_key: str | None = None) -> Script[Claim]:
    """Begin the runs, and the groups, of which these are the first steps."""
    outbox = Outbox(get_registry())
    runs = yield from _begin_runs({row["workflow_run_id"] for row in rows}, outbox, holder.now)
    # A run that should have begun has not, because somebody else is changing it.
    busy = {run_id for run_id, run in runs.items() if run["status"] == RunStatus.PENDING}
    if busy:
        yield from _leave([row for row in rows if row["workflow_run_id"] in busy], holder)
        rows = [row for row in rows if row["workflow_run_id"] not in busy]
    steps = holder.steps(rows, runs)
    if outbox.wants({run["workflow_definition_id"] for run in runs.values()}, LifeCycleEvent.STEP_START):
        for step in steps:
            outbox.add(
                LifeCycleEvent.STEP_START,
                workflow_id=step.workflow_id,
                group_id=step.group_id,
                run_id=step.run_id,
                step_id=step.id,
            )
    has_deliveries = yield from outbox.write(holder.now)
    return Claim(steps, resource_key, lost_race=not steps, has_deliveries=has_deliveries)


def _place_in_queue(step: ClaimedStep) -> tuple[int, int, int]:
    return -step.row["priority"], step.row["queue_key"], step.id


def _begin_runs(run_ids: set[int], outbox: Outbox, now: datetime) -> Script[dict[int, Row]]:
    """Begin those of the runs that wait. Gives all of them, as they are then."""
    begun = yield SQL.start_runs(ids=sorted(run_ids), now=now)
    yield from learned(begun)
    runs = {run["id"]: run for run in begun}
    if len(runs) < len(run_ids):
        others = yield SQL.claimed_runs(ids=sorted(run_ids - runs.keys()))
        runs |= {run["id"]: run for run in others}
    workflow_of = {run["run_group_id"]: run["workflow_definition_id"] for run in begun}
    groups = {run["run_group_id"] for run in begun if run["group_status"] == RunStatus.PENDING}
    if groups:
        for group in (yield SQL.start_groups(ids=sorted(groups), now=now)):
            outbox.add(LifeCycleEvent.GROUP_START, workflow_id=workflow_of[group["id"]], group_id=group["id"])
    for run in begun:
        outbox.add(
            LifeCycleEvent.ITEM_START,
            workflow_id=run["workflow_definition_id"],
            group_id=run["run_group_id"],
            run_id=run["id"],
        )
    return runs


def _leave(rows: Sequence[Row], holder: _Holder) -> Script[None]:
    """Put back steps whose run is held by a transaction that cancels, retries or deletes it.

    That transaction may be waiting for these steps. All other code holds a run before it changes the run's steps. A
    claim finds steps first, so it must not wait for a run.
    """
    yield SQL.release_steps(results=Json([{"id": row["id"], "lease": holder.lease} for row in rows]), now=holder.now)
    yield SQL.drop_locks_of_leases(leases=[holder.lease])
