"""How much of a request's body is read.

A framework reads a form or a JSON object into memory as long as it comes. Here it reads `LARGEST_BODY`, unless the
route reads the body by itself, block by block, and says so: uploads, and forms that have bounds of their own.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY: Final = 8 << 20
DRAINED: Final = 16 << 20
"""How much is still read of a body that is refused. A client that is cut off while it sends may not see the answer."""
_BOUND: Final = "soliplex.bound"


class _Bound:
    """Counts what comes."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read = 0
        self.holds = True

    async def receive(self) -> Message:
        message = await self._count()
        if self.holds and self._read > LARGEST_BODY:
            await self._drain(message)
            # FastAPI answers any other exception while it reads a form with one that says nothing.
            problem = f"body: is larger than {LARGEST_BODY} bytes"
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
        return message

    async def _count(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        return message

    async def _drain(self, message: Message) -> None:
        while message.get("more_body") and self._read < LARGEST_BODY + DRAINED:
            message = await self._count()


class BodyBound:
    """Ends requests whose body is too large, as soon as it is known."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bound = _Bound(receive)
        scope[_BOUND] = bound
        await self._app(scope, bound.receive, send)


def read_without_bound(request: Request) -> None:
    """The route reads the body by itself, and sees to it how much that is."""
    bound: _Bound | None = request.scope.get(_BOUND)
    if bound is not None:
        bound.holds = False
