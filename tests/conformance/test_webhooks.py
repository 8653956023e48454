"""Enqueueing, looking at and redelivering webhooks, on each database, without a receiver."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.errors import ConfigurationError, ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database, WebhookStatus
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks import (
    Enqueued,
    NewMessage,
    check_target,
    enqueue,
    forget_stream,
    get_webhook,
    list_webhooks,
    prepare_sending,
    redeliver,
    redeliver_dead,
    send_webhook,
)
from soliplex.ingester.lib.webhooks.settling import Settled, rest_of, settle
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.views import get_run
from tests.support.engine import START, Driver, assert_consistent, errored, rows_of, scalar

FACTS: Final[dict[str, Any]] = {"stream": "job-1", "url": "https://example.org/hooks", "event_type": "t", "body": {}}
GONE: Final = {"at": "2030-01-01T00:00:00+00:00", "seconds": 0.1, "status": 410}


@pytest.fixture
def settings() -> Settings:
    return load_settings(webhook_secrets='{"partner": "c2VjcmV0"}')


async def send(settings: Settings, **facts: Any) -> Enqueued:
    return await send_webhook(NewMessage(**FACTS | facts), settings, now=START)


async def end_with(driver: Driver, status: WebhookStatus, *, count: int = 1) -> None:
    """Claim the runs that are ready, and settle `count` messages of each with this status, as the handler does."""
    for step in await driver.claim(100):
        for _ in range(count):
            [rest] = await rest_of([step.run_id], expires_at=START + timedelta(days=2))
            assert rest.next is not None
            await settle([Settled(rest.next, status, GONE, driver.now())])
        if status is WebhookStatus.DEAD:
            await driver.finish(errored(step, permanent=True))
        else:
            await driver.complete(step)


async def status_of(run_id: int) -> str:
    return str((await get_run(run_id)).status)


@pytest.mark.parametrize(
    ("field", "facts"),
    [
        ("url", {"url": "ftp://example.org/x"}),
        ("url", {"url": "https://"}),
        ("url", {"url": "https://example.org:99999/"}),
        ("url", {"url": "not an address"}),
        ("url", {"url": "https://example.org/" + "x" * 3000}),
        ("stream", {"stream": ""}),
        ("stream", {"stream": "x" * 501}),
        ("event_type", {"event_type": "  "}),
        ("key", {"key": "\x00"}),
        ("body", {"body": float("nan")}),
        ("body", {"body": object()}),
        ("body", {"body": "\ud800"}),
    ],
)
def test_what_is_wrong_with_a_message_is_said_by_field(field: str, facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        NewMessage(**FACTS | facts)
    assert caught.value.field == field


async def test_a_key_that_is_not_known_is_said_before_anything_is_stored(driver: Driver, settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="WEBHOOK_SECRETS: has no key named 'nobody'"):
        await send(settings, secret="nobody")
    assert await scalar("SELECT count(*) FROM webhookmessage") == await scalar("SELECT count(*) FROM workflowrun") == 0
    assert (await get_webhook((await send(settings, secret="partner")).id)).secret == "partner"


async def _resolve(host: str, port: int) -> list[str]:
    del port
    if host == "unknown.example":
        raise OSError
    return {"inside.example": ["10.1.2.3"], "both.example": ["8.8.8.8", "127.0.0.1"]}.get(host, ["8.8.8.8"])


@pytest.mark.parametrize("host", ["inside.example", "both.example"])
async def test_a_private_target_is_refused_by_field_unless_it_is_allowed(host: str) -> None:
    with pytest.raises(InvalidInputError, match=r"callbackurl: .* WEBHOOK_ALLOWED_TARGETS"):
        await check_target(f"https://{host}/x", load_settings(), field="callbackurl", resolver=_resolve)
    for allowed in ("*.example", "10.0.0.0/8,127.0.0.1"):
        await check_target(f"https://{host}/x", load_settings(webhook_allowed_targets=allowed), resolver=_resolve)


async def test_a_public_target_is_not_refused_nor_one_that_is_not_known_yet() -> None:
    for host in ("public.example", "unknown.example"):
        await check_target(f"https://{host}/x", load_settings(), resolver=_resolve)


async def test_a_message_joins_the_run_of_its_stream_while_that_has_something_to_deliver(
    driver: Driver, settings: Settings
) -> None:
    first, second, other = await send(settings), await send(settings), await send(settings, stream="job-2")
    assert first.run_id == second.run_id != other.run_id
    await end_with(driver, WebhookStatus.DELIVERED, count=1)  # of the first stream, one is left
    third = await send(settings)
    assert third.run_id != first.run_id, "its run has ended, though a message of it is left"
    rows = await rows_of("SELECT sequence FROM webhookmessage WHERE stream = 'job-1' ORDER BY id")
    assert [row[0] for row in rows] == [1, 2, 3]
    left = await list_webhooks(status=WebhookStatus.DEAD)
    assert [each.id for each in left.items] == [second.id]


async def test_a_message_is_enqueued_by_the_transaction_of_another_or_not_at_all(
    driver: Driver, settings: Settings
) -> None:
    sending = await prepare_sending(settings, now=START)

    def script() -> Script[None]:
        yield from enqueue(sending, NewMessage(**FACTS))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await Database.transact(script())
    assert await scalar("SELECT count(*) FROM webhookmessage") == await scalar("SELECT count(*) FROM workflowrun") == 0


async def test_a_dead_letter_is_redelivered_by_retrying_its_run(driver: Driver, settings: Settings) -> None:
    sent = await send(settings)
    await end_with(driver, WebhookStatus.DEAD)
    assert await status_of(sent.run_id) == "FAILED"
    done = await redeliver(sent.id, settings, now=driver.now())
    found = await get_webhook(sent.id)
    assert (done.webhooks, found.status, found.run_id, found.try_count) == (1, "PENDING", sent.run_id, 0)
    assert [each.status for each in found.tries] == [410], "what was tried before stays known"
    await end_with(driver, WebhookStatus.DELIVERED)
    assert await status_of(sent.run_id) == "COMPLETED"


async def test_a_retry_of_the_run_tries_its_dead_letters_again(driver: Driver, settings: Settings) -> None:
    sent = await send(settings)
    await end_with(driver, WebhookStatus.DEAD)
    await ops.retry_run(sent.run_id, now=driver.now())
    await end_with(driver, WebhookStatus.DELIVERED)
    assert (await get_webhook(sent.id)).status == "DELIVERED"


async def test_a_delivered_message_is_redelivered_by_a_new_run_under_its_id(driver: Driver, settings: Settings) -> None:
    sent = await send(settings)
    await end_with(driver, WebhookStatus.DELIVERED)
    await redeliver(sent.id, settings, now=driver.now())
    found = await get_webhook(sent.id)
    assert (found.status, found.webhook_id) == ("PENDING", sent.webhook_id)
    assert found.run_id != sent.run_id


async def test_a_message_that_is_being_tried_is_not_redelivered(driver: Driver, settings: Settings) -> None:
    sent = await send(settings)
    with pytest.raises(ConflictError, match="still being tried"):
        await redeliver(sent.id, settings)
    with pytest.raises(NotFoundError, match="webhook 4711"):
        await redeliver(4711, settings)
    with pytest.raises(NotFoundError, match="webhook 4711"):
        await get_webhook(4711)


async def test_what_a_cancelled_run_has_left_is_a_dead_letter_too(driver: Driver, settings: Settings) -> None:
    sent = await send(settings)
    await ops.cancel_run(sent.run_id, now=driver.now())
    assert (await get_webhook(sent.id)).status == "DEAD"
    assert (await redeliver_dead(settings, now=driver.now())).webhooks == 1
    assert (await get_webhook(sent.id)).status == "PENDING"
    await end_with(driver, WebhookStatus.DELIVERED)


async def test_dead_letters_since_a_time_are_redelivered_and_no_others(driver: Driver, settings: Settings) -> None:
    old = await send(settings)
    await end_with(driver, WebhookStatus.DEAD)
    since = driver.now()
    new = [await send(settings, stream=f"job-{number}") for number in (2, 3)]
    await end_with(driver, WebhookStatus.DEAD)
    assert (await redeliver_dead(settings, since=since, now=driver.now())).webhooks == 2
    assert [(await get_webhook(each.id)).status for each in (old, *new)] == ["DEAD", "PENDING", "PENDING"]
    assert (await redeliver_dead(settings, now=driver.now())).webhooks == 1


async def test_lists_are_by_status_and_stream_with_the_last_try(driver: Driver, settings: Settings) -> None:
    dead = await send(settings)
    await end_with(driver, WebhookStatus.DEAD)
    pending = await send(settings, stream="job-2")
    page = await list_webhooks()
    assert [each.id for each in page.items] == [pending.id, dead.id]
    assert [each.last_try and each.last_try.status for each in page.items] == [None, 410]
    assert [each.id for each in (await list_webhooks(stream="job-2")).items] == [pending.id]
    assert [each.id for each in (await list_webhooks(status=WebhookStatus.PENDING)).items] == [pending.id]
    assert (await list_webhooks(status=WebhookStatus.DELIVERED)).total == 0


async def test_deleting_a_group_deletes_its_messages(driver: Driver, settings: Settings) -> None:
    sent = await send(settings)
    await end_with(driver, WebhookStatus.DELIVERED)
    await ops.delete_run_group((await get_run(sent.run_id)).run_group_id)
    assert await scalar("SELECT count(*) FROM webhookmessage") == 0


async def test_those_who_enqueue_at_once_share_a_run_and_every_message_has_its_number(
    database: type[Database], driver: Driver, settings: Settings
) -> None:
    sent = await asyncio.gather(*(send(settings, body=number) for number in range(20)))
    assert len({each.run_id for each in sent}) == 1
    assert await scalar("SELECT count(DISTINCT sequence) FROM webhookmessage") == 20
    await assert_consistent(database)


async def test_a_stream_can_be_forgotten_and_its_run_then_ends(driver: Driver, settings: Settings) -> None:
    sent, other = await send(settings), await send(settings, stream="job-2")
    [rest] = await rest_of([sent.run_id], expires_at=START)
    assert await Database.transact(forget_stream("job-1")) == 1
    assert rest.next is not None
    [rest] = await settle([Settled(rest.next, WebhookStatus.DELIVERED, GONE, driver.now())])  # it was on its way
    assert (rest.next, rest.dead) == (None, 0)
    assert [each.id for each in (await list_webhooks()).items] == [other.id]
