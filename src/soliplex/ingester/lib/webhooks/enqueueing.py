"""Putting messages into their streams, in a transaction of one's own or in another's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks.messages import NewMessage, host_of
from soliplex.ingester.lib.webhooks.signing import keys_named
from soliplex.ingester.lib.webhooks.sql import SQL
from soliplex.ingester.lib.wf.definitions import INTERNAL, StepDefinition, WorkflowDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.operations.definitions import pin
from soliplex.ingester.lib.wf.operations.runs import NewRun, Start, start_one
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.wakeup import work_is_ready

WORKFLOW_ID: Final = "webhook"
WEBHOOK_STEPS: Final = "webhook"
"""The key and the type of the one step: it has a pool of its own."""


@cache
def webhook_workflow() -> WorkflowDefinition:
    """The workflow whose runs deliver. It is made in code, so that no folder of workflow files can lack it."""
    step = StepDefinition(
        key=WEBHOOK_STEPS,
        method="soliplex.ingester.lib.webhooks.delivering.deliver",
        # What a receiver does is no error of the step; these are for troubles of our own.
        retries=50,
        # Far more than a call takes: neither a setting for other steps nor a slow receiver ends it.
        timeout=timedelta(hours=1),
        backoff=Backoff(timedelta(seconds=2), timedelta(minutes=5)),
    )
    return workflow_from_steps(WORKFLOW_ID, [step], name="Deliver webhooks", meta={INTERNAL: True})


@dataclass(frozen=True, slots=True)
class Sending:
    """What is needed to enqueue messages, looked up before the transaction that does."""

    settings: Settings
    definition_id: int | None
    """The stored version of the workflow that new runs are pinned to."""
    now: datetime


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A message that was asked for."""

    id: int
    webhook_id: str
    run_id: int
    is_new: bool
    """Whether it was enqueued now: a message with the same key may have been there."""


async def prepare_sending(settings: Settings, *, now: datetime | None = None) -> Sending:
    """Look up what `enqueue` needs."""
    return Sending(settings, await pin(webhook_workflow()), now or utcnow())


async def send_webhook(message: NewMessage, settings: Settings, *, now: datetime | None = None) -> Enqueued:
    """Enqueue one message, in a transaction of its own."""
    sending = await prepare_sending(settings, now=now)
    enqueued = await Database.transact(enqueue(sending, message))
    work_is_ready()
    return enqueued


def enqueue(sending: Sending, message: NewMessage) -> Script[Enqueued]:
    """Put a message at the end of its stream, as a part of a transaction. Afterwards, call `work_is_ready`.

    A transaction that enqueues into several streams does so in the order of their names.
    """
    keys_named(message.secret, sending.settings)  # says so if there is no such key
    yield SQL.hold_streams(streams=[message.stream])
    webhook_id = message.new_webhook_id()
    if message.key is not None:
        found = yield SQL.message_by_webhook_id(webhook_id=webhook_id)
        if found:
            return Enqueued(found[0]["id"], webhook_id, found[0]["run_id"], is_new=False)
    run_id = yield from _run_of_stream(sending, message)
    rows = yield SQL.insert_message(
        webhook_id=webhook_id,
        stream=message.stream,
        run_id=run_id,
        url=message.url,
        event_type=message.event_type,
        body=message.text,
        secret=message.secret,
        now=sending.now,
        expires_at=expiry(sending.settings, sending.now),
    )
    return Enqueued(rows[0]["id"], webhook_id, run_id, is_new=True)


def forget_stream(stream: str) -> Script[int]:
    """Delete the messages of a stream, as a part of a transaction; how many there were.

    One that is on its way arrives. Its run finds nothing more to deliver, and ends.
    """
    yield SQL.hold_streams(streams=[stream])
    return len((yield SQL.delete_stream(stream=stream)))


def expiry(settings: Settings, now: datetime) -> datetime:
    return now + timedelta(seconds=settings.webhook_give_up_seconds)


def _run_of_stream(sending: Sending, message: NewMessage) -> Script[int]:
    """The run that delivers the stream's pending messages, or a new one."""
    found = yield SQL.run_of_pending(stream=message.stream)
    if found:
        return found[0]["run_id"]
    return (yield from start_delivering(sending, message.stream, message.url))


def start_delivering(sending: Sending, stream: str, url: str) -> Script[int]:
    """Start a run for messages of a stream. Those to one host are delivered by one worker at a time."""
    start = Start(
        workflow=webhook_workflow(),
        params=None,
        resource_keys={WEBHOOK_STEPS: f"webhook:{host_of(url)}"},
        now=sending.now,
        definition_id=sending.definition_id,
    )
    started = yield from start_one(start, f"webhooks of {stream}", NewRun(input={"stream": stream}))
    return started.run_id
