"""Workers are killed while they deliver webhooks: all arrive, in the order of their stream, each under its id."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.webhooks import Enqueued, NewMessage, send_webhook
from tests.support.engine import rows_of, scalar
from tests.support.faults import Fleet
from tests.support.receiver import BREAKS_OFF, HANGS, Answer, Receiver, receiver
from tests.support.serving import serving

ENVIRONMENT = {
    "ALLOW_PRIVATE_ADDRESSES": "true",
    "WEBHOOK_FIRST_DELAY_SECONDS": "0.05",
    "WEBHOOK_LONGEST_DELAY_SECONDS": "0.2",
    "WEBHOOK_SIGNING_SECRET": "bmV3LWtleS1uZXcta2V5LW5ldy1rZXk=",
}
POOLS = {"webhook": 2}


@pytest.fixture
async def hooks(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    get_settings.cache_clear()
    async with receiver() as hooks:
        yield hooks


async def send(hooks: Receiver, count: int = 3) -> list[Enqueued]:
    messages = [NewMessage(stream="job-1", url=hooks.url, event_type="t", body=number) for number in range(count)]
    return [await send_webhook(message, get_settings()) for message in messages]


def first_arrivals(hooks: Receiver) -> list[str]:
    """The ids in the order in which they were first taken, as a receiver sees it that drops what it has had."""
    return list(dict.fromkeys(delivery.id for delivery in hooks.taken))


async def assert_all_arrived(fleet: Fleet, hooks: Receiver, sent: list[Enqueued]) -> None:
    await fleet.everything_ends()
    assert first_arrivals(hooks) == [each.webhook_id for each in sent]
    order = [delivery.content for delivery in hooks.deliveries]
    assert order == sorted(order), "no message went out before the one before it was taken"
    assert await rows_of("SELECT id FROM webhookmessage WHERE status <> 'DELIVERED'") == []
    assert await scalar("SELECT count(*) FROM workflowrun WHERE status <> 'COMPLETED'") == 0


@pytest.mark.parametrize("point", ["before_handler", "inside_settling", "after_handler", "inside_parking"])
async def test_webhooks_arrive_in_order_wherever_their_worker_is_killed(
    fleet: Fleet, hooks: Receiver, point: str
) -> None:
    sent = await send(hooks)
    if point == "inside_parking":
        hooks.answers += [Answer(500)]
    victim = await fleet.launch("victim", consumers=POOLS, fault_at=point)
    await victim.ends(-signal.SIGKILL)
    assert victim.has_said(f"reached {point}")
    if point == "inside_settling":
        assert [delivery.id for delivery in hooks.taken] == [sent[0].webhook_id], "taken, and not recorded"
    async with fleet.helper(consumers=POOLS):
        await assert_all_arrived(fleet, hooks, sent)
    repeated = len(hooks.taken) - len(sent)
    assert repeated == (1 if point == "inside_settling" else 0)


async def test_a_worker_may_be_killed_between_any_two_tries(fleet: Fleet, hooks: Receiver) -> None:
    hooks.answers += [Answer(500), BREAKS_OFF, HANGS]
    sent = await send(hooks)
    for number in range(1, 4):
        victim = await fleet.launch(f"victim {number}", consumers=POOLS)
        await hooks.has(deliveries=number)
        await victim.kill()
    async with fleet.helper(consumers=POOLS):
        await assert_all_arrived(fleet, hooks, sent)
    assert {delivery.id for delivery in hooks.deliveries[:3]} == {sent[0].webhook_id}


async def test_what_waits_for_its_next_try_survives_its_worker(
    fleet: Fleet, hooks: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBHOOK_LONGEST_DELAY_SECONDS", "600")
    hooks.answers += [Answer(503, headers=(("Retry-After", "600"),))]
    sent = await send(hooks)
    victim = await fleet.start("victim", consumers=POOLS)
    await fleet.eventually(_is_parked, "the step is parked")
    await victim.kill()
    late = await send(hooks, 4)  # joins the run that waits
    assert {each.run_id for each in late} == {sent[0].run_id}
    await rows_of("UPDATE runstep SET available_at = created_date RETURNING id")  # the pause is over
    async with fleet.helper(consumers=POOLS):
        await fleet.everything_ends()
    assert first_arrivals(hooks) == [each.webhook_id for each in [*sent, *late]]


async def _is_parked() -> bool:
    return bool(await scalar("SELECT count(*) FROM runstep WHERE available_at IS NOT NULL"))


@asynccontextmanager
async def a_server(folder: Path, url: str) -> AsyncGenerator[None]:
    """A server with its worker, which is killed at the end of the block."""
    manager = serving(folder, environment={**ENVIRONMENT, "DOC_DB_URL": url}, afresh=True)
    await asyncio.to_thread(manager.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_a_server_may_be_killed_between_tries(
    database: None, database_url: str, hooks: Receiver, tmp_path: Path
) -> None:
    hooks.answers += [Answer(500), HANGS]
    sent = await send(hooks)
    async with a_server(tmp_path / "first", database_url):
        await hooks.has(deliveries=2)
    async with a_server(tmp_path / "last", database_url):
        await hooks.has(taken=len(sent))
    assert first_arrivals(hooks) == [each.webhook_id for each in sent]
    assert {delivery.id for delivery in hooks.deliveries[:2]} == {sent[0].webhook_id}
