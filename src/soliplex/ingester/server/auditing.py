"""Writes down who stops, repeats or deletes something: every request that changes state and needs more than `ingest`.

The entry is written before the route is called, and told the outcome after it. A route that finds out from its body
that it deletes something (`access.WITH_OPERATE`) begins the entry itself, by `deletes`.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from soliplex.ingester.lib.access import Act
from soliplex.ingester.lib.access.audit import DONE
from soliplex.ingester.lib.enums import Scope as Needed
from soliplex.ingester.server.access import NOT_IN_THE_LOG, Routes, changes_state, known_as, path_of, scope_of
from soliplex.ingester.server.auth import caller_of, require

_KEY: Final = "audited_act"
_WRITTEN_DOWN: Final = frozenset({Needed.OPERATE, Needed.ADMIN})


class Audited:
    """Surrounds what needs `operate` or `admin` and changes something with an entry of the audit log."""

    def __init__(self, app: ASGIApp, routes: Callable[[], Routes]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not changes_state(scope):
            await self._app(scope, receive, send)
            return
        status = HTTPStatus.INTERNAL_SERVER_ERROR

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = HTTPStatus(message["status"])
                # Before the answer goes out: whoever has it finds the entry complete.
                if act := _act_of(scope):
                    await act.end(DONE if status < HTTPStatus.BAD_REQUEST else f"answered {status.value}")
                    _forget(scope)
            await send(message)

        path = self._routes().path_for(scope)
        if path is not None and is_written_down(scope["method"], path):
            await _begin(scope, known_as(scope["method"], path))
        try:
            await self._app(scope, receive, watched)
        finally:
            if act := _act_of(scope):
                await act.end("no answer was given")


def is_written_down(method: str, path: str) -> bool:
    """Whether every request for this route is an entry of the audit log."""
    short = known_as(method, path).partition(" ")[2]
    return scope_of(method, path) in _WRITTEN_DOWN and short not in NOT_IN_THE_LOG


async def deletes(request: Request, **details: Any) -> None:
    """See that the caller may delete, and write it down: for routes that delete only where a field says so."""
    require(caller_of(request.scope), Needed.OPERATE)
    if _act_of(request.scope) is None:
        await _begin(request.scope, known_as(request.method, path_of(request.scope)))
    note(request, **details)


def note(request: Request, **details: Any) -> None:
    """Say more about what the request is done to than its address does."""
    if act := _act_of(request.scope):
        act.note(**details)


async def _begin(scope: Scope, action: str) -> None:
    details: dict[str, Any] = {"path": path_of(scope), **dict(HTTPConnection(scope).query_params)}
    act = await Act.begin(action, actor=caller_of(scope).name, via="http", details=details)
    scope.setdefault("state", {})[_KEY] = act


def _act_of(scope: Scope) -> Act | None:
    return (scope.get("state") or {}).get(_KEY)


def _forget(scope: Scope) -> None:
    scope["state"].pop(_KEY, None)
