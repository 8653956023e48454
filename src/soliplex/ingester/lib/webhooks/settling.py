"""What is written down about tries, for many messages in one transaction, and which message is next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.models import Database, WebhookStatus
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Row, Script, datetime_of, json_of
from soliplex.ingester.lib.webhooks.sql import SQL
from soliplex.ingester.lib.wf.links import insist

MOST_TRIES_KEPT: Final = 50
"""Tries in vain at a message that can be looked at: the last ones."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is to be delivered."""

    id: int
    webhook_id: str
    stream: str
    run_id: int
    url: str
    body: str
    secret: str | None
    expires_at: datetime
    try_count: int
    tries: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Settled:
    """What a message has come to."""

    message: Message
    status: WebhookStatus
    record: dict[str, Any]
    now: datetime

    def packed(self) -> dict[str, Any]:
        return {
            "id": self.message.id,
            "status": self.status.value,
            "try_count": self.message.try_count + 1,
            "tries": [*self.message.tries, self.record][-MOST_TRIES_KEPT:],
        }


@dataclass(frozen=True, slots=True)
class Rest:
    """What a run has still to do."""

    next: Message | None
    dead: int
    """How many of its messages were given up."""


async def settle(results: Sequence[Settled]) -> list[Rest]:
    """Record what came of tries; gives what the run of each has still to do."""
    return await insist(lambda: Database.transact(_settle(results)))


async def rest_of(runs: Sequence[int], *, expires_at: datetime) -> list[Rest]:
    """What each of the runs has to do. One that has nothing but dead letters was retried: it tries them again."""
    rests = await insist(lambda: Database.transact(_rest_of(runs)))
    retried = [run for run, rest in zip(runs, rests, strict=True) if rest.next is None and rest.dead]
    if not retried:
        return rests
    return await insist(lambda: Database.transact(_revived(runs, retried, expires_at)))


def _settle(results: Sequence[Settled]) -> Script[list[Rest]]:
    # Held to the end: whoever enqueues meanwhile waits, and then sees that the last message is not pending any more.
    yield SQL.hold_streams(streams=sorted({result.message.stream for result in results}))
    yield SQL.settle_messages(results=Json([result.packed() for result in results]), now=results[0].now)
    return (yield from _rest_of([result.message.run_id for result in results]))


def _revived(runs: Sequence[int], retried: list[int], expires_at: datetime) -> Script[list[Rest]]:
    yield SQL.revive_dead(runs=retried, expires_at=expires_at)
    return (yield from _rest_of(runs))


def _rest_of(runs: Sequence[int]) -> Script[list[Rest]]:
    wanted = sorted(set(runs))
    found = {row["run_id"]: _message(row) for row in (yield SQL.next_messages(runs=wanted))}
    dead = {row["run_id"]: row["dead"] for row in (yield SQL.dead_of_runs(runs=wanted))}
    return [Rest(found.get(run), dead.get(run, 0)) for run in runs]


def _message(row: Row) -> Message:
    expires_at = datetime_of(row, "expires_at")
    assert expires_at is not None
    facts = {name: row[name] for name in ("id", "webhook_id", "stream", "run_id", "url", "body", "secret", "try_count")}
    return Message(**facts, expires_at=expires_at, tries=json_of(row, "tries"))
