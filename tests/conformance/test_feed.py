"""The feed of changes: who follows is told of everything it asked for, and on coming back of everything it missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import anyio
import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import feed, operations
from soliplex.ingester.lib.wf.feed import OLDEST, Change, ChangeFeed, Follower, News, changes_since, state_now
from tests.support.engine import Driver, errored, execute, expanded, linear, parked, workflow

type Brief = tuple[str, int, str]


def brief(change: Change) -> Brief:
    return change.kind, change.key[1], change.data["status"]


def steps_among(found: Iterable[Change]) -> list[tuple[int, str]]:
    return [(change.key[1], change.data["status"]) for change in found if change.kind == "step"]


async def news_of(driver: Driver) -> News:
    """News, as of now."""
    news = News()
    assert await news.look(driver.now()) == []
    return news


async def missed(driver: Driver, since: Change, **asked: Any) -> list[Change]:
    assert since.at is not None
    return [change async for change in changes_since(Follower(**asked), since.at, now=driver.now())]


async def test_a_task_is_told_with_its_map_step_its_item_and_its_attempts(driver: Driver) -> None:
    news = await news_of(driver)
    created = await driver.start(workflow({"m": {"map": True, "retries": 3}}, workflow_id="wide"))
    parent = await driver.claim_one()
    await driver.finish(expanded(parent, ["x", "y"]))
    first, second = await driver.claim(2)
    await driver.finish(errored(first))
    again = await driver.claim_one()
    told = {change.key[1]: change.data for change in await news.look(driver.now()) if change.kind == "step"}
    facts = ("parent_step_id", "item_index", "attempts", "retry", "retries", "workflow_definition_id")
    assert [told[again.id][name] for name in facts] == [parent.id, 0, 2, 1, 3, "wide"]
    assert [told[second.id][name] for name in facts] == [parent.id, 1, 1, 0, 3, "wide"]
    assert told[parent.id]["parent_step_id"] is None
    assert {data["run_group_id"] for data in told.values()} == {created.group_id}


async def test_a_step_that_waits_says_for_what(driver: Driver) -> None:
    await driver.start(linear("a"))
    news = await news_of(driver)
    step = await driver.claim_one()
    await news.look(driver.now())
    await driver.finish(parked(step, awaits="approval"))
    (change,) = await news.look(driver.now())
    assert (brief(change), change.data["awaits"]) == (("step", step.id, "PENDING"), "approval")


async def test_a_step_that_failed_once_and_ended_unseen_is_told_at_the_end_of_its_run(driver: Driver) -> None:
    await driver.start(linear("a", "b", retries=3))
    news = await news_of(driver)
    step = await driver.claim_one()
    await news.look(driver.now())
    await driver.finish(errored(step))
    assert steps_among(await news.look(driver.now())) == [(step.id, "ERROR")]
    await driver.complete(await driver.claim_one())
    await driver.complete(await driver.claim_one())
    assert (step.id, "COMPLETED") in steps_among(await news.look(driver.now()))


async def test_another_attempt_that_begins_between_two_looks_is_told(driver: Driver) -> None:
    await driver.start(linear("a", retries=3))
    news = await news_of(driver)
    step = await driver.claim_one()
    await news.look(driver.now())
    await driver.finish(errored(step))
    await driver.claim_one()
    (change,) = await news.look(driver.now())
    assert (change.data["status"], change.data["attempts"]) == ("RUNNING", 2)


async def test_what_a_handler_reports_while_it_runs_is_told(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    news = await news_of(driver)
    for fraction in (0.5, 0.9):
        said = json.dumps({"fraction": fraction, "text": "on it", "at": driver.now().isoformat()})
        value = "CAST(:said AS jsonb)" if Database.is_postgres() else ":said"
        await execute(f"UPDATE runstep SET progress = {value}", said=said)
        (change,) = await news.look(driver.now())
        assert (brief(change), change.data["progress"]["fraction"]) == (("step", step.id, "RUNNING"), fraction)
        assert await news.look(driver.now()) == []


async def test_a_follower_is_told_what_it_asked_for(driver: Driver) -> None:
    news = await news_of(driver)
    one = await driver.start(workflow({"a": {}, "b": {}}, workflow_id="one"), 2)
    other = await driver.start(workflow({"b": {}}, workflow_id="other"))
    await driver.drain()
    found = await news.look(driver.now())

    def told(**asked: Any) -> list[Change]:
        return [change for change in found if Follower(**asked).wants(change)]

    run_id = one.run_ids[0]
    assert {(change.kind, change.run_id) for change in told(run_id=run_id)} == {("run", run_id), ("step", run_id)}
    assert {change.run_group_id for change in told(workflow_id="other")} == {other.group_id}
    assert {change.kind for change in told(workflow_id="other")} == {"step", "run", "group"}
    of_type = told(step_types=frozenset({"b"}))
    assert {change.step_type for change in of_type if change.kind == "step"} == {"b"}
    assert len([change for change in of_type if change.kind == "run"]) == 3
    both = told(run_group_id=one.group_id, step_types=frozenset({"a"}))
    assert {(change.run_group_id, change.step_type) for change in both} == {(one.group_id, "a"), (one.group_id, None)}
    assert {change.kind for change in told(kinds=frozenset({"group"}))} == {"group"}
    assert [brief(each) for each in await state_now(Follower(run_group_id=other.group_id, workflow_id="one"))] == []


async def test_looks_at_groups_that_are_named_see_no_others_until_somebody_follows_all(driver: Driver) -> None:
    flow = linear("a", "b")
    named, other = await driver.start(flow), await driver.start(flow)
    news = News()
    only = frozenset({named.group_id})
    await news.look(driver.now(), groups=only)
    await driver.complete(*await driver.claim(2))
    await driver.claim(2)
    assert {change.run_group_id for change in await news.look(driver.now(), groups=only)} == {named.group_id}
    found = await news.look(driver.now())
    assert {change.run_group_id for change in found if change.kind == "run"} == {other.group_id}


async def test_who_comes_back_is_told_of_steps_that_ended_in_a_run_that_goes_on(driver: Driver) -> None:
    created = await driver.start(linear("a", "b", "c"))
    first = await driver.claim_one()
    (seen,) = [each for each in await _look_at_all(driver) if each.kind == "run"]
    driver.pass_time(timedelta(minutes=1))
    await driver.complete(first)
    second = await driver.claim_one()
    await driver.finish(parked(second, awaits="k"))

    found = await missed(driver, seen)
    assert steps_among(found) == [(first.id, "COMPLETED"), (second.id, "PENDING")]
    assert [each.kind for each in found if each.run_id == created.run_ids[0]] == ["step", "step", "run"]

    assert steps_among(await missed(driver, seen, run_group_id=created.group_id, run_id=created.run_ids[0])) == [
        (first.id, "COMPLETED"),
        (second.id, "PENDING"),
    ]
    later = await driver.start(linear("z"))
    assert await missed(driver, seen, run_group_id=later.group_id, run_id=later.run_ids[0]) == []


@pytest.mark.parametrize("left_after", range(6))
async def test_nothing_is_lost_wherever_a_follower_leaves_and_comes_back(driver: Driver, left_after: int) -> None:
    """The last thing that is told of each group, run and step is the state that it has come to."""
    news = await news_of(driver)
    told: list[Change] = []
    await driver.start(linear("a", "b", retries=2), 2)
    for number in range(6):
        steps = await driver.claim(1)
        if number == 2:
            await driver.finish(*(errored(step) for step in steps))
        else:
            await driver.complete(*steps)
        found = await news.look(driver.now())
        if number < left_after:
            told += found
        driver.pass_time(timedelta(seconds=20))
    since = next((each for each in reversed(told) if each.at is not None), None)
    if since is not None:
        told += await missed(driver, since)
        assert {brief(each)[:2]: brief(each) for each in told if each.kind == "step"}.keys() >= {
            ("step", step.id) for step in await driver.steps_of(1, 2) if step.start_date is not None
        }
        for kind, thing, status in {brief(each)[:2]: brief(each) for each in told}.values():
            row = await {"step": driver.step, "run": driver.run, "group": driver.group}[kind](thing)
            assert (kind, thing, status) == (kind, thing, str(row.status))


async def test_who_was_away_for_too_long_is_told_of_the_gap(driver: Driver) -> None:
    await driver.start(linear("a"))
    await driver.drain()
    (seen, *_) = [each for each in await _look_at_all(driver) if each.at is not None]
    driver.pass_time(OLDEST + timedelta(days=1))
    (gap, *rest) = await missed(driver, seen)
    assert seen.at is not None
    assert (gap.kind, gap.id, gap.data["since"]) == ("gap", None, seen.at.isoformat())
    assert rest == []


async def test_a_stream_begins_with_how_things_stand_and_goes_on_with_what_changes(driver: Driver) -> None:
    created = await driver.start(linear("a"))
    step = await driver.claim_one()
    feed = ChangeFeed(clock=driver.now)
    async with aclosing(feed.changes_for(Follower(run_group_id=created.group_id))) as stream:
        assert [brief(each) for each in await anext(stream)] == [
            ("step", step.id, "RUNNING"),
            ("group", created.group_id, "RUNNING"),
        ]
        await driver.complete(step)
        ended = list(await anext(stream))
        while len(ended) < 3:
            ended += await anext(stream)
        assert [each.data["status"] for each in ended] == ["COMPLETED"] * 3
    await feed.close()


async def test_a_pulse_tells_who_asks_for_it_that_something_changed_once_for_each_look(driver: Driver) -> None:
    of_one = await driver.start(linear("a", "b"), 3)
    feed = ChangeFeed(clock=driver.now)
    asked = frozenset({"pulse"})
    one, none = Follower(kinds=asked, run_group_id=of_one.group_id), Follower(kinds=asked, run_group_id=2**40)
    async with aclosing(feed.changes_for(one)) as stream:
        assert [(each.kind, each.data) for each in await anext(stream)] == [("pulse", {"changes": 0})]
    news = await news_of(driver)
    await driver.drain()
    found = await news.look(driver.now())
    feed._followers |= {one, none}
    await feed.spread(found)
    assert len(found) > 3
    assert [(each.kind, each.data) for each in await one.next() or ()] == [("pulse", {"changes": len(found)})]
    assert (one._waiting, none._waiting) == (0, 0)
    assert "pulse" not in {each.kind for each in found}
    await feed.close()


async def test_who_names_a_group_is_told_once_that_it_was_deleted(driver: Driver) -> None:
    group_id = (await driver.start(linear("a"), 2)).group_id
    await driver.drain()
    named, news = frozenset({group_id}), News()
    await news.look(driver.now(), groups=named, named=named)
    await operations.delete_run_group(group_id)
    (gone,) = await news.look(driver.now(), groups=named, named=named)
    assert (gone.kind, gone.id, gone.data) == ("gone", None, {"run_group_id": group_id})
    assert await news.look(driver.now(), named=named) == []

    of_run = Follower(run_group_id=group_id, run_id=1, kinds=frozenset({"pulse"}))
    others = (Follower(), Follower(run_group_id=group_id + 1))
    assert [each.wants(gone) for each in (of_run, *others)] == [True, False, False]
    assert of_run.tell([gone])
    assert of_run.tell_the_pulse()
    assert await of_run.next() == [gone]
    assert of_run._waiting == 0  # and no pulse: there is nothing to look at anew
    assert [each.kind for each in await state_now(of_run)] == ["gone"]


async def test_a_client_that_leaves_while_its_stream_begins_breaks_no_connection(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    await driver.start(linear("a"))
    feed = ChangeFeed(clock=driver.now)

    async def follow() -> None:
        async with aclosing(feed.changes_for(Follower(), resumed="1-g1")) as stream:
            async for _ in stream:
                pass

    async with feed.following(Follower()):
        for turns in range(40):  # a server cancels an answer again and again until it has ended, as this does
            async with anyio.create_task_group() as answering:
                answering.start_soon(follow)
                for _ in range(turns):
                    await asyncio.sleep(0)
                answering.cancel_scope.cancel()
    await feed.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_streams_end_when_looking_fails(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> list[Change]:
        raise RuntimeError("a bug")

    monkeypatch.setattr(News, "look", broken)
    feed = ChangeFeed(clock=driver.now)
    async with asyncio.timeout(120):
        assert [each async for each in feed.changes_for(Follower())] == []
    await feed.close()


async def _look_at_all(driver: Driver) -> list[Change]:
    """What a look finds that compares with nothing."""
    news = News()
    news._since = driver.now() - timedelta(seconds=1)
    return await news.look(driver.now())


def test_looks_in_vain_become_fewer_where_they_cost_much_and_nobody_waits_long_for_the_first_change() -> None:
    assert feed.pause_after(0.001, in_vain=True) == feed.pause_after(0.001, in_vain=False) == feed.PAUSE
    assert feed.pause_after(0.04, in_vain=True) / 0.04 == pytest.approx(feed.SHARE_IN_VAIN)
    assert feed.pause_after(0.04, in_vain=False) / 0.04 == pytest.approx(feed.SHARE)
    assert feed.pause_after(0.15, in_vain=True) == feed.LONGEST_IN_VAIN
    assert feed.pause_after(1.0, in_vain=True) == feed.pause_after(1.0, in_vain=False) == feed.SHARE
