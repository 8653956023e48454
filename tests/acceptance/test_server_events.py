"""`/api/v1/events`: who follows along is told of what changes, and on coming back of what it missed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest

from soliplex.ingester.lib.models import Database, DocumentBatch
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.feed import ChangeFeed, Follower, News, changes_since, moment_of, run_change, state_now
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.server.routes.events import _stream, as_event
from tests.support.engine import Driver, linear, registry_in_use


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    with registry_in_use() as registry:
        yield registry


@pytest.fixture
def driver(database: type[Database]) -> Driver:
    return Driver(moment=utcnow() - timedelta(seconds=2))


@dataclass
class Watcher:
    """Looks for news as the feed does, one look at a time."""

    driver: Driver
    news: News = field(default_factory=News)

    async def look(self) -> list[tuple[str, int, str]]:
        return [_brief(change) for change in await self.news.look(self.driver.now())]


def _brief(change: Any) -> tuple[str, int, str]:
    return change.kind, change.key[1], change.data["status"]


@pytest.fixture
async def watcher(driver: Driver) -> Watcher:
    watcher = Watcher(driver)
    assert await watcher.look() == []
    return watcher


async def test_every_change_is_told_once_and_steps_before_their_run(driver: Driver, watcher: Watcher) -> None:
    created = await driver.start(linear("a", "b"), 1)
    (run_id,) = created.run_ids
    assert await watcher.look() == [("group", created.group_id, "PENDING")]
    first = await driver.claim_one()
    assert await watcher.look() == [
        ("step", first.id, "RUNNING"),
        ("run", run_id, "RUNNING"),
        ("group", created.group_id, "RUNNING"),
    ]
    await driver.complete(first)
    assert await watcher.look() == [("step", first.id, "COMPLETED")]
    second = await driver.claim_one()
    await driver.fail(second)
    assert await watcher.look() == [
        ("step", second.id, "FAILED"),
        ("run", run_id, "FAILED"),
        ("group", created.group_id, "FAILED"),
    ]
    assert await watcher.look() == []


async def test_what_comes_and_goes_between_two_looks_is_told(driver: Driver, watcher: Watcher) -> None:
    created = await driver.start(linear("a", "b"), 2)
    await driver.drain()
    found = await watcher.look()
    assert sorted(brief for brief in found if brief[0] == "run") == [
        ("run", id_, "COMPLETED") for id_ in created.run_ids
    ]
    assert len([brief for brief in found if brief[0] == "step"]) == 4
    assert found[-1] == ("group", created.group_id, "COMPLETED")
    assert await watcher.look() == []


async def test_the_progress_of_a_group_is_told_without_an_id(driver: Driver, watcher: Watcher) -> None:
    created = await driver.start(linear("a"), 3)
    (first, *_) = await driver.claim(3)
    await watcher.look()
    await driver.complete(first)
    progress = [change for change in await watcher.news.look(driver.now()) if change.kind == "group"]
    (change,) = progress
    assert (change.id, change.data["remaining_runs"], change.data["run_group_id"]) == (None, 2, created.group_id)


async def test_who_comes_back_is_told_what_it_missed(driver: Driver) -> None:
    flow = linear("a")
    old = await driver.start(flow, 1)
    await driver.drain()
    run = await driver.run(old.run_ids[0])
    seen = run_change(run).id
    assert seen is not None
    moment = moment_of(seen)
    assert moment is not None
    assert moment == run.status_date
    driver.pass_time(timedelta(seconds=30))
    young = await driver.start(flow, 2)
    await driver.drain()
    missed = [
        _brief(each) async for each in changes_since(Follower(), moment + timedelta(seconds=20), now=driver.now())
    ]
    assert [brief for brief in missed if brief[0] == "run"] == [
        ("run", run_id, "COMPLETED") for run_id in young.run_ids
    ]
    assert missed[-1] == ("group", young.group_id, "COMPLETED")
    of_old = Follower(run_group_id=old.group_id)
    again = [_brief(each) async for each in changes_since(of_old, moment, now=driver.now())]
    assert {brief[1] for brief in again if brief[0] != "step"} == {old.run_ids[0], old.group_id}


async def test_a_follower_is_told_of_its_batch_or_group_only(driver: Driver) -> None:
    batch = DocumentBatch(name="b", source="shelf")
    async with Database.session() as session:
        session.add(batch)
    flow = linear("a")
    of_batch = await ops.create_run_group(flow, None, [ops.NewRun(doc_id="x")], batch_id=batch.id, now=driver.now())
    other = await driver.start(flow, 1)
    assert [each.run_group_id for each in await state_now(Follower(batch_id=batch.id))] == [of_batch.group_id]
    assert [each.run_group_id for each in await state_now(Follower(run_group_id=other.group_id))] == [other.group_id]
    assert {each.run_group_id for each in await state_now(Follower())} == {of_batch.group_id, other.group_id}


async def test_who_begins_to_follow_is_told_of_steps_in_flight(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    step = await driver.claim_one()
    assert [_brief(each) for each in await state_now(Follower(run_group_id=created.group_id))] == [
        ("step", step.id, "RUNNING"),
        ("group", created.group_id, "RUNNING"),
    ]


async def test_a_follower_that_does_not_keep_up_is_sent_away(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    change = run_change(await driver.run(created.run_ids[0]))
    slow = Follower(most=2)
    feed = ChangeFeed()
    async with feed.following(slow):
        await feed.spread([change] * 2)
        await feed.spread([change])
        assert slow not in feed._followers
        assert [await slow.next(), await slow.next()] == [(change, change), None]
    await feed.close()


async def test_many_changes_for_many_followers_leave_others_their_turn(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    change = run_change(await driver.run(created.run_ids[0]))
    feed, sent, begun = ChangeFeed(), 0, asyncio.Semaphore(0)

    async def follow() -> None:
        nonlocal sent
        async for text in _stream(feed, Follower(), None):
            begun.release()
            sent += text.count("\nevent: run")

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(follow())
        for _ in range(100):
            await begun.acquire()  # each is told when to come back, and how things stand
        spread, turns, longest = group.create_task(feed.spread([change] * 6_000)), 0, 0.0
        while not spread.done() or sent < 50 * 6_000:
            began = time.process_time()
            await asyncio.sleep(0)
            turns, longest = turns + 1, max(longest, time.process_time() - began)
        await feed.close()
    assert turns > 20
    assert longest < 0.2


@pytest.mark.parametrize("text", ["x", "", "-r1", "12", "99999999999999999-r1", "٣-r1", "1.5-r1"])
async def test_an_id_of_another_stream_is_refused(client: httpx.AsyncClient, text: str) -> None:
    assert moment_of(text) is None
    answer = await client.get("/api/v1/events", params={"last_event_id": text})
    assert answer.status_code == 400
    assert "Last-Event-ID" in answer.json()["error"]


async def test_a_group_that_does_not_exist_cannot_be_followed(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/v1/events", params={"run_group_id": 4711})).status_code == 404
    assert (await client.get("/api/v1/events", params={"batch_id": "x"})).status_code == 422


async def test_an_event_is_written_as_the_protocol_wants_it(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1)
    await driver.fail(await driver.claim_one(), message="two\nlines")
    change = run_change(await driver.run(created.run_ids[0]))
    number, kind, data, *rest = as_event(change).split("\n")
    assert (number, kind, rest) == (f"id: {change.id}", "event: run", ["", ""])
    assert json.loads(data.removeprefix("data: "))["status"] == "FAILED"
