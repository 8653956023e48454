"""Webhooks from the row to a receiver that fails in every way, with a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.models import Database, WebhookMessage, WorkflowRun
from soliplex.ingester.lib.webhooks import Enqueued, NewMessage, send_webhook
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.definitions import workflow_from_mapping
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from soliplex.ingester.lib.wiring import current_wiring
from tests.support.engine import assert_consistent, registry_in_use, rows_of, scalar
from tests.support.receiver import (
    BREAKS_CHUNKS,
    BREAKS_OFF,
    CLOSES,
    GIBBERISH,
    HANGS,
    LIES,
    Answer,
    Delivery,
    Receiver,
    Reply,
    receiver,
)

OLD = "whsec_b2xkLWtleS1vbGQta2V5LW9sZC1rZXk="
NEW = "whsec_bmV3LWtleS1uZXcta2V5LW5ldy1rZXk="
ELSEWHERE = Answer(302, headers=(("Location", "http://127.0.0.1:1/"),))
QUICK: dict[str, Any] = {
    "allow_private_addresses": True,
    "webhook_first_delay_seconds": 0.01,
    "webhook_longest_delay_seconds": 0.05,
    "webhook_circuit_failures": 1000,
}


@pytest.fixture(autouse=True)
def empty_registry() -> Any:
    with registry_in_use():
        yield


@pytest.fixture
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as hooks:
        yield hooks


def use(**changed: Any) -> Settings:
    settings = load_settings(**QUICK | changed)
    current_wiring().use(settings)
    return settings


@asynccontextmanager
async def working(**config: Any) -> AsyncGenerator[Worker]:
    chosen: dict[str, Any] = {"consumers": {"webhook": 4}, "liveness_interval": 0.05, **config}
    worker = Worker(WorkerConfig(**chosen))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(5)


async def send(hooks: Receiver, settings: Settings, number: int = 1, stream: str = "job-1", **facts: Any) -> Enqueued:
    given: dict[str, Any] = {"stream": stream, "url": hooks.url, "event_type": "test", "body": {"number": number}}
    return await send_webhook(NewMessage(**given | facts), settings)


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(300):
        while not await condition():  # noqa: ASYNC110  the database is asked, which tells nobody of its changes
            await asyncio.sleep(0.005)


async def ended(run_id: int) -> WorkflowRun:
    await until(lambda: scalar(f"SELECT count(*) FROM workflowrun WHERE id = {run_id} AND completed_date IS NOT NULL"))
    async with Database.session(read_only=True) as session:
        return await session.get_one(WorkflowRun, run_id)


async def message(message_id: int) -> WebhookMessage:
    async with Database.session(read_only=True) as session:
        return await session.get_one(WebhookMessage, message_id)


def numbers(deliveries: list[Delivery]) -> list[int]:
    return [delivery.content["number"] for delivery in deliveries]


async def test_messages_of_a_stream_arrive_in_order_and_signed_with_every_key(
    database: type[Database], hooks: Receiver
) -> None:
    settings = use(webhook_signing_secret=f"{NEW}, {OLD}")
    sent = [await send(hooks, settings, number) for number in (1, 2, 3)]
    assert len({each.run_id for each in sent}) == 1
    async with working():
        assert (await ended(sent[0].run_id)).status == "COMPLETED"
    assert numbers(hooks.taken) == [1, 2, 3]
    assert [delivery.id for delivery in hooks.taken] == [each.webhook_id for each in sent]
    for delivery in hooks.taken:
        assert delivery.headers["content-type"] == "application/json"
        for key in (OLD, NEW):
            assert Webhook(key).verify(delivery.body, delivery.headers) == delivery.content
    found = await message(sent[0].id)
    assert (found.status, found.try_count, found.tries[0]["status"]) == ("DELIVERED", 1, 204)
    await assert_consistent(database)


@pytest.mark.parametrize(
    "trouble",
    [Answer(500, b"sorry"), Answer(404), ELSEWHERE, HANGS, CLOSES, BREAKS_OFF, LIES, BREAKS_CHUNKS, GIBBERISH],
    ids=repr,
)
async def test_a_message_that_fails_is_sent_again_under_its_id_before_the_next(
    database: None, hooks: Receiver, trouble: Reply
) -> None:
    settings = use(webhook_timeout_seconds=0.4 if trouble in {HANGS, LIES} else 30)
    hooks.answers += [trouble, trouble]
    first, second = [await send(hooks, settings, number) for number in (1, 2)]
    async with working():
        await ended(second.run_id)
    assert numbers(hooks.deliveries) == [1, 1, 1, 2]
    assert [delivery.id for delivery in hooks.deliveries] == [first.webhook_id] * 3 + [second.webhook_id]
    found = await message(first.id)
    assert found.try_count == 3
    assert [bool("status" in each or "error" in each) for each in found.tries] == [True] * 3
    if isinstance(trouble, Answer):
        assert found.tries[0]["status"] == trouble.status
        assert found.tries[0]["answer"] == trouble.body.decode()


async def test_a_receiver_that_is_not_there_yet_gets_its_messages_when_it_is(database: None) -> None:
    settings = use()
    async with receiver() as gone:
        port = int(gone.url.split(":")[2].split("/")[0])
    sent = await send(gone, settings)
    async with working():
        await until(lambda: scalar("SELECT count(*) FROM webhookmessage WHERE try_count >= 2"))
        async with receiver(port) as hooks:
            await ended(sent.run_id)
    assert [delivery.id for delivery in hooks.taken] == [sent.webhook_id]


async def test_what_is_given_up_is_a_dead_letter_in_a_failed_run_and_the_rest_still_arrives(
    database: None, hooks: Receiver
) -> None:
    settings = use()
    hooks.answers += [Answer(410)]
    first, second = [await send(hooks, settings, number) for number in (1, 2)]
    async with working():
        run = await ended(first.run_id)
    assert run.status == "FAILED"
    assert "1 webhook was given up" in str((await rows_of("SELECT status_message FROM runstep"))[0][0])
    assert ((await message(first.id)).status, (await message(second.id)).status) == ("DEAD", "DELIVERED")


async def test_a_message_whose_time_is_over_is_given_up_after_one_more_try(database: None, hooks: Receiver) -> None:
    settings = use(webhook_give_up_seconds=0.001)
    hooks.answer = lambda _: Answer(500)
    sent = [await send(hooks, settings, number) for number in (1, 2)]
    async with working():
        assert (await ended(sent[0].run_id)).status == "FAILED"
    assert numbers(hooks.deliveries) == [1, 2]
    assert [(await message(each.id)).status for each in sent] == ["DEAD", "DEAD"]


async def test_a_private_address_gets_nothing_unless_it_is_allowed(database: None, hooks: Receiver) -> None:
    settings = use(allow_private_addresses=False)
    refused = await send(hooks, settings)
    async with working():
        await ended(refused.run_id)
    assert "WEBHOOK_ALLOWED_TARGETS" in (await message(refused.id)).tries[0]["error"]
    assert hooks.deliveries == []
    settings = use(allow_private_addresses=False, webhook_allowed_targets="127.0.0.0/8")
    allowed = await send(hooks, settings, stream="job-2")
    async with working():
        await ended(allowed.run_id)
    assert [delivery.id for delivery in hooks.taken] == [allowed.webhook_id]


async def test_a_message_with_a_key_is_enqueued_once(database: None, hooks: Receiver) -> None:
    settings = use()
    first = await send(hooks, settings, key="final")
    again = await send(hooks, settings, key="final")
    assert (again.id, again.webhook_id, first.is_new, again.is_new) == (first.id, first.webhook_id, True, False)
    async with working():
        await ended(first.run_id)
    later = await send(hooks, settings, key="final")
    assert (later.id, later.is_new) == (first.id, False)
    assert await scalar("SELECT count(*) FROM webhookmessage") == 1


async def test_no_more_go_to_a_host_at_once_than_the_settings_allow(database: None, hooks: Receiver) -> None:
    settings = use(webhook_host_concurrency=3)
    sent = [await send(hooks, settings, number, stream=f"job-{number}") for number in range(20)]
    async with working():
        for each in sent:
            await ended(each.run_id)
    assert hooks.most_at_once <= 3
    assert sorted(numbers(hooks.taken)) == list(range(20))


async def test_a_host_that_fails_again_and_again_is_left_alone(database: None, hooks: Receiver) -> None:
    settings = use(webhook_circuit_failures=3, webhook_circuit_seconds=3600, webhook_host_concurrency=1)
    hooks.answer = lambda _: Answer(503)
    sent = [await send(hooks, settings, number, stream=f"job-{number}") for number in range(10)]
    async with working():
        await hooks.has(deliveries=3)
        await until(lambda: scalar("SELECT count(*) = 10 FROM runstep WHERE available_at IS NOT NULL"))
    assert len(hooks.deliveries) == 3
    assert len([each for each in sent if (await message(each.id)).try_count == 0]) == 7


async def test_a_large_answer_is_not_read_to_its_end(database: None, hooks: Receiver) -> None:
    settings = use()
    hooks.answers += [Answer(200, b"x" * 10_000_000)]
    sent = await send(hooks, settings)
    async with working():
        await ended(sent.run_id)
    [found] = (await message(sent.id)).tries
    assert found["answer"] == "x" * 500


async def test_a_message_enqueued_while_its_stream_is_delivered_joins_or_starts_a_run_and_is_never_left(
    database: type[Database], hooks: Receiver
) -> None:
    settings = use()
    async with working():
        sent = [await send(hooks, settings, number) for number in range(60)]
        await hooks.has(taken=60)
        for run_id in {each.run_id for each in sent}:
            await ended(run_id)
    assert numbers(hooks.taken) == list(range(60))
    await assert_consistent(database)


async def test_the_wait_that_a_receiver_asks_for_is_kept(database: None, hooks: Receiver) -> None:
    settings = use(webhook_longest_delay_seconds=3600)
    hooks.answers += [Answer(429, headers=(("Retry-After", "1800"),))]
    sent = await send(hooks, settings)
    async with working():
        await hooks.has(deliveries=1)
        await until(lambda: scalar("SELECT count(*) FROM runstep WHERE available_at IS NOT NULL"))
    found = await message(sent.id)
    async with Database.session(read_only=True) as session:
        run = await session.get_one(WorkflowRun, sent.run_id)
    due = (await rows_of("SELECT available_at FROM runstep"))[0][0]
    assert run.status == "RUNNING"
    assert str(due) > str(found.created_at + timedelta(minutes=29))[:19]


async def test_a_workflow_reports_its_events_to_receivers(database: None, hooks: Receiver) -> None:
    use(webhook_secrets=f'{{"duty": "{NEW}"}}')
    tell = {"method": "soliplex.ingester.lib.workflow.notify_webhook", "name": "tell", "retries": 3}
    flow = workflow_from_mapping(
        {
            "id": "reported",
            "item_steps": {"step": {"method": "tests.support.handlers.nothing"}},
            "lifecycle_events": {
                "step_start": [{**tell, "parameters": {"url": hooks.url}}],
                "step_end": [{**tell, "parameters": {"url": hooks.url}}],
                "item_end": [{**tell, "parameters": {"url": hooks.url, "secret": "duty"}}],
                "group_end": [{**tell, "parameters": {"url": hooks.url}}],
            },
        }
    )
    get_registry().register(flow)
    created = await ops.create_run_group(flow, None, [ops.NewRun(input={})], name="one")
    async with working(consumers={"webhook": 2, "*": 2}):
        await hooks.has(taken=4)
        await until(lambda: scalar("SELECT count(*) = 0 FROM workflowrun WHERE completed_date IS NULL"))
    in_order = sorted((each.content for each in hooks.taken), key=lambda content: content["data"]["event_id"])
    assert [content["type"] for content in in_order] == ["step_start", "step_end", "item_end", "group_end"]
    by_type = {delivery.content["type"]: delivery for delivery in hooks.taken}
    assert by_type["group_end"].content["data"]["run_group_id"] == created.group_id
    assert by_type["item_end"].content["data"]["workflow_run_id"] == created.run_ids[0]
    assert "webhook-signature" not in by_type["group_end"].headers
    Webhook(NEW).verify(by_type["item_end"].body, by_type["item_end"].headers)


async def test_many_who_enqueue_beside_workers_that_deliver_leave_nothing_behind_and_keep_the_order(
    database: type[Database], hooks: Receiver
) -> None:
    settings = use()
    hooks.answer = lambda delivery: Answer(500 if len(hooks.deliveries) % 7 == 0 else 204)

    async def send_some(first: int) -> None:
        for number in range(first, first + 15):
            await send(hooks, settings, number, stream=f"job-{number % 2}")

    async with working(), working():
        async with asyncio.TaskGroup() as group:
            for first in range(0, 60, 15):
                group.create_task(send_some(first))
        await until(lambda: scalar("SELECT count(*) = 0 FROM workflowrun WHERE completed_date IS NULL"))
    for stream in ("job-0", "job-1"):
        rows = await rows_of(
            "SELECT webhook_id FROM webhookmessage WHERE stream = :stream AND status = 'DELIVERED' ORDER BY sequence",
            stream=stream,
        )
        sent = [row[0] for row in rows]
        assert [delivery.id for delivery in hooks.taken if delivery.id in set(sent)] == sent
    assert len(hooks.taken) == 60
    await assert_consistent(database)
