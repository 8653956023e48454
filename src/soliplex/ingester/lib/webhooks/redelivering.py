"""Redelivery: messages that were given up, or delivered before, are tried again.

The run of a dead letter has FAILED: it is retried. One whose run goes on joins what is pending there. Where there is no
such run, since it has completed or is about to end, a new one takes the message over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from soliplex.ingester.lib.answers import Redelivered
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database, RunStatus, WebhookStatus
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.webhooks.enqueueing import Sending, expiry, prepare_sending, start_delivering
from soliplex.ingester.lib.webhooks.sql import SQL
from soliplex.ingester.lib.wf.operations.groups import retry_script
from soliplex.ingester.lib.wf.wakeup import work_is_ready

_BEGINNING: Final = datetime(1, 1, 2, tzinfo=UTC)
_RETRIED: Final = frozenset({RunStatus.FAILED.value, RunStatus.CANCELLED.value})


async def redeliver(message_id: int, settings: Settings, *, now: datetime | None = None) -> Redelivered:
    """Try one message again, whatever has become of it; not one that is still being tried."""
    sending = await prepare_sending(settings, now=now)
    await Database.transact(_redeliver_one(sending, message_id))
    work_is_ready()
    return Redelivered(webhooks=1)


async def redeliver_dead(
    settings: Settings, *, since: datetime | None = None, now: datetime | None = None
) -> Redelivered:
    """Try again all dead letters that were given up at that moment or later; run by run, each in a transaction."""
    sending = await prepare_sending(settings, now=now or utcnow())
    first, after, count = since or _BEGINNING, 0, 0
    while rows := await Database.read(SQL.runs_with_dead_letters(since=first, after=after)):
        for row in rows:
            count += await Database.transact(_redeliver_run(sending, row["first_id"], first))
        after = rows[-1]["run_id"]
        work_is_ready()
    return Redelivered(webhooks=count)


def _redeliver_one(sending: Sending, message_id: int) -> Script[None]:
    message = yield from _held(message_id)
    if message is None:
        raise NotFoundError("webhook", message_id)
    if message["status"] == WebhookStatus.PENDING and message["run_status"] not in _RETRIED:
        raise ConflictError(f"webhook {message_id} is still being tried: wait until it is delivered or given up")
    yield from _put_back(sending, message, [message_id])


def _redeliver_run(sending: Sending, first_id: int, since: datetime) -> Script[int]:
    message = yield from _held(first_id)
    if message is None:
        return 0  # deleted meanwhile, with its run
    rows = yield SQL.dead_letters_of_run(run_id=message["run_id"], since=since)
    ids = [row["id"] for row in rows]
    if ids:
        yield from _put_back(sending, message, ids)
    return len(ids)


def _held(message_id: int) -> Script[Row | None]:
    """The message, as it is once nobody else can change it."""
    found = yield SQL.message_to_redeliver(id=message_id)
    if found:
        yield SQL.hold_streams(streams=[found[0]["stream"]])
        yield SQL.hold_run(run_id=found[0]["run_id"])
        found = yield SQL.message_to_redeliver(id=message_id)
    return found[0] if found else None


def _put_back(sending: Sending, message: Row, ids: Sequence[int]) -> Script[None]:
    facts = {"ids": list(ids), "expires_at": expiry(sending.settings, sending.now)}
    run_id = message["run_id"]
    if message["run_status"] in _RETRIED:
        yield SQL.put_back(run_id=run_id, **facts)
        yield from retry_script([run_id], hard=False, now=sending.now)
        return
    # A run that goes on looks for its next message when it settles the one that is pending. One that has none may just
    # have looked for the last time.
    goes_on = yield SQL.others_pending(run_id=run_id, ids=list(ids))
    if message["run_status"] == RunStatus.COMPLETED or not goes_on:
        run_id = yield from start_delivering(sending, message["stream"], message["url"])
    yield SQL.put_back(run_id=run_id, **facts)
