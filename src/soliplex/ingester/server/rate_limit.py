"""How often a client may upload, and how many uploads are taken in at once.

Both are counted per process: behind several, a client gets so much from each.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.server.access import path_of
from soliplex.ingester.server.auth import ANYONE, caller_of
from soliplex.ingester.server.errors import RateLimitedError, answer_for
from soliplex.ingester.server.slots import KEY, Slots

INGEST_PATHS: Final = frozenset(
    {"/api/v1/document/ingest-document", "/api/v1/document/upload", "/jobs", "/api/v1/segmenter/jobs"}
)
_PERIODS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_MOST_CLIENTS: Final = 10_000


class RateLimit:
    """So many requests per period and client, refilled steadily: a full allowance may be used at once."""

    def __init__(self, rate: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        count, _, period = rate.partition("/")
        self.rate = rate
        self._period = _PERIODS[period]
        self._apart = self._period / int(count)
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When each client's allowance will be whole again; the one that came last stands last."""

    def take(self, client: str) -> None:
        """Count a request. RateLimitedError, with the time to wait, if it is one too many."""
        now = self._clock()
        full_at = max(self._full_at.get(client, now), now) + self._apart
        # Within a rounding error of the whole period the allowance is just used up, not exceeded.
        excess = full_at - now - self._period
        if excess > self._apart / 1000:
            raise RateLimitedError(self.rate, max(1, math.ceil(excess)))
        self._full_at[client] = full_at
        self._full_at.move_to_end(client)
        if len(self._full_at) > _MOST_CLIENTS:
            self._full_at.popitem(last=False)


class UploadGate:
    """Refuses uploads beyond the rate, and lets the others wait until there is room for them."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._limit = RateLimit(settings.rate_limit_ingest)
        self._slots = Slots(settings.ingest_queue_concurrency)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or path_of(scope) not in INGEST_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            self._limit.take(_client(scope))
        except RateLimitedError as error:
            await answer_for(error)(scope, receive, send)
            return
        async with self._slots.taken() as slot:
            scope[KEY] = slot
            await self._app(scope, slot.receiving(receive), send)


def _client(scope: Scope) -> str:
    """The user, where one is known, or else the address."""
    caller = caller_of(scope)
    return f"address {(scope.get('client') or ('-',))[0]}" if caller is ANYONE else f"user {caller.name}"
