"""What several connections do at once on PostgreSQL: no two wait for one another, and every invariant holds after it.

Two operations are brought to the point where each holds what the other needs next. Where the order in which they take
their locks is wrong, the server finds a deadlock and ends one of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.operations.runs import Created
from soliplex.ingester.lib.wf.work import ClaimedStep, Result
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    is_stopping,
    linear,
    released,
    scalar,
    workflow,
)
from tests.support.interleaving import Gate, gated, gated_links, meet, starts_held, wait_until_blocked

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def gates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with gated_links(monkeypatch):
        yield


@dataclass(frozen=True)
class Change:
    """What somebody does to a group that is about to start."""

    make: Callable[[Driver, Created], Coroutine[Any, Any, Any]]
    holds_runs_before: str
    """A statement before which it holds the runs, and after which it wants the steps."""
    status: str | None
    """How the group ends."""


CHANGES = {
    "cancel": Change(
        lambda driver, created: ops.cancel_run_group(created.group_id, now=driver.now()),
        "cancel_waiting_steps",
        "CANCELLED",
    ),
    "hard retry": Change(
        lambda driver, created: ops.retry_run(created.run_ids[0], hard=True, now=driver.now()),
        "reset_unfinished_steps",
        "COMPLETED",
    ),
    "delete": Change(lambda _, created: ops.delete_run_group(created.group_id), "delete_steps_of_runs", None),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


async def assert_group_ends(driver: Driver, created: Created, status: str | None) -> None:
    await ops.reap_workers("another", ["me"], now=driver.now())
    await driver.drain()
    if status is None:
        assert await scalar("SELECT count(*) FROM runstep") == 0
    else:
        assert (await driver.group(created.group_id)).status == status


async def test_a_claim_leaves_the_steps_of_a_run_that_another_is_changing(
    postgres_driver: Driver, change: Change
) -> None:
    created = await postgres_driver.start(linear("a", "b"), 1)
    gate = Gate(change.holds_runs_before)
    changing = gated(lambda: change.make(postgres_driver, created), gate)
    await wait_until_blocked(changing, gate)
    claim = await ops.claim_steps("me", ops.Pool(), 5, now=postgres_driver.now())
    assert (claim.steps, claim.lost_race) == ([], True)
    gate.opened.set()
    await changing
    await assert_group_ends(postgres_driver, created, change.status)


async def test_a_change_that_comes_while_a_claim_is_being_made_waits_for_it(
    postgres_driver: Driver, change: Change
) -> None:
    created = await postgres_driver.start(linear("a", "b"), 1)
    async with starts_held():
        claiming = asyncio.create_task(postgres_driver.claim(worker_id="me"))
        await wait_until_blocked(claiming)
        changing = asyncio.create_task(change.make(postgres_driver, created))
        await wait_until_blocked(changing, others=1)
    assert len(await claiming) == 1
    await changing
    await assert_group_ends(postgres_driver, created, change.status)


async def test_results_and_the_cancellation_of_their_group_do_not_wait_for_one_another(postgres_driver: Driver) -> None:
    driver = postgres_driver
    created = await driver.start(linear("a"), 3)
    steps = await driver.claim()
    finished, _ = await meet(
        (lambda: driver.complete(*steps[:2]), "advance_groups"),
        (lambda: ops.cancel_run_group(created.group_id, now=driver.now()), "flag_runs_of_group"),
    )
    assert finished.completed == {step.id for step in steps[:2]}
    await driver.finish(released(steps[2]))
    assert (await driver.group(created.group_id)).status == "CANCELLED"


async def test_results_and_the_deletion_of_their_group_do_not_wait_for_one_another(postgres_driver: Driver) -> None:
    driver = postgres_driver
    created = await driver.start(linear("a"), 3)
    steps = await driver.claim()
    finished, deleted = await meet(
        (lambda: driver.complete(*steps), "advance_groups"),
        (lambda: ops.delete_run_group(created.group_id), "lock_group"),
    )
    assert len(finished.completed) == 3
    assert deleted["deleted_workflowruns"] == 3


async def test_a_late_result_and_the_reaping_of_its_worker_do_not_wait_for_one_another(postgres_driver: Driver) -> None:
    driver = postgres_driver
    await driver.start(linear("store"), 2, resource_keys={"store": "db"})
    await ops.check_in("late", now=driver.now())
    steps = await driver.claim(worker_id="late")
    finished, reaped = await meet(
        (lambda: driver.complete(*steps), "drop_locks_of_leases"),
        (lambda: ops.reap_workers("me", ["late"], now=driver.now()), "lock_runs"),
    )
    assert (len(finished.completed), reaped.steps) == (2, 0)
    assert await driver.locks() == {}


async def test_a_claim_and_a_hard_retry_under_one_resource_do_not_wait_for_one_another(postgres_driver: Driver) -> None:
    driver = postgres_driver
    flow = workflow({"x": {"depends_on": [], "retries": 3}, "store": {"depends_on": []}})
    created = await driver.start(flow, 2, resource_keys={"store": "db"})
    x, store = (await driver.claim(1, types=["x"]))[0], (await driver.claim(1, types=["store"]))[0]
    await driver.finish(errored(x, delay=timedelta(milliseconds=1)))
    driver.pass_time(timedelta(seconds=1))
    await ops.force_release_resource_lock("db", requested_by="a test")
    await meet(
        (lambda: driver.claim(worker_id="me", types=["store"]), "acquire_lock"),
        (lambda: ops.retry_run(created.run_ids[0], hard=True, now=driver.now()), "reset_unfinished_steps"),
    )
    assert (await driver.finish(completed(store))).lost == {store.id}
    await ops.reap_workers("another", [], now=driver.now())
    await driver.drain()


async def test_two_who_store_the_same_configurations_at_once_do_not_wait_for_one_another(
    postgres_driver: Driver,
) -> None:
    driver = postgres_driver
    one = workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}, workflow_id="one")
    two = workflow({"y": {"depends_on": []}, "x": {"depends_on": []}}, workflow_id="two")
    at = "insert_group_with_runs"
    await meet((lambda: driver.start(one), at), (lambda: driver.start(two), at))
    assert await scalar("SELECT count(*) FROM stepconfig") == 2
    assert len(await driver.drain()) == 4


async def test_branches_claimed_at_once_by_two_workers_start_their_run_once(postgres_driver: Driver) -> None:
    driver = postgres_driver
    flow = workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}, events={"item_start": ["tell"]})
    created = await driver.start(flow, 1)
    async with starts_held():
        claiming = asyncio.create_task(driver.claim(worker_id="one", types=["x"]))
        await wait_until_blocked(claiming)
        two = await ops.claim_steps("two", ops.Pool(frozenset({"y"})), 5, now=driver.now())
    assert (two.steps, two.lost_race) == ([], True)
    await driver.complete(*await claiming)
    await driver.drain()
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"
    assert len(await driver.events("item_start")) == 1


async def test_runs_of_one_group_started_at_once_by_two_workers_start_it_once(postgres_driver: Driver) -> None:
    driver = postgres_driver
    created = await driver.start(linear("a"), 2)
    async with starts_held():
        first = asyncio.create_task(driver.claim(1, worker_id="one"))
        await wait_until_blocked(first)
        second = asyncio.create_task(driver.claim(1, worker_id="two"))
        await wait_until_blocked(second, others=1)
    steps = [*await first, *await second]
    assert sorted(step.run_id for step in steps) == created.run_ids
    await driver.complete(*steps)
    assert len(await driver.events("group_start")) == 1


async def test_branches_that_end_at_once_release_their_join_once(postgres_driver: Driver) -> None:
    driver = postgres_driver
    flow = workflow({"x": {"depends_on": []}, "y": {"depends_on": []}, "z": {"depends_on": ["x", "y"]}})
    await driver.start(flow, 20)
    steps = await driver.claim()
    await asyncio.gather(*(driver.complete(step) for step in steps))
    await assert_consistent()
    assert [step.name for step in await driver.claim()] == ["z"] * 20


async def test_tasks_that_end_at_once_end_their_map_once(postgres_driver: Driver) -> None:
    driver = postgres_driver
    created = await driver.start(workflow({"m": {"map": True}}, events={"item_end": ["tell"]}), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(40)))
    tasks = await driver.claim()
    await asyncio.gather(*(driver.complete(*tasks[start : start + 4]) for start in range(0, 40, 4)))
    assert (await driver.step(step.id)).status == "COMPLETED"
    assert len(await driver.events("item_end")) == 1
    assert (await driver.run(created.run_ids[0])).status == "COMPLETED"


SOAKED = {
    "x": {"depends_on": [], "retries": 2},
    "y": {"depends_on": [], "optional": True},
    "each": {"depends_on": ["x"], "map": True, "retries": 2},
    "store": {"depends_on": ["each", "y"], "retries": 2},
}


class Soak:
    """Workers and users who do as they please, until there is nothing left to do."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.groups: list[int] = []
        self.users_are_done = asyncio.Event()

    def outcome(self, step: ClaimedStep) -> Result:
        if is_stopping(step):
            return released(step)
        if step.name == "each" and step.parent_id is None:
            return expanded(step, range(self.dice.randrange(4)))
        roll = self.dice.random()
        if roll < 0.06:
            return errored(step, permanent=True)
        if roll < 0.15:
            return errored(step)
        return released(step) if roll < 0.2 else completed(step)

    async def work(self, name: str) -> None:
        pool, idle = ops.Pool(), 0
        await ops.check_in(name)
        while idle < 4:
            claim = await ops.claim_steps(name, pool, self.dice.randrange(1, 12))
            if claim.steps:
                await ops.finish_steps([self.outcome(step) for step in claim.steps])
            idle = idle + 1 if self.users_are_done.is_set() and not claim.steps and not claim.lost_race else 0

    async def use(self, steps: int) -> None:
        flow = workflow(SOAKED, workflow_id=f"flow-{self.dice.random()}")
        keys = [{"store": "one"}, {"store": "two"}, {}]
        for _ in range(steps):
            self.groups.append(
                (
                    await ops.create_run_group(flow, None, [ops.NewRun()] * 4, resource_keys=self.dice.choice(keys))
                ).group_id
            )
            group_id = self.dice.choice(self.groups)
            deeds: list[Callable[[], Awaitable[Any]]] = [
                lambda group_id=group_id: ops.cancel_run_group(group_id),
                lambda group_id=group_id: ops.retry_run_group(group_id),
                lambda group_id=group_id: ops.retry_run_group(group_id, hard=True),
                lambda group_id=group_id: ops.delete_run_group(group_id),
                lambda group_id=group_id: ops.try_complete_run_group(group_id),
                lambda: ops.reap_workers("user", [f"worker-{self.dice.randrange(3)}"]),
            ]
            try:
                await self.dice.choice(deeds)()
            except (NotFoundError, ConflictError):  # it is gone, or on its way
                self.groups = [known for known in self.groups if known != group_id]


async def test_workers_and_users_at_once_leave_everything_in_order(postgres_driver: Driver) -> None:
    soak = Soak(random.Random(7))

    async def users() -> None:
        await asyncio.gather(*(soak.use(20) for _ in range(2)))
        soak.users_are_done.set()

    await asyncio.gather(users(), *(soak.work(f"worker-{number}") for number in range(3)))
    # What was recorded late under a stolen lease is dropped: the steps are still there for the next worker.
    await ops.reap_workers("last", [f"worker-{number}" for number in range(3)])
    await soak.work("last")
    still_open = "SELECT count(*) FROM rungroup WHERE completed_date IS NULL"
    assert await scalar(still_open) == 0
    assert await scalar("SELECT count(*) FROM resourcelock") == 0
