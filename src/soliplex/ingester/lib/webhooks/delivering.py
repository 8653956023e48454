"""The handler of the workflow `webhook`: delivers the messages of streams, host by host.

A call gets the runs of one host that are ready, at most `ROUND`. It works through their messages, so many at once as
the settings allow for a host. A stream whose message failed is parked for its back-off, one whose host is left alone
until that is over; neither uses an attempt.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from random import random
from typing import Any, Final

import httpx

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.gathering import Gathering
from soliplex.ingester.lib.guarded_http import guarded_client
from soliplex.ingester.lib.models import WebhookStatus
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.webhooks.circuits import Circuits
from soliplex.ingester.lib.webhooks.enqueueing import expiry
from soliplex.ingester.lib.webhooks.messages import host_of, server_of
from soliplex.ingester.lib.webhooks.settling import Message, Rest, Settled, rest_of, settle
from soliplex.ingester.lib.webhooks.signing import headers_for, keys_named
from soliplex.ingester.lib.webhooks.targets import exempt_targets
from soliplex.ingester.lib.webhooks.trying import Try, Verdict, given_up, post
from soliplex.ingester.lib.webhooks.webhook_metrics import count
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.handlers import StepContext, batch_handler
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.waiting import Again
from soliplex.ingester.lib.wiring import current_wiring

_log = logging.getLogger(__name__)

ROUND: Final = 128
ROUND_SECONDS: Final = 20.0
"""Seconds after which a call takes up no further message, since messages to other hosts wait for its slot."""
_KEPT_OPEN_SECONDS: Final = 2.0
"""How long idle connections are kept. Servers close theirs after some more seconds, and a try on a connection that is
just being closed would fail."""


@batch_handler(limit=ROUND, wants=())
async def deliver(batch: list[StepContext]) -> list[Any]:
    """Deliver what the streams of these runs have to deliver, as far as it can be now."""
    courier = current_wiring().made(Courier)
    return await courier.deliver([context.step.run_id for context in batch])


class Courier:
    """Delivers messages for one process: it remembers how hosts fared, and records tries in groups."""

    def __init__(self, settings: Settings, *, clock: Callable[[], datetime] = utcnow) -> None:
        self._settings = settings
        self._clock = clock
        self._backoff = Backoff(
            timedelta(seconds=settings.webhook_first_delay_seconds),
            timedelta(seconds=settings.webhook_longest_delay_seconds),
            jitter=0.5,
        )
        self._circuits = Circuits(
            failures=settings.webhook_circuit_failures,
            pause=timedelta(seconds=settings.webhook_circuit_seconds),
            clock=time.monotonic,
        )
        self._settling = Gathering(settle)
        self._tls: ssl.SSLContext | None = None

    async def deliver(self, runs: Sequence[int]) -> list[Any]:
        """What each run comes to: None, when all its messages are delivered, a wish to go on later, or an error."""
        rests = await rest_of(runs, expires_at=expiry(self._settings, self._clock()))
        at_once = min(self._settings.webhook_host_concurrency, len(runs))
        # In a thread: it reads files.
        self._tls = self._tls or await asyncio.to_thread(httpx.create_ssl_context)
        async with AsyncExitStack() as stack:
            # One client for each place: a pool of many connections looks at all of them before each request.
            clients = [await stack.enter_async_context(self._client()) for _ in range(at_once)]
            a_round = _Round(self, clients)
            return await asyncio.gather(*(a_round.work_through(rest) for rest in rests), return_exceptions=True)

    def _client(self) -> httpx.AsyncClient:
        """A client for one call. One that lives longer would try connections that servers have closed meanwhile."""
        return guarded_client(
            allow_private=self._settings.allow_private_addresses,
            exempt=exempt_targets(self._settings),
            follow_redirects=False,
            tls=self._tls,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=_KEPT_OPEN_SECONDS),
        )

    def time_to_wait(self, message: Message) -> timedelta:
        """How long the server that the message is for is left alone."""
        return self._circuits.time_to_wait(server_of(message.url))

    def is_expired(self, message: Message) -> bool:
        return self._clock() >= message.expires_at

    async def try_once(self, client: httpx.AsyncClient, message: Message) -> tuple[Rest, timedelta | None]:
        """Send the message, and record what came of it: what its run has to do, and when to try again if in vain."""
        at, started = self._clock(), time.perf_counter()
        outcome = await self._send(client, message, at)
        return await self._record(message, outcome, at, time.perf_counter() - started)

    async def give_up(self, message: Message, reason: str) -> Rest:
        """Record that the message will not be tried any more."""
        rest, _ = await self._record(message, given_up(reason), self._clock(), 0.0)
        return rest

    async def _send(self, client: httpx.AsyncClient, message: Message, at: datetime) -> Try:
        body = message.body.encode()
        try:
            keys = keys_named(message.secret, self._settings)
        except ConfigurationError as exc:
            return given_up(str(exc))
        headers = {"content-type": "application/json", **headers_for(message.webhook_id, body, keys, at)}
        limit = timedelta(seconds=self._settings.webhook_timeout_seconds)
        outcome = await post(client, message.url, body, headers, limit=limit)
        if self._circuits.note(server_of(message.url), works=outcome.host_works):
            count("webhook_circuits_opened")
            _log.warning("webhooks: %s fails again and again, and is left alone for a while", server_of(message.url))
        return outcome

    async def _record(
        self, message: Message, outcome: Try, at: datetime, seconds: float
    ) -> tuple[Rest, timedelta | None]:
        status = self._status_after(message, outcome)
        settled = Settled(message, status, outcome.record(at, seconds), self._clock())
        rest = await self._settling.submit(settled)
        _tell(message, outcome, status)
        return rest, self._delay_after(message, outcome) if status is WebhookStatus.PENDING else None

    def _status_after(self, message: Message, outcome: Try) -> WebhookStatus:
        match outcome.verdict:
            case Verdict.DELIVERED:
                return WebhookStatus.DELIVERED
            case Verdict.GIVE_UP:
                return WebhookStatus.DEAD
            case Verdict.AGAIN:
                return WebhookStatus.DEAD if self.is_expired(message) else WebhookStatus.PENDING

    def _delay_after(self, message: Message, outcome: Try) -> timedelta:
        delay = self._backoff.delay_after(message.try_count + 1, random=random)
        asked_for = min(outcome.retry_after or timedelta(), self._backoff.longest)
        # The next try comes no later than the message expires: that try decides whether the message becomes a dead
        # letter.
        return max(min(max(delay, asked_for), message.expires_at - self._clock()), timedelta())


class _Round:
    """One call of the handler."""

    def __init__(self, courier: Courier, clients: Sequence[httpx.AsyncClient]) -> None:
        self._courier = courier
        self._free = asyncio.Queue[httpx.AsyncClient]()
        for client in clients:
            self._free.put_nowait(client)
        self._ends = time.monotonic() + ROUND_SECONDS

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[httpx.AsyncClient]:
        """One of the places for messages that are on their way at the same time."""
        client = await self._free.get()
        try:
            yield client
        finally:
            self._free.put_nowait(client)

    async def work_through(self, rest: Rest) -> Again | PermanentError | None:
        """Deliver the messages of a run, one after the other, until one fails or the time of the round is over."""
        while rest.next is not None:
            async with self._place() as client:
                if time.monotonic() > self._ends:
                    return Again()
                wait = self._courier.time_to_wait(rest.next)
                if not wait:
                    rest, delay = await self._courier.try_once(client, rest.next)
                elif self._courier.is_expired(rest.next):
                    reason = "its host failed again and again, and its time was over before it was tried once more"
                    rest, delay = await self._courier.give_up(rest.next, reason), None
                else:
                    # Spread, or all that wait for the host would ask at the same moment.
                    delay = wait * (1 + random())  # noqa: S311  no secret
            if delay is not None:
                return Again(delay=delay)
        return PermanentError(_words_about(rest.dead)) if rest.dead else None


def _words_about(dead: int) -> str:
    those = "1 webhook was" if dead == 1 else f"{dead} webhooks were"
    return f"{those} given up; see `si-cli webhooks list --status dead`, and redeliver"


def _tell(message: Message, outcome: Try, status: WebhookStatus) -> None:
    """Count it, and say so if somebody may do something. Of the address, which may hold a secret, the host is told."""
    if outcome.verdict is Verdict.DELIVERED:
        count("webhook_delivered")
        return
    count("webhook_failed_tries")
    if status is WebhookStatus.DEAD:
        count("webhook_dead_letters")
        reason = outcome.error or f"it answered {outcome.status}"
        _log.warning("webhook %s for %s is given up: %s", message.webhook_id, host_of(message.url), reason)
