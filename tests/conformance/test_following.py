"""Claiming a step along with recording what made it ready."""

from __future__ import annotations

from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import Driver, completed, linear, workflow
from tests.support.invariants import assert_consistent


async def test_the_next_step_of_a_run_is_claimed_along(driver: Driver) -> None:
    created = await driver.start(linear("a", "b"), 3)
    steps = await driver.claim()
    followers = await driver.complete_and_follow(*steps, types="b")
    assert [(step.run_id, step.name, step.worker_id) for step in followers] == [
        (run_id, "b", driver.worker_id) for run_id in created.run_ids
    ]
    assert [step.run_input for step in followers] == [{"n": number} for number in range(3)]
    assert await driver.claim() == []
    await assert_consistent()
    await driver.complete(*followers)
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_a_follower_is_what_a_claimed_step_is(driver: Driver) -> None:
    await driver.start(linear("a", "b", retries=4, timeout=7), 1)
    (follower,) = await driver.complete_and_follow(await driver.claim_one(), types="b")
    stored = await driver.step(follower.id)
    shown = follower.run_step()
    assert shown.model_dump() == stored.model_dump()
    assert (stored.status, stored.start_date, stored.lease_token) == ("RUNNING", driver.moment, follower.lease)


async def test_other_types_are_left_to_others(driver: Driver) -> None:
    await driver.start(linear("a", "b"), 2)
    finished = await driver.finish(
        *map(completed, await driver.claim()), following=ops.Following("worker", "lease", frozenset("c"))
    )
    assert (finished.followers, finished.ready_types) == ([], {"b"})
    assert [step.name for step in await driver.claim()] == ["b", "b"]


async def test_a_step_that_needs_a_resource_is_left_to_a_claim(driver: Driver) -> None:
    await driver.start(linear("a", "b"), 1, resource_keys={"b": "shelf"})
    assert await driver.complete_and_follow(await driver.claim_one(), types="b") == []
    assert (await driver.claim_one()).resource_key == "shelf"


async def test_a_join_follows_its_last_branch(driver: Driver) -> None:
    flow = workflow({"x": {"depends_on": []}, "y": {"depends_on": []}, "z": {"depends_on": ["x", "y"]}})
    await driver.start(flow, 1)
    x, y = await driver.claim()
    assert await driver.complete_and_follow(x, types="z") == []
    await assert_consistent()
    assert [step.name for step in await driver.complete_and_follow(y, types="z")] == ["z"]


async def test_branches_follow_their_fork_together(driver: Driver) -> None:
    flow = workflow({"a": {}, "x": {"depends_on": ["a"]}, "y": {"depends_on": ["a"]}})
    await driver.start(flow, 1)
    followers = await driver.complete_and_follow(await driver.claim_one(), types="xy")
    assert sorted(step.name for step in followers) == ["x", "y"]


async def test_nothing_follows_in_a_run_that_is_to_stop(driver: Driver) -> None:
    (run_id,) = (await driver.start(linear("a", "b"), 1)).run_ids
    step = await driver.claim_one()
    await ops.cancel_run(run_id, now=driver.now())
    assert await driver.complete_and_follow(step, types="b") == []
    assert await driver.statuses(run_id) == {"a": "COMPLETED", "b": "CANCELLED"}


async def test_nothing_follows_a_result_that_came_too_late(driver: Driver) -> None:
    await driver.start(linear("a", "b"), 1)
    step = await driver.claim_one()
    await ops.release_step(step.id, step.lease)
    assert await driver.complete_and_follow(step, types="b") == []
    assert (await driver.claim_one()).name == "a"


async def test_the_start_of_a_follower_is_told(driver: Driver) -> None:
    await driver.start(workflow({"a": {}, "b": {}}, events={"step_start": ["tell"]}), 1)
    first = await driver.claim_one()
    (second,) = await driver.complete_and_follow(first, types="b")
    assert [event.step_id for event in await driver.events("step_start")] == [first.id, second.id]
