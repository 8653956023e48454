"""The engine under any sequence of events: whatever workers, users and time do, every invariant holds after it.

Hypothesis makes up the sequences. A small model beside the database knows who holds which lease and how often each
group has ended; the rest is read off the rows after every event. At the end everything is worked off, and must then
have ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, ClassVar, Final, override

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import Database, metadata
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.work import ClaimedStep, Result
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    released,
    rows_of,
    scalar,
    workflow,
)

WORKERS: Final = ("one", "two")
WORKFLOWS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "linear": {"a": {"retries": 2}, "b": {}},
    "diamond": {
        "a": {},
        "b": {"depends_on": ["a"], "retries": 2},
        "c": {"depends_on": ["a"], "optional": True},
        "d": {"depends_on": ["b", "c"]},
    },
    "branches": {"a": {"depends_on": [], "retries": 2}, "b": {"depends_on": []}, "c": {"depends_on": ["a", "b"]}},
    "map": {"a": {"optional": True}, "m": {"map": True, "retries": 2}, "c": {}},
    "optional-map": {"m": {"map": True, "optional": True}, "store": {"retries": 2}},
}
KEYS: Final = ({}, {"store": "db", "b": "db"}, {"m": "db", "c": "other"})
# A lock lives for five minutes; no example lasts as long, so that none expires while its steps are still under way.
LONGEST_PAUSE: Final = 5
OUTCOMES: Final = st.sampled_from(["complete", "complete", "error", "fail", "release", "expand"])
SETTINGS: Final = hypothesis.settings(
    max_examples=hypothesis.settings().max_examples // 5,
    stateful_step_count=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
SOME: Final = st.integers(0, 1_000_000)


def result_of(step: ClaimedStep, outcome: str, number: int) -> Result:
    is_map = step.name == "m" and step.parent_id is None
    match outcome:
        case "complete" if not is_map:
            return completed(step, {"n": number})
        case "error":
            return errored(step, delay=timedelta(seconds=number % LONGEST_PAUSE))
        case "fail":
            return errored(step, permanent=True)
        case "release":
            return released(step)
        case _:
            return expanded(step, range(number % 4)) if is_map else completed(step, number)


class EngineMachine(RuleBasedStateMachine):
    """Drives the engine and keeps the books beside it."""

    runner: ClassVar[asyncio.Runner]
    workflows: ClassVar[list[WorkflowDefinition]]

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.held: dict[int, ClaimedStep] = {}
        """Steps under a valid lease, by id."""
        self.stale: list[ClaimedStep] = []
        """What workers still believe to hold."""
        self.open: dict[int, bool] = {}
        """Whether each group was open when last looked at."""
        self.ended = Counter[int]()
        self.do(empty())
        for worker in WORKERS:
            self.do(ops.check_in(worker, now=self.driver.now()))

    def do[R](self, operation: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(operation)

    def group(self, pick: int) -> int:
        return list(self.open)[pick % len(self.open)]

    def run_id(self, pick: int) -> int | None:
        rows = self.do(rows_of("SELECT id FROM workflowrun ORDER BY id"))
        return rows[pick % len(rows)][0] if rows else None

    def lose(self, lost: list[ClaimedStep]) -> None:
        for step in lost:
            self.stale.append(self.held.pop(step.id))

    @rule(pick=SOME, runs=st.integers(0, 3), priority=st.integers(0, 1), keys=st.sampled_from(KEYS))
    def start_a_group(self, pick: int, runs: int, priority: int, keys: dict[str, str]) -> None:
        flow = self.workflows[pick % len(self.workflows)]
        created = self.do(self.driver.start(flow, runs, priority=priority, resource_keys=keys))
        self.open[created.group_id] = True

    @precondition(lambda self: self.open)
    @rule(pick=SOME, flow=SOME)
    def add_a_run(self, pick: int, flow: int) -> None:
        definition = self.workflows[flow % len(self.workflows)]
        adding = ops.create_runs(self.group(pick), definition, None, [ops.NewRun()], now=self.driver.now())
        try:
            self.do(adding)
        except ConflictError:
            assert self.do(self.driver.group(self.group(pick))).cancel_requested_at is not None

    @rule(
        worker=st.sampled_from(WORKERS), limit=st.integers(1, 5), types=st.sampled_from([None, "am", "bcd", ["store"]])
    )
    def claim(self, worker: str, limit: int, types: list[str] | None) -> None:
        for step in self.do(self.driver.claim(limit, worker_id=worker, types=types)):
            assert step.id not in self.held, "a step is held once"
            self.held[step.id] = step

    @precondition(lambda self: self.held)
    @rule(picks=st.lists(st.tuples(SOME, OUTCOMES), min_size=1, max_size=5))
    def finish_some(self, picks: list[tuple[int, str]]) -> None:
        steps = list(self.held.values())
        chosen = {steps[pick % len(steps)].id: (outcome, pick) for pick, outcome in picks}
        results = [result_of(self.held[step_id], *outcome) for step_id, outcome in chosen.items()]
        finished = self.do(self.driver.finish(*results))
        assert not finished.lost
        for step_id in chosen:
            self.stale.append(self.held.pop(step_id))

    @precondition(lambda self: self.stale)
    @rule(pick=SOME, outcome=OUTCOMES)
    def write_late(self, pick: int, outcome: str) -> None:
        step = self.stale[pick % len(self.stale)]
        finished = self.do(self.driver.finish(result_of(step, outcome, pick)))
        assert finished == ops.Finished(lost={step.id})

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_dies(self, worker: str) -> None:
        lost = [step for step in self.held.values() if step.worker_id == worker]
        reaped = self.do(ops.reap_workers("reaper", [worker], now=self.driver.now()))
        assert reaped.steps == len(lost)
        self.lose(lost)
        self.do(ops.check_in(worker, now=self.driver.now()))

    @precondition(lambda self: self.open)
    @rule(pick=SOME, whole_group=st.booleans())
    def cancel(self, pick: int, whole_group: bool) -> None:
        if whole_group:
            self.do(ops.cancel_run_group(self.group(pick), now=self.driver.now()))
        elif (run_id := self.run_id(pick)) is not None:
            self.do(ops.cancel_run(run_id, now=self.driver.now()))

    @precondition(lambda self: self.open)
    @rule(pick=SOME, whole_group=st.booleans(), hard=st.booleans())
    def retry(self, pick: int, whole_group: bool, hard: bool) -> None:
        if whole_group:
            group_id = self.group(pick)
            lost = [step for step in self.held.values() if step.group_id == group_id]
            self.do(ops.retry_run_group(group_id, hard=hard, now=self.driver.now()))
        elif (run_id := self.run_id(pick)) is not None:
            lost = [step for step in self.held.values() if step.run_id == run_id]
            self.do(ops.retry_run(run_id, hard=hard, now=self.driver.now()))
        else:
            return
        if hard:
            self.lose(lost)

    @precondition(lambda self: self.open)
    @rule(pick=SOME)
    def delete(self, pick: int) -> None:
        group_id = self.group(pick)
        self.do(ops.delete_run_group(group_id))
        self.lose([step for step in self.held.values() if step.group_id == group_id])
        del self.open[group_id], self.ended[group_id]

    @precondition(lambda self: self.open)
    @rule(pick=SOME)
    def count_anew(self, pick: int) -> None:
        assert self.do(ops.try_complete_run_group(self.group(pick), now=self.driver.now())) is False
        if (run_id := self.run_id(pick)) is not None:
            before = self.do(self.driver.run(run_id))
            self.do(ops.recompute_run_status(run_id, now=self.driver.now()))
            assert self.do(self.driver.run(run_id)) == before

    @rule(seconds=st.integers(1, LONGEST_PAUSE))
    def time_passes(self, seconds: int) -> None:
        self.driver.pass_time(timedelta(seconds=seconds))

    @invariant()
    def rows_agree(self) -> None:
        self.do(assert_consistent())

    @invariant()
    def leases_are_those_of_the_model(self) -> None:
        rows = self.do(rows_of("SELECT id, lease_token FROM runstep WHERE lease_token IS NOT NULL"))
        assert dict(rows) == {step.id: step.lease for step in self.held.values()}

    @invariant()
    def every_end_of_a_group_is_told_once(self) -> None:
        query = """SELECT g.id, g.completed_date IS NULL, (SELECT count(*) FROM lifecyclehistory e
                    WHERE e.run_group_id = g.id AND e.event = 'group_end') FROM rungroup g"""
        for group_id, is_open, ends in self.do(rows_of(query)):
            self.ended[group_id] += self.open[group_id] and not is_open
            self.open[group_id] = bool(is_open)
            assert ends == self.ended[group_id]

    @override
    def teardown(self) -> None:
        for worker in WORKERS:
            self.a_worker_dies(worker)
        self.do(self.driver.drain(lambda step: result_of(step, "complete", 2)))
        self.rows_agree()
        self.every_end_of_a_group_is_told_once()
        assert self.do(scalar("SELECT count(*) FROM rungroup WHERE completed_date IS NULL AND total_runs > 0")) == 0
        assert self.do(scalar("SELECT count(*) FROM resourcelock")) == 0


async def empty() -> None:
    async with Database.engine().begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name == "runstep":
                await connection.execute(table.delete().where(table.c.parent_step_id.is_not(None)))
            await connection.execute(table.delete())


def test_whatever_happens_in_whatever_order_everything_ends_and_adds_up(database_url: str) -> None:
    flows = [workflow(steps, workflow_id=name) for name, steps in WORKFLOWS.items()]
    with asyncio.Runner() as shared:

        class Machine(EngineMachine):
            runner = shared
            workflows = flows

        shared.run(Database.initialize(database_url))
        try:
            run_state_machine_as_test(Machine, settings=SETTINGS)
        finally:
            shared.run(Database.close())
