"""How much of a request's body is read, and how slowly it may come.

A framework reads a form or a JSON object into memory as long as it comes. Here it reads `LARGEST_BODY` of a form and
`LARGEST_JSON` of anything else, unless the route reads the body by itself, block by block, and says so: uploads, and
forms that have bounds of their own.

A client must go on sending: each body may keep the server waiting for so many seconds, and bytes that arrive earn it
more seconds. Only the time in which the server waits for bytes counts, not the time in which it works on them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from soliplex.ingester.lib.config import ServerSettings

LARGEST_BODY: Final = 8 << 20
"""Most bytes of a form that is read into memory."""
LARGEST_JSON: Final = (1 << 20) + (16 << 10)
"""Most bytes of any other body that is read into memory. It is decoded in one call, for which all other requests wait:
so there is room for the largest payload that a step may be sent, and for little more."""
DRAINED: Final = 16 << 20
"""How much is still read of a body that is refused. A client that is cut off while it sends may not see the answer."""
_BOUND: Final = "soliplex.bound"


FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


def is_form(headers: Headers) -> bool:
    """Whether the body is a form, as its sender says."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() in FORMS


class _Bound:
    """Counts the bytes of one body, and ends it when there are too many."""

    def __init__(self, receive: Receive, largest: int) -> None:
        self._receive = receive
        self._largest = largest
        self._read = 0
        self.holds = True

    async def receive(self) -> Message:
        message = await self._count()
        if self.holds and self._read > self._largest:
            await self._drain(message)
            # FastAPI answers any other exception while it reads a form with one that says nothing.
            problem = f"body: is larger than {self._largest} bytes"
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
        return message

    async def _count(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        return message

    async def _drain(self, message: Message) -> None:
        while message.get("more_body") and self._read < self._largest + DRAINED:
            message = await self._count()


class BodyBound:
    """Ends requests whose body is too large, as soon as it is known."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bound = _Bound(receive, LARGEST_BODY if is_form(Headers(scope=scope)) else LARGEST_JSON)
        scope[_BOUND] = bound
        await self._app(scope, bound.receive, send)


class Allowance:
    """How long a body may still be waited for: never longer than the window, and bytes earn it at the lowest rate."""

    def __init__(self, window: float, lowest_rate: float) -> None:
        self._window = window
        self._lowest_rate = lowest_rate
        self.seconds = window

    def count(self, waited: float, size: int) -> None:
        """Note that so many bytes came after so many seconds."""
        self.seconds = min(self._window, max(0.0, self.seconds - waited) + size / self._lowest_rate)


class _Pace:
    """Waits for the body of one request, for as long as it comes."""

    def __init__(self, receive: Receive, allowance: Allowance, clock: Callable[[], float]) -> None:
        self._receive = receive
        self._allowance = allowance
        self._clock = clock
        self._is_whole = False
        self.has_answer = False

    async def receive(self) -> Message:
        if self._is_whole or self.has_answer:
            # The application waits for the client to go away, which may take any time.
            return await self._receive()
        started = self._clock()
        try:
            async with asyncio.timeout(self._allowance.seconds):
                message = await self._receive()
        except TimeoutError:
            # An HTTP exception, as in `_Bound`: FastAPI gives no other a good answer.
            problem = "body: comes too slowly; send it without long pauses, or in smaller requests"
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, problem, {"Connection": "close"}) from None
        self._allowance.count(self._clock() - started, len(message.get("body", b"")))
        self._is_whole = not message.get("more_body", False)
        return message


class BodyPace:
    """Ends requests whose body does not come on."""

    def __init__(self, app: ASGIApp, *, settings: ServerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._window = settings.request_body_timeout_seconds
        self._lowest_rate = float(settings.request_body_min_rate)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        pace = _Pace(receive, Allowance(self._window, self._lowest_rate), self._clock)

        async def watched(message: Message) -> None:
            pace.has_answer = True
            await send(message)

        await self._app(scope, pace.receive, watched)


def read_without_bound(request: Request) -> None:
    """Mark a route that reads the body by itself and has bounds of its own."""
    bound: _Bound | None = request.scope.get(_BOUND)
    if bound is not None:
        bound.holds = False
