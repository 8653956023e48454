"""Events for whoever LISTENs: servers send each by NOTIFY, as JSON, on a channel of PostgreSQL that the settings name.

Of several servers one sends them: the one whose session holds the advisory lock of the channel. When that session ends,
another server takes over within seconds. As always with NOTIFY, who is not listening at that moment is not told; what
was before can be read (`get_recent_events`).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import asyncpg
from pydantic import TypeAdapter

from soliplex.ingester.goals.notifications import Event, Telling
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.duties import Duties, Duty
from soliplex.ingester.lib.wf.feed import ChangeFeed, Follower
from soliplex.ingester.lib.wf.presence import connection_arguments

TAKES_OVER_WITHIN: Final = 5.0
LONGEST_MESSAGE: Final = 1_000
"""Characters of an event's message. PostgreSQL refuses to notify of more than 8,000 bytes."""
_LOCKS: Final = 0x50E1
"""The class of the advisory locks of channels. Those of workers are of the other kind, by one number."""
_EVENT: Final = TypeAdapter(Event)


@asynccontextmanager
async def announced(channel: str, feed: ChangeFeed) -> AsyncGenerator[None]:
    """Send events on the channel for the time of the block, unless another session does."""
    if not Database.is_postgres():
        setting = "ORCHESTRATOR_NOTIFICATIONS_CHANNEL"
        raise ConfigurationError(setting, "is set, and SQLite has no channels", "leave it out, or use PostgreSQL")
    duties, announcer = Duties("announcer"), _Announcer(channel, feed)
    announcing = duties.start(Duty(name="announce", round=announcer.round))
    try:
        yield
    finally:
        await duties.end([announcing])


class _Announcer:
    def __init__(self, channel: str, feed: ChangeFeed) -> None:
        self._channel = channel
        self._feed = feed
        self._unsent: list[str] = []
        """What was found when the session broke: the next one sends it."""

    async def round(self) -> None:
        """Send events for as long as the session lasts, if the lock is free."""
        connection = await asyncpg.connect(**connection_arguments(Database.url()))
        try:
            lock = (_LOCKS, zlib.crc32(self._channel.encode()) & 0x7FFFFFFF)
            if await connection.fetchval("SELECT pg_try_advisory_lock($1::int, $2::int)", *lock):
                await self._send_on(connection)
            else:
                self._unsent = []  # another server sends what there is now
        finally:
            connection.terminate()
        await asyncio.sleep(TAKES_OVER_WITHIN)

    async def _send_on(self, connection: asyncpg.Connection[Any]) -> None:
        telling = Telling()
        async with self._feed.following(Follower()) as follower:
            while (found := await follower.next()) is not None:
                self._unsent += [_payload(event) for event in telling.events_of(found)]
                notify = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"
                await connection.execute(notify, self._channel, self._unsent)
                self._unsent = []


def _payload(event: Event) -> str:
    short = replace(event, message=event.message and event.message[:LONGEST_MESSAGE])
    return _EVENT.dump_json(short).decode()
