"""Resource locks: one holder per key, whoever it is, and no claim slowed down by those who wait for one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta

import pytest

from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.errors import LockLostError
from soliplex.ingester.lib.wf.operations.claim import KEEPS_PLACE
from soliplex.ingester.lib.wf.operations.locks import find_resource_lock, refresh_locks_of_leases
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    linear,
    released,
    workflow,
)

MINUTE = timedelta(minutes=1)
STORE = {"store": "db"}


async def acquire(driver: Driver, holder: str, *, key: str = "db", ttl: timedelta = MINUTE) -> bool:
    return await ops.acquire_resource_lock(
        key, holder, ResourceLockKind.CLI, ttl=ttl, meta={"who": holder}, now=driver.now()
    )


async def test_a_lock_has_one_holder(driver: Driver) -> None:
    assert await acquire(driver, "cli:1")
    assert not await acquire(driver, "cli:2")
    lock = await find_resource_lock("db")
    assert lock is not None
    assert (lock.holder_id, lock.holder_kind, lock.holder_meta) == ("cli:1", ResourceLockKind.CLI, {"who": "cli:1"})
    assert lock.expires_at - lock.acquired_at == MINUTE
    assert await acquire(driver, "cli:2", key="another")
    assert await find_resource_lock("unknown") is None


async def test_a_lock_is_had_by_one_of_many_who_ask_at_once(database: type[Database]) -> None:
    driver = Driver()
    won = await asyncio.gather(*(acquire(driver, f"cli:{number}") for number in range(8)))
    assert Counter(won) == {True: 1, False: 7}


async def test_an_expired_lock_is_taken_over(driver: Driver) -> None:
    await acquire(driver, "cli:1")
    driver.pass_time(MINUTE)
    assert await acquire(driver, "cli:2")
    assert (await driver.locks())["db"].holder_id == "cli:2"
    assert not await ops.refresh_resource_lock("db", "cli:1", now=driver.now())
    assert not await ops.release_resource_lock("db", "cli:1")
    assert (await driver.locks())["db"].holder_id == "cli:2"


async def test_acquiring_sweeps_what_has_expired(driver: Driver) -> None:
    await acquire(driver, "cli:1", key="old")
    driver.pass_time(MINUTE)
    await acquire(driver, "cli:2", key="new")
    assert set(await driver.locks()) == {"new"}


async def test_a_refreshed_lock_lives_on(driver: Driver) -> None:
    await acquire(driver, "cli:1")
    driver.pass_time(MINUTE / 2)
    assert await ops.refresh_resource_lock("db", "cli:1", ttl=MINUTE, now=driver.now())
    driver.pass_time(MINUTE * 0.8)
    assert not await acquire(driver, "cli:2")


async def test_releasing_twice_does_no_harm(driver: Driver) -> None:
    await acquire(driver, "cli:1")
    assert await ops.release_resource_lock("db", "cli:1")
    assert not await ops.release_resource_lock("db", "cli:1")
    assert await acquire(driver, "cli:2")
    assert not await ops.release_resource_lock("db", "cli:1"), "it is another's now"
    assert set(await driver.locks()) == {"db"}


async def test_breaking_a_lock_is_written_to_the_audit_log(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    await acquire(driver, "cli:1")
    with caplog.at_level(logging.WARNING, "soliplex.ingester.audit"):
        broken = await ops.force_release_resource_lock("db", requested_by="si-diag by anna")
        assert broken is not None
        assert (broken.holder_id, broken.holder_meta) == ("cli:1", {"who": "cli:1"})
        assert await ops.force_release_resource_lock("db", requested_by="si-diag by anna") is None
    (record,) = caplog.records
    assert record.name == "soliplex.ingester.audit"
    for fact in ("key=db", "holder=cli:1", "kind=cli", "requested_by=si-diag by anna"):
        assert fact in record.getMessage()
    assert await driver.locks() == {}


async def test_the_sweep_takes_expired_locks_and_names_them(driver: Driver) -> None:
    await acquire(driver, "cli:1", key="a", ttl=MINUTE)
    await acquire(driver, "cli:1", key="b", ttl=MINUTE)
    await acquire(driver, "cli:1", key="c", ttl=MINUTE * 9)
    driver.pass_time(MINUTE * 2)
    assert sorted(await ops.sweep_expired_resource_locks(now=driver.now())) == ["a", "b"]
    assert await ops.sweep_expired_resource_locks(now=driver.now()) == []
    assert set(await driver.locks()) == {"c"}


async def test_a_claim_takes_the_lock_with_the_step(driver: Driver) -> None:
    await driver.start(linear("store"), 1, resource_keys=STORE)
    claim = await ops.claim_steps("me", ops.Pool(), 5, now=driver.now(), lock_ttl=MINUTE)
    (step,) = claim.steps
    assert (claim.resource_key, step.resource_key) == ("db", "db")
    lock = (await driver.locks())["db"]
    assert (lock.holder_id, lock.holder_kind, lock.step_id) == (step.lease, "worker", step.id)
    assert (lock.holder_meta, lock.expires_at) == ({"worker_id": "me"}, driver.moment + MINUTE)
    assert not await acquire(driver, "cli:1")


async def test_a_claim_passes_over_a_key_that_is_held(driver: Driver) -> None:
    await driver.start(workflow({"store": {"depends_on": []}, "plain": {"depends_on": []}}), 2, resource_keys=STORE)
    await acquire(driver, "cli:1")
    assert [step.name for step in await driver.claim()] == ["plain", "plain"]
    assert await driver.claim() == []
    await ops.release_resource_lock("db", "cli:1")
    assert [step.name for step in await driver.claim()] == ["store", "store"]


async def test_a_key_is_free_when_its_lock_has_expired(driver: Driver) -> None:
    await driver.start(linear("store"), 1, resource_keys=STORE)
    await acquire(driver, "cli:1")
    driver.pass_time(MINUTE)
    step = await driver.claim_one()
    assert (await driver.locks())["db"].holder_id == step.lease


async def test_steps_of_one_key_are_claimed_together_under_one_lock(driver: Driver) -> None:
    flow = linear("store")
    for _ in range(3):
        await driver.start(flow, 4, resource_keys=STORE)
    batch = await driver.claim(10)
    assert len(batch) == 10
    assert len({step.lease for step in batch}) == 1
    assert await driver.claim() == [], "the key is held while they run"


async def test_a_pool_may_take_more_steps_of_one_key_than_it_has_room_for(driver: Driver) -> None:
    """They are executed together: what a lock costs is paid once for all of them."""
    await driver.start(linear("store"), 9, resource_keys=STORE)
    claim = await ops.claim_steps("me", ops.Pool(keyed_limit=6), 1, now=driver.now())
    assert len(claim.steps) == 6


async def test_the_lock_goes_with_the_last_step_of_its_lease(driver: Driver) -> None:
    await driver.start(linear("store", retries=2), 4, resource_keys=STORE)
    done, tried, back, last = await driver.claim()
    for result in (completed(done), errored(tried), released(back)):
        finished = await driver.finish(result)
        assert finished.freed_keys == set()
        assert set(await driver.locks()) == {"db"}
    finished = await driver.finish(completed(last))
    assert finished.freed_keys == {"db"}
    assert await driver.locks() == {}
    assert len(await driver.claim()) == 2


@pytest.mark.parametrize("kind", ["completed", "errored", "failed", "released"])
async def test_every_way_to_end_a_step_frees_its_key(driver: Driver, kind: str) -> None:
    await driver.start(linear("store", retries=2), 1, resource_keys=STORE)
    step = await driver.claim_one()
    if kind == "completed":
        await ops.complete_step(step.id, step.lease, now=driver.now())
    elif kind == "released":
        await ops.release_step(step.id, step.lease, now=driver.now())
    else:
        await ops.error_step(step.id, step.lease, "no", permanent=kind == "failed", now=driver.now())
    assert await driver.locks() == {}


async def test_a_map_step_that_waits_for_its_tasks_holds_no_key(driver: Driver) -> None:
    await driver.start(workflow({"m": {"map": True}}), 1, resource_keys={"m": "db"})
    step = await driver.claim_one()
    await driver.finish(expanded(step, range(3)))
    assert await driver.locks() == {}
    tasks = await driver.claim()
    assert [task.resource_key for task in tasks] == ["db"] * 3
    assert set(await driver.locks()) == {"db"}
    await driver.complete(*tasks)
    assert await driver.locks() == {}


async def test_keys_are_served_in_turn(driver: Driver) -> None:
    flow = linear("store")
    for key in ("b", "a", "c"):
        await driver.start(flow, 3, resource_keys={"store": key})
    served: list[str | None] = []
    for _ in range(9):
        step = await driver.claim_one()
        served.append(step.resource_key)
        await driver.complete(step)
    assert served == ["a", "b", "c"] * 3


async def test_types_that_need_resources_are_served_in_turn(driver: Driver) -> None:
    flow = workflow({"index": {"depends_on": []}, "store": {"depends_on": []}})
    await driver.start(flow, 6, resource_keys={"index": "one", "store": "two"})
    served = list[str]()
    for _ in range(6):
        step = await driver.claim_one()
        served.append(step.name)
        await driver.complete(step)
    assert Counter(served) == {"index": 3, "store": 3}


async def test_steps_with_and_without_a_resource_are_served_in_turn(driver: Driver) -> None:
    flow = workflow({"plain": {"depends_on": []}, "store": {"depends_on": []}})
    await driver.start(flow, 6, resource_keys=STORE)
    served = list[str]()
    for _ in range(6):
        step = await driver.claim_one()
        served.append(step.name)
        await driver.complete(step)
    assert Counter(served) == {"plain": 3, "store": 3}


async def test_steps_of_a_key_are_claimed_by_priority_then_in_their_order(driver: Driver) -> None:
    flow = linear("store")
    usual = await driver.start(flow, 2, resource_keys=STORE)
    urgent = await driver.start(flow, 1, resource_keys=STORE, priority=3)
    order: list[int] = []
    for _ in range(3):
        step = await driver.claim_one()
        order.append(step.run_id)
        await driver.complete(step)
    assert order == urgent.run_ids + usual.run_ids


async def test_a_key_whose_only_steps_are_of_other_types_is_not_locked(driver: Driver) -> None:
    flow = workflow({"index": {"depends_on": []}, "store": {"depends_on": []}})
    await driver.start(flow, 1, resource_keys={"index": "db", "store": "db"})
    (step,) = await driver.claim(types=["store"])
    assert step.name == "store"
    assert await driver.claim(types=["index"]) == [], "one holder per key, whatever the type"
    await driver.complete(step)
    assert [each.name for each in await driver.claim(types=["index"])] == ["index"]


async def test_claimers_at_once_get_a_key_each(database: type[Database]) -> None:
    driver = Driver()
    flow = linear("store")
    for key in "abcd":
        await driver.start(flow, 5, resource_keys={"store": key})
    leases: dict[str, set[str]] = {}

    async def work(name: str) -> None:
        pool, misses = ops.Pool(), 0
        while misses < 3:
            claim = await ops.claim_steps(name, pool, 2)
            misses = 0 if claim.steps or claim.lost_race else misses + 1
            for step in claim.steps:
                leases.setdefault(step.resource_key or "", set()).add(step.lease)

    await asyncio.gather(*(work(f"worker-{number}") for number in range(4)))
    assert {key: len(held) for key, held in leases.items()} == dict.fromkeys("abcd", 1)
    await assert_consistent()


async def test_a_worker_refreshes_the_locks_of_all_its_leases(driver: Driver) -> None:
    flow = linear("store")
    for key in "ab":
        await driver.start(flow, 1, resource_keys={"store": key})
    leases = [(await driver.claim_one()).lease for _ in range(2)]
    await acquire(driver, "cli:1", key="c")
    assert await refresh_locks_of_leases(leases, ttl=MINUTE * 30, now=driver.now()) == set(leases)
    locks = await driver.locks()
    assert locks["a"].expires_at == locks["b"].expires_at == driver.moment + MINUTE * 30
    assert locks["c"].expires_at < driver.moment + MINUTE
    assert await refresh_locks_of_leases([], ttl=MINUTE) == set()


async def test_a_lock_that_was_taken_over_is_not_given_back_by_the_one_who_lost_it(driver: Driver) -> None:
    await driver.start(linear("store"), 1, resource_keys=STORE)
    step = await driver.claim_one()
    await ops.force_release_resource_lock("db", requested_by="a test")
    await acquire(driver, "cli:1")
    await driver.complete(step)
    assert (await driver.locks())["db"].holder_id == "cli:1"


async def test_a_pool_serves_every_key_while_others_are_held(driver: Driver) -> None:
    flow = linear("store")
    for number in range(30):
        await driver.start(flow, 1, resource_keys={"store": f"key-{number:02}"})
    for number in range(0, 30, 2):
        await acquire(driver, "cli:1", key=f"key-{number:02}")
    claimed = {(await driver.claim_one()).resource_key for _ in range(15)}
    assert claimed == {f"key-{number:02}" for number in range(1, 30, 2)}
    assert await driver.claim() == []


async def test_each_holder_of_a_lock_gets_a_larger_token(driver: Driver) -> None:
    tokens: list[int] = []
    for holder in ("a", "b", "a"):
        assert await acquire(driver, holder)
        tokens += [await ops.take_fence("db", holder), await ops.take_fence("db", holder)]
        await ops.release_resource_lock("db", holder)
    assert tokens == sorted(set(tokens))
    assert await acquire(driver, "c")
    assert await ops.take_fence("db", "c", above=5_000_000_000) == 5_000_000_001
    assert await ops.take_fence("db", "c", above=7) == 5_000_000_002


async def test_who_has_lost_a_lock_gets_no_token(driver: Driver) -> None:
    with pytest.raises(LockLostError, match="the lock of db has gone to another writer"):
        await ops.take_fence("db", "nobody")
    assert await acquire(driver, "a")
    await ops.force_release_resource_lock("db", requested_by="test")
    assert await acquire(driver, "b")
    first = await ops.take_fence("db", "b")
    with pytest.raises(LockLostError):
        await ops.take_fence("db", "a", above=first)
    assert await ops.take_fence("db", "b") == first + 1


async def ask(driver: Driver, holder: str) -> bool:
    return await ops.acquire_resource_lock("db", holder, ResourceLockKind.CLI, waits=True, now=driver.now())


async def test_a_worker_that_stores_without_pause_lets_those_in_who_wait(driver: Driver) -> None:
    await driver.start(linear("store"), 3, resource_keys=STORE)
    step = await driver.claim_one()
    assert not await ask(driver, "cli:vacuum")
    await driver.complete(step)
    assert await driver.claim() == [], "the next turn is that of the one who waits"
    assert await ask(driver, "cli:vacuum")
    assert not await ask(driver, "cli:late"), "the worker stands before it"
    await ops.release_resource_lock("db", "cli:vacuum")
    assert not await ask(driver, "cli:late")
    assert len(await driver.claim(1)) == 1


async def test_those_who_wait_are_served_in_the_order_they_came(driver: Driver) -> None:
    await acquire(driver, "cli:1")
    assert [await ask(driver, f"cli:{number}") for number in (2, 3, 4)] == [False] * 3
    await ops.release_resource_lock("db", "cli:1")
    assert not await acquire(driver, "cli:5"), "one who does not wait does not push in front, either"
    for number in (2, 3, 4):
        others = [each for each in (2, 3, 4) if each > number]
        assert [await ask(driver, f"cli:{each}") for each in reversed(others)] == [False] * len(others)
        assert await ask(driver, f"cli:{number}")
        await ops.release_resource_lock("db", f"cli:{number}")
    assert await acquire(driver, "cli:5")


async def test_one_who_gives_up_or_dies_holds_up_nobody(driver: Driver) -> None:
    await acquire(driver, "cli:1")
    assert [await ask(driver, f"cli:{number}") for number in (2, 3, 4)] == [False] * 3
    await ops.release_resource_lock("db", "cli:1")
    await ops.stop_waiting("db", "cli:2")
    assert not await ask(driver, "cli:4")
    driver.pass_time(KEEPS_PLACE)
    assert await ask(driver, "cli:4"), "cli:3 has not asked again"


async def test_a_place_in_the_queue_of_one_resource_is_none_in_that_of_another(driver: Driver) -> None:
    await acquire(driver, "cli:1")
    await ask(driver, "cli:2")
    assert await acquire(driver, "cli:3", key="other")
    await driver.start(linear("store"), 1, resource_keys={"store": "third"})
    assert len(await driver.claim()) == 1


async def test_a_hard_retry_leaves_a_worker_that_lives_the_lock_it_may_write_under(driver: Driver) -> None:
    await ops.check_in("alive", now=driver.now())
    created = await driver.start(linear("store"), 1, resource_keys=STORE)
    step = await driver.claim_one(worker_id="alive")
    await ops.retry_run(created.run_ids[0], hard=True, now=driver.now())
    assert await driver.claim(worker_id="other") == [], "the lock is still held"
    assert (await driver.complete(step)).lost == {step.id}, "the worker has stopped, and says so"
    assert len(await driver.claim(worker_id="other")) == 1


async def test_the_lock_that_a_hard_retry_left_to_a_worker_goes_when_that_worker_dies(driver: Driver) -> None:
    await ops.check_in("mortal", now=driver.now())
    created = await driver.start(linear("store"), 1, resource_keys=STORE)
    await driver.claim_one(worker_id="mortal")
    await ops.retry_run(created.run_ids[0], hard=True, now=driver.now())
    await ops.reap_workers("other", ["mortal"], now=driver.now())
    assert len(await driver.claim(worker_id="other")) == 1
