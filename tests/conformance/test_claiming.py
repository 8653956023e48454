"""Claiming: what may be taken, in which order, by whom."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import PostgresLink, Rows
from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    execute,
    expanded,
    linear,
    released,
    rows_of,
    workflow,
)
from tests.support.interleaving import recorded_statements


async def test_a_claim_stamps_the_step_and_starts_its_run_and_group(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 1)
    step = await ops.claim_next_step("me", "my-lease", now=driver.now())
    assert step is not None
    assert (step.workflow_step_name, step.status, step.worker_id, step.lease_token) == (
        "a",
        "RUNNING",
        "me",
        "my-lease",
    )
    assert step.start_date == driver.moment
    stored = await driver.step(step.id or 0)
    assert (stored.status, stored.worker_id, stored.lease_token) == ("RUNNING", "me", "my-lease")
    run, group = await driver.run(created.run_ids[0]), await driver.group(created.group_id)
    assert (run.status, run.start_date) == ("RUNNING", driver.moment)
    assert (group.status, group.start_date) == ("RUNNING", driver.moment)
    assert await ops.claim_next_step("other", "other-lease") is None


async def test_a_claimed_step_brings_its_run_with_it(driver: Driver) -> None:
    created = await driver.start(linear("a"), [ops.NewRun(doc_id="sha256-x", params={"ocr": True}, input=["é", None])])
    step = await driver.claim_one()
    row = step.run_step()
    assert (step.run_id, step.run["doc_id"], step.run_input) == (created.run_ids[0], "sha256-x", ["é", None])
    assert (row.id, row.status, row.is_last_step, row.optional, row.status_meta) == (
        step.id,
        "RUNNING",
        True,
        False,
        {},
    )
    assert (step.group_id, step.workflow_id, step.retry, step.input) == (created.group_id, "flow", 0, None)


async def test_steps_are_claimed_by_priority_then_in_the_order_they_were_queued(driver: Driver) -> None:
    flow = linear("a")
    usual, urgent = await driver.start(flow, 3), await driver.start(flow, 2, priority=5)
    claimed = [(await driver.claim_one()).run_id for _ in range(5)]
    assert claimed == urgent.run_ids + usual.run_ids


async def test_a_batch_is_in_order_too(driver: Driver) -> None:
    flow = linear("a")
    usual, urgent = await driver.start(flow, 3), await driver.start(flow, 2, priority=5)
    assert [step.run_id for step in await driver.claim(4)] == urgent.run_ids + usual.run_ids[:2]


async def test_the_most_urgent_step_comes_first_whatever_its_type(driver: Driver) -> None:
    await driver.start(workflow({"a": {}}, workflow_id="one"), 2)
    await driver.start(workflow({"b": {}}, workflow_id="two"), 1, priority=1)
    await driver.start(workflow({"c": {}}, workflow_id="three"), 1, priority=2)
    assert [(await driver.claim_one()).type for _ in range(4)] == ["c", "b", "a", "a"]


async def test_no_more_are_claimed_than_asked_for_and_all_under_one_lease(driver: Driver) -> None:
    flow = workflow({"a": {"depends_on": []}, "b": {"depends_on": []}, "c": {"depends_on": []}})
    await driver.start(flow, 2)
    batch = await driver.claim(5)
    assert len(batch) == 5
    assert len({step.lease for step in batch}) == 1
    assert len(await driver.claim(5)) == 1
    assert await driver.claim(5) == []


@pytest.mark.parametrize(
    ("types", "excluded", "expected"),
    [
        (None, (), {"a", "b", "c"}),
        (["b"], (), {"b"}),
        (["b", "c", "unknown"], (), {"b", "c"}),
        ([], (), set[str]()),
        (None, ["a", "b"], {"c"}),
    ],
)
async def test_only_accepted_types_are_claimed(
    driver: Driver, types: list[str] | None, excluded: list[str], expected: set[str]
) -> None:
    flow = workflow({key: {"depends_on": []} for key in "abc"})
    await driver.start(flow, 2)
    assert {step.type for step in await driver.claim(types=types, excluded=excluded)} == expected


async def test_types_are_told_apart_for_a_single_step_too(driver: Driver) -> None:
    await driver.start(workflow({key: {"depends_on": []} for key in "abc"}), 1)
    step = await ops.claim_next_step("me", "1", ["b", "c"], now=driver.now())
    other = await ops.claim_next_step("me", "2", excluded_types=["a"], now=driver.now())
    assert step is not None
    assert other is not None
    assert (step.step_type, other.step_type) == ("b", "c")
    assert await ops.claim_next_step("me", "3", ["b", "c"]) is None


async def test_neither_blocked_nor_running_nor_finished_steps_are_claimed(driver: Driver) -> None:
    flow = workflow(
        {
            "first": {},
            "second": {},
            "doomed": {"depends_on": []},
            "after": {"depends_on": ["doomed"]},
        }
    )
    await driver.start(flow, 1)
    first, doomed = sorted(await driver.claim(), key=lambda step: step.name, reverse=True)
    assert await driver.claim() == []
    await driver.complete(first)
    second = await driver.claim_one()
    assert second.name == "second"
    await driver.fail(doomed)
    await driver.complete(second)
    assert await driver.claim() == []


async def test_a_step_that_failed_is_claimed_again_when_it_is_due_and_not_before(driver: Driver) -> None:
    await driver.start(linear("a", retries=3), 1)
    step = await driver.claim_one()
    await driver.finish(errored(step, delay=timedelta(seconds=30)))
    failed_at = driver.moment
    waiting = await driver.step(step.id)
    assert (waiting.status, waiting.retry, waiting.available_at) == ("ERROR", 1, failed_at + timedelta(seconds=30))
    assert await driver.claim() == []

    driver.moment = failed_at + timedelta(seconds=30, milliseconds=-2)
    assert await driver.claim() == []
    again = await driver.claim_one()
    assert (again.id, again.retry) == (step.id, 1)
    assert again.lease != step.lease
    taken = await driver.step(step.id)
    assert (taken.status, taken.available_at, taken.status_message) == ("RUNNING", None, None)


async def test_a_step_that_failed_without_a_delay_is_claimed_again_at_once(driver: Driver) -> None:
    await driver.start(linear("a", retries=2), 1)
    step = await driver.claim_one()
    await driver.finish(errored(step))
    assert (await driver.claim_one()).id == step.id


async def test_more_steps_come_due_at_once_than_one_claim_admits(driver: Driver) -> None:
    await driver.start(linear("a", retries=2), 1_200)
    steps = await driver.claim(1_200)
    await driver.finish(*(errored(step, delay=timedelta(seconds=5)) for step in steps))
    driver.pass_time(timedelta(seconds=6))
    claimed = [len(await driver.claim(1_200)) for _ in range(4)]
    assert sum(claimed) == 1_200
    assert claimed[0] >= 500


async def test_a_poll_of_an_idle_engine_asks_little(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    await driver.start(linear("a", "b"), 50)
    await driver.claim()
    with recorded_statements(monkeypatch) as names:
        assert await driver.claim() == []
    assert len(names) <= 4


async def test_the_number_of_statements_does_not_depend_on_the_number_of_steps(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.start(linear("a"), 300)
    with recorded_statements(monkeypatch) as for_one:
        await driver.claim(1)
    driver.pools.clear()
    with recorded_statements(monkeypatch) as for_many:
        await driver.claim(200)
    assert len(for_many) <= len(for_one)


@pytest.mark.postgres
async def test_a_worker_that_is_told_of_ready_types_claims_with_one_statement(
    postgres_driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres_driver.start(workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}), 2)
    reads: list[str] = []
    read = PostgresLink.read

    async def recording(self: PostgresLink, call: Call) -> Rows:
        reads.append(call.statement.name)
        return await read(self, call)

    monkeypatch.setattr(PostgresLink, "read", recording)
    pool = ops.Pool(excluded=frozenset({"y"}))
    claim = await ops.claim_steps("me", pool, 5, now=postgres_driver.now(), told=["x", "y", "z"])
    assert [step.name for step in claim.steps] == ["x", "x"]
    assert reads == ["claim_and_start"]


@pytest.mark.parametrize("told", [["nothing"], ["store"], ["a"]])
async def test_a_worker_that_was_told_in_vain_looks_for_what_else_there_is(driver: Driver, told: list[str]) -> None:
    await driver.start(linear("store"), 1, resource_keys={"store": "db"})
    await driver.start(linear("a"), 1)
    await driver.claim(1, types=["a"])
    claim = await ops.claim_steps("me", ops.Pool(), 5, now=driver.now(), told=told)
    assert [step.name for step in claim.steps] == ["store"]
    assert claim.resource_key == "db"


async def test_handlers_of_starts_beyond_number_are_called_all_the_same(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soliplex.ingester.lib.wf.events.MOST_LISTENERS", 1)
    await driver.start(workflow({"a": {}}, events={"group_start": ["one", "two"], "step_start": ["three"]}), 2)
    claim = await ops.claim_steps("me", ops.Pool(), 5, now=driver.now())
    assert (len(claim.steps), claim.has_deliveries) == (2, True)
    assert [event.handler_name for event in await driver.events()] == ["one", "two", "three", "three"]


async def test_a_released_step_can_be_claimed_by_another(driver: Driver) -> None:
    await driver.start(linear("a"), 1)
    step = await driver.claim_one(worker_id="first")
    await driver.finish(released(step))
    again = await driver.claim_one(worker_id="second")
    assert (again.id, again.retry) == (step.id, 0)
    assert again.lease != step.lease


async def test_a_claim_of_a_run_that_is_to_stop_says_so(driver: Driver) -> None:
    """Between the wish to stop a large group and its fulfilment, its steps can still be claimed."""
    created = await driver.start(linear("a"), 1)
    await execute("UPDATE workflowrun SET cancel_requested_at = created_date")
    step = await driver.claim_one()
    assert step.run["cancel_requested_at"] is not None
    await driver.finish(released(step))
    assert (await driver.run(created.run_ids[0])).status == "CANCELLED"


async def test_two_claimers_at_once_never_share_a_step(database: type[Database]) -> None:
    driver = Driver()
    await driver.start(workflow({"a": {"depends_on": []}, "b": {"depends_on": []}}), 200)
    pools = {name: ops.Pool() for name in ("one", "two", "three", "four")}
    taken = Counter[int]()
    owners: dict[int, str] = {}

    async def work(name: str) -> None:
        misses = 0
        while misses < 3:
            claim = await ops.claim_steps(name, pools[name], 7)
            misses = 0 if claim.steps else misses + 1
            taken.update(step.id for step in claim.steps)
            owners.update({step.id: name for step in claim.steps})

    await asyncio.gather(*(work(name) for name in pools))
    assert len(taken) == 400
    assert set(taken.values()) == {1}
    assert dict(await rows_of("SELECT id, worker_id FROM runstep WHERE status = 'RUNNING'")) == owners
    await assert_consistent()


async def test_a_small_group_that_comes_late_is_not_left_behind_a_large_one(driver: Driver) -> None:
    flow = linear("a", "b")
    big = await driver.start(flow, 1_000)
    for _ in range(40):
        await driver.complete(await driver.claim_one())
    small = await driver.start(flow, 10)

    served: list[int] = []
    for _ in range(60):
        step = await driver.claim_one()
        served.append(step.group_id)
        await driver.complete(step)
    ended = max(index for index, group in enumerate(served) if group == small.group_id)
    assert served.count(small.group_id) == 20
    assert ended < 45, "the small group's last step is served within about two rounds for each of its steps"
    assert served[: ended + 1].count(big.group_id) >= 15, "and the large one gets its turns meanwhile"


async def test_many_small_groups_do_not_starve_a_large_one(driver: Driver) -> None:
    flow = linear("a")
    big = await driver.start(flow, 1_000)
    served = Counter[bool]()
    for _ in range(20):
        await driver.start(flow, 5)
        for _ in range(10):
            step = await driver.claim_one()
            served[step.group_id == big.group_id] += 1
            await driver.complete(step)
    assert served[True] >= 60


async def test_groups_that_wait_together_take_turns(driver: Driver) -> None:
    flow = linear("a")
    groups = [await driver.start(flow, 100) for _ in range(3)]
    served = Counter([(await driver.claim_one()).group_id for _ in range(60)])
    assert set(served.values()) == {20}
    assert set(served) == {group.group_id for group in groups}


async def test_a_run_that_is_under_way_is_finished_before_another_is_begun(driver: Driver) -> None:
    await driver.start(linear("a", "b", "c"), 3)
    assert await driver.drain(limit=1) == ["a", "b", "c"] * 3


async def test_a_group_that_comes_late_is_not_left_behind_at_any_stage(driver: Driver) -> None:
    """The first stage runs far ahead of the second, which is slow: the newcomer must be served soon at both."""
    flow = linear("quick", "slow")
    await driver.start(flow, 400)
    await driver.complete(*await driver.claim(300, types=["quick"]))
    await driver.complete(*await driver.claim(5, types=["slow"]))
    quick, slow = await driver.claim(1, types=["quick"]), await driver.claim(1, types=["slow"])
    small = await driver.start(flow, 5)
    await driver.complete(*await driver.claim(types=["quick"]))
    served = [(await driver.claim_one(types=["slow"])).group_id for _ in range(15)]
    assert served.count(small.group_id) == 5
    await driver.complete(*quick, *slow)


async def test_urgent_work_does_not_move_the_place_of_what_is_not(driver: Driver) -> None:
    flow = linear("a")
    big = await driver.start(flow, 400)
    await driver.complete(*await driver.claim(5))
    await driver.start(flow, 300, priority=5)
    await driver.complete(*await driver.claim(200))
    urgent = await driver.claim(10)
    small = await driver.start(flow, 5)
    await driver.complete(*urgent, *await driver.claim(90))
    served = [(await driver.claim_one()).group_id for _ in range(12)]
    assert (served.count(small.group_id), served.count(big.group_id)) == (5, 7)


async def test_the_tasks_of_a_large_map_do_not_hold_up_others(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True}}, workflow_id="wide"), 1)
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(500)))
    task = await driver.claim_one()
    small = await driver.start(workflow({"m": {}}, workflow_id="narrow"), 5)
    served = [(await driver.claim_one()).group_id for _ in range(12)]
    assert served.count(small.group_id) == 5
    await driver.complete(task)


async def test_the_tasks_of_a_map_are_claimed_in_the_order_of_their_items(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True}}), 1)
    await driver.finish(expanded(await driver.claim_one(), range(5)))
    assert [(await driver.claim_one()).input for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("durable", [True, False])
async def test_a_worker_claims_and_finishes_on_a_connection_of_its_own(driver: Driver, durable: bool) -> None:
    created = await driver.start(linear("a", "b", "c"), 20)
    async with Database.link(durable=durable) as link:
        pool = ops.Pool()
        while steps := (await ops.claim_steps("me", pool, 7, link=link, now=driver.now())).steps:
            await ops.finish_steps([completed(step) for step in steps], link=link, now=driver.now())
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_a_claim_that_finds_nothing_says_when_something_falls_due(driver: Driver) -> None:
    await driver.start(linear("a", retries=2), 1)
    await driver.finish(errored(await driver.claim_one(), delay=timedelta(minutes=3)))
    due = driver.moment + timedelta(minutes=3)
    assert (await ops.claim_steps("me", ops.Pool(), 5, now=driver.now())).next_due == due
    await driver.drain()
    assert (await ops.claim_steps("me", ops.Pool(), 5, now=driver.now())).next_due is None


async def test_a_step_with_a_priority_of_its_own_goes_before_or_after_others(driver: Driver) -> None:
    flow = workflow(
        {
            "low": {"depends_on": [], "priority": -5, "type": "t"},
            "usual": {"depends_on": [], "type": "t"},
            "high": {"depends_on": [], "priority": 7, "type": "t"},
        }
    )
    await driver.start(flow, priority=2**31 - 3)
    steps = await driver.claim()
    assert [step.name for step in steps] == ["high", "usual", "low"]
