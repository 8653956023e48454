"""Workers outside: in any language, over HTTP, under the same leases as ours.

    claim      steps whose type begins with an @, asked for by name, under one lease that lasts so many seconds
    extend     more time, how far it has come; says which steps are not wanted any more
    complete   an output, or
    fail       a reason: the step is tried again, as its workflow says

To the engine each claim is a worker: it checks in under a name of its own, so that what was claimed together is given
back together when nobody asks for more time. Whoever is late finds that the lease is another's, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.errors import ConflictError, InvalidInputError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import to_sqlite_text, utcnow
from soliplex.ingester.lib.models.transactions import datetime_of
from soliplex.ingester.lib.storable import checked_name, see_storable_text
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.execution import (
    LONGEST_MESSAGE,
    backoff_of,
    decide,
    definition_of,
    outcome_of,
    storable_json,
    with_repeats,
)
from soliplex.ingester.lib.wf.extensions import extensions_loaded
from soliplex.ingester.lib.wf.handlers import inputs_of, parameters_of
from soliplex.ingester.lib.wf.operations.claim import BY_NAME
from soliplex.ingester.lib.wf.progress import checked_report, write_reports
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import Doorbell, work_is_ready
from soliplex.ingester.lib.wf.work import ClaimedStep, Errored, Result, claimed_step

PREFIX: Final = "outside:"
MOST_TASKS: Final = 100
LONGEST_LEASE: Final = timedelta(hours=1)
SHORTEST_LEASE: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = 60.0
BETWEEN_LOOKS: Final = 0.5
"""Seconds between looks for steps that other processes make ready."""
PATIENCE: Final = timedelta(hours=1)


class LeaseLostError(ConflictError):
    """The step is no longer held under this lease."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not held under this lease any more; drop the result, and claim anew")


@dataclass(frozen=True, slots=True)
class Task:
    """A step for a worker outside."""

    id: int
    run_id: int
    workflow_id: str
    step: str
    type: str
    attempt: int
    """Counted from 1."""
    attempts: int
    """How many there may be."""
    input: Any
    """The run's input with the outputs of the steps before; of a task of a map step also `item`."""
    parameters: dict[str, Any]
    state: Any
    """What the step gave as its output when it was last called, where the workflow repeats it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a worker outside holds now."""

    lease: str
    expires_at: datetime
    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class Extended:
    """Until when the lease lasts, and what it still covers."""

    expires_at: datetime
    held: list[int]
    unwanted: list[int]
    """Steps held under the lease whose run was cancelled or has failed: the worker should stop them."""


async def claim_tasks(
    name: str,
    types: Collection[str],
    *,
    limit: int = 1,
    lease_for: timedelta = timedelta(seconds=60),
    wait: float = 0.0,
) -> Claimed:
    """Take up to `limit` steps of these types; where there are none, wait so many seconds for one."""
    _check(name, types, limit, lease_for, wait)
    await extensions_loaded()
    doorbell = Doorbell(lambda kind: kind in types)
    loop = asyncio.get_running_loop()
    until, rings = loop.time() + wait, doorbell.rings
    while True:
        claimed = await _claim(name, types, limit, lease_for)
        left = until - loop.time()
        if claimed.tasks or left <= 0:
            return claimed
        rings = await doorbell.wait(rings, min(left, BETWEEN_LOOKS))


def seconds(field: str, number: float) -> timedelta:
    """A duration that somebody gave in seconds."""
    if not 0 <= number <= timedelta(days=365).total_seconds():
        raise InvalidInputError(field, f"is {number:g}; give seconds from 0 to a year")
    return timedelta(seconds=number)


def _check(name: str, types: Collection[str], limit: int, lease_for: timedelta, wait: float) -> None:
    checked_name("worker", name)
    if not types:
        raise InvalidInputError("types", "is empty; name the types of steps to take, such as @ocr")
    for kind in types:
        if not kind.startswith(BY_NAME):
            raise InvalidInputError("types", f"names {kind!r}; types of steps for workers outside begin with an @")
    if not 1 <= limit <= MOST_TASKS:
        raise InvalidInputError("limit", f"is {limit}; give 1 to {MOST_TASKS}")
    if not SHORTEST_LEASE <= lease_for <= LONGEST_LEASE:
        raise InvalidInputError("lease_seconds", f"is {lease_for.total_seconds():g}; give 1 to 3600")
    if not 0 <= wait <= LONGEST_WAIT:
        raise InvalidInputError("wait_seconds", f"is {wait:g}; give 0 to {LONGEST_WAIT:g}")


async def _claim(name: str, types: Collection[str], limit: int, lease_for: timedelta) -> Claimed:
    lease = str(uuid4())
    worker_id = PREFIX + lease
    await reap_expired()
    # Before the claim: whoever holds steps without a check-in is taken for dead.
    expires_at = await _check_in(worker_id, name, lease_for)
    pool, tasks = operations.Pool(types=frozenset(types)), list[Task]()
    while not tasks:
        claim = await operations.claim_steps(worker_id, pool, limit, lease=lease)
        if not claim.steps:
            break
        tasks = await _tasks(claim.steps)  # there are none where all steps were skipped or became the tasks of a map
    if not tasks:
        await operations.check_out(worker_id)
    return Claimed(lease, expires_at, tasks)


async def _check_in(worker_id: str, name: str, lease_for: timedelta) -> datetime:
    expires_at = utcnow() + lease_for
    meta = {"name": name, "lease_seconds": lease_for.total_seconds(), "expires_at": to_sqlite_text(expires_at)}
    await operations.check_in(worker_id, hostname=name, meta=meta)
    return expires_at


async def _tasks(steps: Sequence[ClaimedStep]) -> list[Task]:
    """The steps that are to be worked on. What needs no work, such as a step that is skipped, is recorded here."""
    await operations.load_versions({step.run["definition_id"] for step in steps})
    results: list[Result] = []
    to_call: list[ClaimedStep] = []
    for step in steps:
        decided = await decide([step], utcnow(), PATIENCE)
        results += decided.results
        to_call += decided.to_call
    await _record(results)
    inputs, parameters = await inputs_of(to_call), await parameters_of(to_call)
    return [_task(*each) for each in zip(to_call, inputs, parameters, strict=True)]


def _task(step: ClaimedStep, given: Any, parameters: dict[str, Any]) -> Task:
    return Task(
        id=step.id,
        run_id=step.run_id,
        workflow_id=step.workflow_id,
        step=step.name,
        type=step.type,
        attempt=step.retry + 1,
        attempts=step.row["retries"],
        input=given,
        parameters=parameters,
        state=step.state,
    )


async def _record(results: Sequence[Result]) -> operations.Finished | None:
    if not results:
        return None
    finished = await operations.finish_steps(results)
    work_is_ready()
    return finished


async def reap_expired(*, now: datetime | None = None) -> operations.Reaped:
    """Give back what workers outside held that have not asked for more time."""
    rows = await Database.read(SQL.expired_workers_outside(now=to_sqlite_text(now or utcnow())))
    if not rows:
        return operations.Reaped()
    return await operations.reap_workers("", [row["id"] for row in rows], now=now)


async def extend_lease(
    lease: str, *, lease_for: timedelta = timedelta(seconds=60), progress: float | None = None, text: str | None = None
) -> Extended:
    """Ask for more time, and tell how far the work has come, from 0 to 1 and in words."""
    if not SHORTEST_LEASE <= lease_for <= LONGEST_LEASE:
        raise InvalidInputError("lease_seconds", f"is {lease_for.total_seconds():g}; give 1 to 3600")
    checked_report(0, lease, progress, text)
    held = await operations.steps_held(PREFIX + lease)
    if not held:
        raise LeaseLostError("what you claimed")
    worker = await Database.read(SQL.worker_by_id(worker_id=PREFIX + lease))
    if not worker:
        raise LeaseLostError("what you claimed")
    expires_at = await _check_in(PREFIX + lease, worker[0]["hostname"], lease_for)
    if progress is not None or text is not None:
        await write_reports([checked_report(step.id, lease, progress, text) for step in held], utcnow())
    return Extended(expires_at, [step.id for step in held], [step.id for step in held if step.is_stopping])


async def complete_task(step_id: int, lease: str, output: Any = None) -> None:
    """The work is done."""
    step = await _held(step_id, lease)
    try:
        storable_json(output)
    except PermanentError as exc:
        raise InvalidInputError("output", str(exc)) from exc
    definition = definition_of(step)
    if definition.repeat is not None:
        (output,) = await with_repeats(definition.repeat, [step], [output])
    await _settle(step, await outcome_of(step, output, step.claimed_at))


async def fail_task(
    step_id: int, lease: str, message: str, *, permanent: bool = False, retry_after: timedelta | None = None
) -> None:
    """The attempt failed. Permanent: there is no use in another one."""
    see_storable_text("message", message)
    if retry_after is not None and not timedelta() <= retry_after <= timedelta(days=365):
        raise InvalidInputError("retry_after_seconds", f"is {retry_after.total_seconds():g}; give 0 to a year")
    step = await _held(step_id, lease)
    await _settle(
        step,
        Errored(
            step_id=step.id,
            run_id=step.run_id,
            lease=lease,
            message=message[:LONGEST_MESSAGE] or "failed without a reason",
            permanent=permanent,
            delay=backoff_of(step) if retry_after is None else retry_after,
            meta={"error_type": "FailedOutside"},
            started_at=step.claimed_at,
        ),
    )


async def _held(step_id: int, lease: str) -> ClaimedStep:
    rows = await Database.read(SQL.held_outside(worker_id=PREFIX + lease, lease=lease))
    row = next((row for row in rows if row["id"] == step_id), None)
    if row is None:
        raise LeaseLostError(f"step {step_id}")
    (run,) = await Database.read(SQL.claimed_runs(ids=[row["workflow_run_id"]]))
    await operations.load_versions({run["definition_id"]})
    begun = datetime_of(row, "start_date")
    assert begun is not None, "a step that is held has begun"
    return claimed_step(row, run, worker_id=PREFIX + lease, lease=lease, now=begun)


async def _settle(step: ClaimedStep, result: Result) -> None:
    finished = await _record([result])
    if finished is None or step.id in finished.lost:
        raise LeaseLostError(f"step {step.id}")
    if not await operations.steps_held(step.worker_id):
        await operations.check_out(step.worker_id)
