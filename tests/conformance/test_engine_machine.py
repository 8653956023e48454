"""The engine under any sequence of events: whatever workers, users and time do, every invariant holds after it.

Hypothesis makes up the sequences. A small model beside the database knows who holds which lease and how often each
group has ended; the rest is read off the rows after every event. At the end everything is worked off, and must then
have ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Final, override
from uuid import uuid4

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import Database, metadata
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.work import ClaimedStep, NewSubflow, Result
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    parked,
    released,
    rows_of,
    scalar,
    workflow,
)

WORKERS: Final = ("one", "two")
# Every kind of step beside every other: what is tried again, optional, mapped, parallel and joined.
WORKFLOWS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "map": {"a": {"optional": True}, "m": {"map": True, "retries": 2}, "store": {}},
    "graph": {
        "a": {"retries": 2},
        "b": {"depends_on": ["a"], "optional": True},
        "c": {"depends_on": ["a"], "retries": 2},
        "store": {"depends_on": ["b", "c"]},
    },
    "mixed": {
        "a": {"depends_on": [], "optional": True},
        "m": {"depends_on": ["a"], "map": True},
        "b": {"depends_on": []},
        "c": {"depends_on": ["m", "b"], "retries": 2},
    },
    "tolerant": {"m": {"map": True, "tolerant": True, "max_failures": 1, "retries": 2}, "store": {"retries": 2}},
    "optional-map": {"m": {"map": True, "optional": True}, "store": {"retries": 2}},
}
KEYS: Final = ({}, {"store": "db", "b": "db"}, {"m": "db", "store": "other"})
# A lock lives for five minutes; no example lasts as long, so that none expires while its steps are still under way.
LONGEST_PAUSE: Final = 5
OUTCOMES: Final = st.sampled_from(
    ["complete", "complete", "complete", "error", "fail", "fail", "release", "again", "wait", "wait", "subflow"]
)
SIGNALS: Final = ("one", "two")
"""The keys that steps wait for: few, so that steps and signals meet in every order."""
SETTINGS: Final = hypothesis.settings(
    stateful_step_count=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
SOME: Final = st.integers(0, 10_000)


def result_of(step: ClaimedStep, outcome: str, number: int, child: NewSubflow) -> Result:
    match outcome:
        case "error":
            return errored(step, delay=timedelta(seconds=number % LONGEST_PAUSE))
        case "fail":
            return errored(step, permanent=True)
        case "release":
            return released(step)
        case "again" | "wait" | "subflow":
            return parking_of(step, outcome, number, child)
        case _ if step.name == "m" and step.parent_id is None:
            return expanded(step, range(number % 4))
        case _:
            return completed(step, {"n": number})


def parking_of(step: ClaimedStep, outcome: str, number: int, child: NewSubflow) -> Result:
    if outcome == "again":
        return parked(step, delay=timedelta(seconds=number % 3) or None, state={"n": number})
    limit = None if number % 3 == 0 else timedelta(seconds=number % LONGEST_PAUSE)
    if outcome == "subflow":
        key = f":subflow:{step.id}:{step.row['repeats']}"
        return replace(parked(step, awaits=key, delay=limit), subflow=child)
    return parked(step, awaits=SIGNALS[number % 2], delay=limit)


class EngineMachine(RuleBasedStateMachine):
    """Drives the engine and keeps the books beside it."""

    runner: ClassVar[asyncio.Runner]
    workflows: ClassVar[list[WorkflowDefinition]]
    child: ClassVar[NewSubflow]

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

    @initialize(pick=SOME, runs=st.integers(2, 4), keys=st.sampled_from(KEYS))
    def begin_with_a_group(self, pick: int, runs: int, keys: dict[str, str]) -> None:
        self.start_a_group(pick, runs, 0, keys)

    @precondition(lambda self: len(self.open) < 4)
    @rule(pick=SOME, runs=st.integers(0, 4), priority=st.integers(0, 1), keys=st.sampled_from(KEYS))
    def start_a_group(self, pick: int, runs: int, priority: int, keys: dict[str, str]) -> None:
        flow = self.workflows[pick % len(self.workflows)]
        created = self.do(self.driver.start(flow, runs, priority=priority, resource_keys=keys))
        self.open[created.group_id] = True

    @rule(worker=st.sampled_from(WORKERS), limit=st.integers(1, 5), types=st.sampled_from([None, None, "am", "bcd"]))
    def claim(self, worker: str, limit: int, types: str | None) -> None:
        for step in self.do(self.driver.claim(limit, worker_id=worker, types=types)):
            assert step.id not in self.held, "a step is held once"
            self.held[step.id] = step

    @precondition(lambda self: self.held)
    @rule(
        picks=st.lists(st.tuples(SOME, OUTCOMES), min_size=1, max_size=5),
        types=st.sampled_from([(), (), ("b", "c", "d", "store"), ("b", "m")]),
    )
    def finish_some(self, picks: list[tuple[int, str]], types: tuple[str, ...]) -> None:
        steps = list(self.held.values())
        chosen = {steps[pick % len(steps)].id: (outcome, pick) for pick, outcome in picks}
        results = [result_of(self.held[step_id], *outcome, self.child) for step_id, outcome in chosen.items()]
        following = ops.Following(WORKERS[0], str(uuid4()), frozenset(types)) if types else None
        finished = self.do(self.driver.finish(*results, following=following))
        assert not finished.lost
        self.lose([self.held[step_id] for step_id in chosen])
        for step in finished.followers:
            assert step.type in types
            assert step.id not in self.held, "a step is held once"
            self.held[step.id] = step

    @rule(picks=st.lists(st.tuples(SOME, OUTCOMES), min_size=3, max_size=8))
    def work(self, picks: list[tuple[int, str]]) -> None:
        """A worker that goes about its business: every step it claims is finished before the next is claimed."""
        for number, outcome in picks:
            steps = self.do(self.driver.claim(1, worker_id=WORKERS[0]))
            if not steps:
                return
            for step in steps:
                assert not self.do(self.driver.finish(result_of(step, outcome, number, self.child))).lost
                self.stale.append(step)

    @precondition(lambda self: self.stale)
    @rule(pick=SOME, outcome=OUTCOMES)
    def write_late(self, pick: int, outcome: str) -> None:
        # Best of all for a step that another holds by now.
        stale = [step for step in self.stale if step.id in self.held] or self.stale
        step = stale[pick % len(stale)]
        finished = self.do(self.driver.finish(result_of(step, outcome, pick, self.child)))
        finished.freed_keys.clear()  # the lock that a hard retry left to the worker may go by this
        assert finished == ops.Finished(lost={step.id})

    @rule(key=st.sampled_from(SIGNALS), number=SOME)
    def somebody_signals(self, key: str, number: int) -> None:
        self.do(self.driver.signal(key, {"n": number}))

    @rule()
    def signals_are_delivered(self) -> None:
        self.do(self.driver.deliver())
        assert self.do(scalar("SELECT count(*) FROM signal WHERE is_new")) == 0

    @precondition(lambda self: len(self.open) < 6)
    @rule(pick=SOME, seconds=st.integers(1, LONGEST_PAUSE), is_late=st.booleans())
    def start_a_run_with_a_deadline(self, pick: int, seconds: int, is_late: bool) -> None:
        flow, now = self.workflows[pick % len(self.workflows)], self.driver.now()
        begins = now + timedelta(seconds=1) if is_late else None
        deadline = (begins or now) + timedelta(seconds=seconds)
        new = ops.NewRun(key=f"run {pick % 3}", input=[1, 2])
        run = self.do(ops.start_run(flow, run=new, start_at=begins, deadline=deadline, now=now))
        if run.is_new:
            self.open[run.group_id] = True

    @rule()
    def overdue_runs_end(self) -> None:
        self.do(ops.end_overdue_runs(now=self.driver.now()))
        leased = {row[0] for row in self.do(rows_of("SELECT id FROM runstep WHERE lease_token IS NOT NULL"))}
        self.lose([step for step in self.held.values() if step.id not in leased])

    @rule()
    def orphans_are_cancelled(self) -> None:
        self.do(ops.cancel_orphaned_runs(now=self.driver.now()))

    @rule(seconds=st.integers(0, LONGEST_PAUSE), failed=st.booleans())
    def history_is_pruned(self, seconds: int, failed: bool) -> None:
        age = timedelta(seconds=seconds)
        retention = ops.Retention(ended=age, failed=age if failed else None)
        self.do(ops.prune_history(retention, now=self.driver.now()))
        left = {row[0] for row in self.do(rows_of("SELECT id FROM rungroup"))}
        for group_id in self.open.keys() - left:
            assert not self.open[group_id], "a group that has not ended is not pruned"
            del self.open[group_id], self.ended[group_id]

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_dies(self, worker: str) -> None:
        lost = [step for step in self.held.values() if step.worker_id == worker]
        reaped = self.do(ops.reap_workers("reaper", [worker], now=self.driver.now()))
        assert reaped.steps + reaped.failed == len(lost)
        self.lose(lost)
        self.do(ops.check_in(worker, now=self.driver.now()))

    @precondition(lambda self: self.open)
    @rule(pick=SOME, whole_group=st.booleans(), hard=st.booleans())
    def retry(self, pick: int, whole_group: bool, hard: bool) -> None:
        chosen = self.group(pick) if whole_group else self.run_id(pick)
        if chosen is None:
            return
        held = [step for step in self.held.values() if chosen == (step.group_id if whole_group else step.run_id)]
        retry = ops.retry_run_group if whole_group else ops.retry_run
        try:
            self.do(retry(chosen, hard=hard, now=self.driver.now()))
        except ConflictError:
            column = "run_group_id" if whole_group else "id"
            child = f"SELECT count(*) FROM workflowrun WHERE parent_step_id > 0 AND {column} = {chosen}"
            assert self.do(scalar(child)), "only runs that steps have started have somebody else who retries them"
            return
        if hard:
            self.lose(held)

    @precondition(lambda self: self.open)
    @rule(deed=st.sampled_from(["cancel a run", "cancel", "add a run", "count anew", "delete"]), pick=SOME)
    def interfere(self, deed: str, pick: int) -> None:
        group_id, run_id = self.group(pick), self.run_id(pick)
        match deed:
            case "cancel":
                self.do(ops.cancel_run_group(group_id, now=self.driver.now()))
            case "cancel a run" if run_id is not None:
                self.do(ops.cancel_run(run_id, now=self.driver.now()))
            case "add a run":
                self.add_a_run(group_id, self.workflows[pick % len(self.workflows)])
            case "count anew" if run_id is not None:
                self.count_anew(group_id, run_id)
            case "delete" if pick % 3 == 0:
                self.do(ops.delete_run_group(group_id))
                self.lose([step for step in self.held.values() if step.group_id == group_id])
                del self.open[group_id], self.ended[group_id]
            case _:
                pass

    def add_a_run(self, group_id: int, flow: WorkflowDefinition) -> None:
        was_cancelled = self.do(self.driver.group(group_id)).cancel_requested_at is not None
        adding = ops.create_runs(group_id, flow, None, [ops.NewRun()], now=self.driver.now())
        try:
            self.do(adding)
        except ConflictError:
            assert was_cancelled
        else:
            assert not was_cancelled

    def count_anew(self, group_id: int, run_id: int) -> None:
        assert self.do(ops.try_complete_run_group(group_id, now=self.driver.now())) is False
        before = self.do(self.driver.run(run_id))
        self.do(ops.recompute_run_status(run_id, now=self.driver.now()))
        assert self.do(self.driver.run(run_id)) == before

    @rule(seconds=st.integers(1, LONGEST_PAUSE))
    def time_passes(self, seconds: int) -> None:
        self.driver.pass_time(timedelta(seconds=seconds))

    @invariant()
    def everything_agrees(self) -> None:
        self.do(self.check())

    async def check(self) -> None:
        await assert_consistent()
        leases = "SELECT id, lease_token FROM runstep WHERE lease_token IS NOT NULL"
        assert dict(await rows_of(leases)) == {step.id: step.lease for step in self.held.values()}
        for group_id, is_open, starts, ends in await rows_of(_GROUPS):
            # A group that a step has started, for its subflow, is seen here first.
            self.ended[group_id] += self.open.setdefault(group_id, True) and not is_open
            self.open[group_id] = bool(is_open)
            assert ends == self.ended[group_id], "every end of a group is told once"
            assert starts <= ends + is_open, "and no beginning twice"

    @override
    def teardown(self) -> None:
        for worker in WORKERS:
            self.a_worker_dies(worker)
        self.do(self.driver.drain(lambda step: result_of(step, "complete", 2, self.child)))
        self.everything_agrees()
        assert self.do(scalar("SELECT count(*) FROM rungroup WHERE completed_date IS NULL AND total_runs > 0")) == 0
        assert self.do(scalar("SELECT count(*) FROM resourcelock")) == 0


_GROUPS: Final = """
    SELECT g.id, CASE WHEN g.completed_date IS NULL THEN 1 ELSE 0 END,
           (SELECT count(*) FROM lifecyclehistory e WHERE e.run_group_id = g.id AND e.event = 'group_start'),
           (SELECT count(*) FROM lifecyclehistory e WHERE e.run_group_id = g.id AND e.event = 'group_end')
      FROM rungroup g"""


KEPT: Final = frozenset({"stepconfig", "configset", "configsetitem", "definition"})
"""Nothing ever deletes these, and the engine remembers them."""


async def empty() -> None:
    async with Database.engine().begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name in KEPT:
                continue
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
            child = workflow({"a": {}, "b": {}}, workflow_id="child")
            Machine.child = NewSubflow(child, {"n": 1}, shared.run(ops.pin(child)))
            # As many as fit into some ten seconds on either database.
            examples = SETTINGS.max_examples // (4 if Database.is_postgres() else 2)
            run_state_machine_as_test(Machine, settings=hypothesis.settings(SETTINGS, max_examples=examples))
        finally:
            shared.run(Database.close())
