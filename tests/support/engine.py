"""Driving the engine's operations as a worker would, on a clock of the test's own.

A `Driver` starts groups, claims, finishes and drains; every call of it happens a millisecond after the one before, so
that no two transactions share a moment. `assert_consistent` checks every invariant that can be read off the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa
from sqlmodel import col, select

from soliplex.ingester.lib.models import (
    Database,
    LifecycleHistory,
    ResourceLock,
    RunGroup,
    RunStep,
    WorkflowRun,
)
from soliplex.ingester.lib.models.statements import _statement as make_statement
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.models.transactions import single
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry, use_registry
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition, workflow_from_mapping
from soliplex.ingester.lib.wf.operations.runs import Created
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.work import ClaimedStep, Completed, Errored, Expanded, Parked, Released, Result
from tests.support.invariants import assert_consistent

__all__ = [
    "METHOD",
    "START",
    "Driver",
    "assert_consistent",
    "completed",
    "errored",
    "execute",
    "expanded",
    "is_stopping",
    "linear",
    "parked",
    "registry_in_use",
    "released",
    "rows_of",
    "scalar",
    "workflow",
]

METHOD: Final = "tests.handlers.nothing"
START: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""After any moment at which a test is run: what the database stamps by itself never lies in the future."""


@contextmanager
def registry_in_use() -> Generator[Registry]:
    """An empty registry in place of the settings'."""
    registry = Registry(None, None)
    use_registry(registry)
    try:
        yield registry
    finally:
        use_registry(None)


def workflow(
    steps: Mapping[str, Mapping[str, Any]],
    *,
    workflow_id: str = "flow",
    events: Mapping[str, Sequence[str]] | None = None,
    event_retries: int = 1,
) -> WorkflowDefinition:
    """Make a workflow and register it. A step needs no more than its name; `events` gives handlers by event."""
    definition = workflow_from_mapping(
        {
            "id": workflow_id,
            "item_steps": {key: {"method": METHOD, **facts} for key, facts in steps.items()},
            "lifecycle_events": {
                event: [{"name": name, "method": METHOD, "retries": event_retries} for name in names]
                for event, names in (events or {}).items()
            },
        }
    )
    get_registry().register(definition)
    return definition


def linear(*keys: str, **facts: Any) -> WorkflowDefinition:
    """Make a workflow of steps that follow one another, all with the same facts."""
    return workflow(dict.fromkeys(keys, facts))


def completed(step: ClaimedStep, output: Any = None) -> Completed:
    text = None if output is None else to_json(output)
    return Completed(step_id=step.id, run_id=step.run_id, lease=step.lease, output=text, run=step.run)


def errored(
    step: ClaimedStep, message: str = "boom", *, permanent: bool = False, delay: timedelta = timedelta()
) -> Errored:
    return Errored(
        step_id=step.id, run_id=step.run_id, lease=step.lease, message=message, permanent=permanent, delay=delay
    )


def released(step: ClaimedStep) -> Released:
    return Released(step_id=step.id, run_id=step.run_id, lease=step.lease)


def expanded(step: ClaimedStep, items: Iterable[Any]) -> Expanded:
    return Expanded(step_id=step.id, run_id=step.run_id, lease=step.lease, items=list(items))


def parked(
    step: ClaimedStep, *, awaits: str | None = None, delay: timedelta | None = None, state: Any = None
) -> Parked:
    text = None if state is None else to_json(state)
    return Parked(step_id=step.id, run_id=step.run_id, lease=step.lease, awaits=awaits, delay=delay, state=text)


def is_stopping(step: ClaimedStep) -> bool:
    """Whether the step's run was to stop when the step was claimed: a worker gives such a step back unexecuted."""
    return step.run["cancel_requested_at"] is not None


@dataclass
class Driver:
    """Does what a worker, a user and the maintenance do, one call after the other."""

    moment: datetime = START
    worker_id: str = "worker"
    pools: dict[str, ops.Pool] = field(default_factory=dict[str, ops.Pool])

    def now(self) -> datetime:
        """The time of the next call: a millisecond after the last."""
        self.moment += timedelta(milliseconds=1)
        return self.moment

    def pass_time(self, by: timedelta) -> None:
        self.moment += by

    async def start(
        self,
        definition: WorkflowDefinition,
        runs: int | Sequence[ops.NewRun] = 1,
        *,
        params: ParameterSet | None = None,
        priority: int = 0,
        resource_keys: Mapping[str, str] | None = None,
    ) -> Created:
        new = [ops.NewRun(input={"n": number}) for number in range(runs)] if isinstance(runs, int) else runs
        return await ops.create_run_group(
            definition, params, new, priority=priority, resource_keys=resource_keys, now=self.now()
        )

    async def claim(
        self,
        limit: int = 100,
        *,
        worker_id: str | None = None,
        types: Iterable[str] | None = None,
        excluded: Iterable[str] = (),
    ) -> list[ClaimedStep]:
        worker = worker_id or self.worker_id
        if types is None and not excluded:
            pool = self.pools.setdefault(worker, ops.Pool())
        else:
            pool = ops.Pool(None if types is None else frozenset(types), frozenset(excluded))
        return (await ops.claim_steps(worker, pool, limit, now=self.now())).steps

    async def claim_one(self, *, worker_id: str | None = None, types: Iterable[str] | None = None) -> ClaimedStep:
        steps = await self.claim(1, worker_id=worker_id, types=types)
        assert steps, "nothing was there to be claimed"
        return steps[0]

    async def finish(self, *results: Result, following: ops.Following | None = None) -> ops.Finished:
        return await ops.finish_steps(results, following=following, now=self.now())

    async def complete_and_follow(self, *steps: ClaimedStep, types: Iterable[str]) -> list[ClaimedStep]:
        """Complete steps, and claim what becomes ready by it."""
        following = ops.Following(self.worker_id, str(uuid4()), frozenset(types))
        return (await self.finish(*map(completed, steps), following=following)).followers

    async def complete(self, *steps: ClaimedStep, output: Any = None) -> ops.Finished:
        return await self.finish(*(completed(step, output) for step in steps))

    async def fail(self, *steps: ClaimedStep, message: str = "boom") -> ops.Finished:
        return await self.finish(*(errored(step, message, permanent=True) for step in steps))

    async def signal(self, key: str, payload: Any = None) -> int:
        return await ops.send_signal(key, payload, now=self.now())

    async def deliver(self) -> None:
        """Bring new signals to the steps that wait for them."""
        while await ops.deliver_signals(now=self.now()) is not None:
            pass

    async def drain(
        self, outcome: Callable[[ClaimedStep], Result] = completed, *, limit: int = 100, rounds: int = 10_000
    ) -> list[str]:
        """Claim and finish until nothing is left, waiting for what is due later; gives the names of steps in order.

        What the outcome gives is recorded; steps of runs that are to stop are given back, as a worker does.
        """
        names: list[str] = []
        for _ in range(rounds):
            steps = await self.claim(limit)
            if steps:
                names += [step.name for step in steps]
                await self.finish(*(released(step) if is_stopping(step) else outcome(step) for step in steps))
            elif not await self._wait_for_what_is_due():
                return names
        raise AssertionError(f"work is left after {rounds} rounds")

    async def _wait_for_what_is_due(self) -> bool:
        due = await scalar("SELECT min(available_at) FROM runstep", kind=datetime)
        if due is None:
            return False
        self.moment = max(self.moment, due)
        return True

    async def step(self, step_id: int) -> RunStep:
        async with Database.session(read_only=True) as session:
            return await session.get_one(RunStep, step_id)

    async def run(self, run_id: int) -> WorkflowRun:
        async with Database.session(read_only=True) as session:
            return await session.get_one(WorkflowRun, run_id)

    async def group(self, group_id: int) -> RunGroup:
        async with Database.session(read_only=True) as session:
            return await session.get_one(RunGroup, group_id)

    async def steps_of(self, *run_ids: int) -> list[RunStep]:
        """The steps of the runs, a map step before its tasks, these by index."""
        query = select(RunStep).where(col(RunStep.workflow_run_id).in_(run_ids))
        async with Database.session(read_only=True) as session:
            rows = (await session.exec(query)).all()
        return sorted(
            rows, key=lambda row: (row.workflow_run_id, row.workflow_step_number, row.item_index or -1, row.id)
        )

    async def statuses(self, run_id: int) -> dict[str, str]:
        """The status of each top-level step of the run, by name."""
        steps = await self.steps_of(run_id)
        return {step.workflow_step_name: str(step.status) for step in steps if step.parent_step_id is None}

    async def tasks_of(self, step_id: int) -> list[RunStep]:
        query = select(RunStep).where(RunStep.parent_step_id == step_id).order_by(col(RunStep.item_index))
        async with Database.session(read_only=True) as session:
            return list((await session.exec(query)).all())

    async def events(self, *names: str) -> list[LifecycleHistory]:
        """The events, or those with these names, in the order they were written."""
        query = select(LifecycleHistory).order_by(col(LifecycleHistory.id))
        if names:
            query = query.where(col(LifecycleHistory.event).in_(names))
        async with Database.session(read_only=True) as session:
            return list((await session.exec(query)).all())

    async def locks(self) -> dict[str, ResourceLock]:
        async with Database.session(read_only=True) as session:
            return {lock.resource_key: lock for lock in (await session.exec(select(ResourceLock))).all()}


async def execute(statement: str, **parameters: Any) -> None:
    """Change rows behind the engine's back."""
    async with Database.engine().begin() as connection:
        await connection.execute(sa.text(statement), parameters)


async def rows_of(query: str, **parameters: Any) -> list[Any]:
    """The rows of a query, as tuples. By a script: a session takes five times as long."""
    statement = make_statement("of a test", sqlite=query, postgres=query)
    rows: Any = await Database.transact(single(statement(**parameters)))
    return [tuple(row) for row in rows]


async def scalar(query: str, *, kind: type | None = None, **parameters: Any) -> Any:
    value = (await rows_of(query, **parameters))[0][0]
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if kind is datetime and isinstance(value, str) else value
