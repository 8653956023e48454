"""What every request passes through on its way in, and every answer on its way out, the outermost first.

    Wired             what the application is made of (lib/wiring.py), bound to all that the request causes
    RequestContext    an id for the request, in its log lines and its answer; the access log; its time and count
    SecurityHeaders   what browsers are told about every answer
    Hosts             only host names the server answers to (sites.py)
    CORSMiddleware    pages of other origins (Starlette's)
    Authentication    who sends it (auth.py)
    PlainPaths        no path that only seems to be another
    Origins           no changes for pages of other origins (sites.py)
    BodyPace          how slowly a body may come (bodies.py)
    UploadGate        how many uploads, and how often (rate_limit.py)
    Failures          a bug becomes a JSON answer, and a traceback in the log
    BodyBound         how much of a body is read (bodies.py)
    Audited           what stops, repeats or deletes something is written down (auditing.py)

All of them are plain ASGI: none holds back a body that is streamed in or out.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import cache
from http import HTTPStatus
from random import getrandbits
from typing import Any, Final

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wiring import Wiring
from soliplex.ingester.server import metrics, pages, ui
from soliplex.ingester.server.access import Routes, path_of
from soliplex.ingester.server.auditing import Audited
from soliplex.ingester.server.auth import Authentication
from soliplex.ingester.server.bodies import BodyBound, BodyPace
from soliplex.ingester.server.errors import answer_for, refuse
from soliplex.ingester.server.rate_limit import UploadGate
from soliplex.ingester.server.sites import Hosts, Origins, Served

_access = logging.getLogger("soliplex.ingester.access")
_log = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET: Final = frozenset({"/health", "/health/ready", "/metrics"})
_YEAR: Final = 365 * 24 * 3600

PREFIX: Final = "/api/v1"

SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
API_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
_POLICY: Final = "Content-Security-Policy"


def install_middleware(app: FastAPI, wiring: Wiring, served: Served) -> None:
    settings = wiring.settings
    # The middleware that is added last is the outermost.
    app.add_middleware(Audited, routes=cache(lambda: Routes(app)))
    app.add_middleware(BodyBound)
    app.add_middleware(Failures, debug=settings.debug)
    app.add_middleware(UploadGate, settings=settings)
    # Outside the gate, so that the time that a request waits there does not count.
    app.add_middleware(BodyPace, settings=settings)
    app.add_middleware(Origins, settings=settings, served=served)
    app.add_middleware(PlainPaths)
    app.add_middleware(Authentication, settings=settings, routes=cache(lambda: Routes(app)))
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allowed_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            allow_credentials="*" not in settings.allowed_origins,
            expose_headers=["X-Request-ID", "X-Total-Count", "Link"],
        )
    app.add_middleware(Hosts, settings=settings, served=served)
    app.add_middleware(SecurityHeaders, hsts=settings.enable_hsts)
    app.add_middleware(RequestContext)
    app.add_middleware(Wired, wiring=wiring)


class Wired:
    """Binds the application's wiring to the request: the process may have other applications."""

    def __init__(self, app: ASGIApp, *, wiring: Wiring) -> None:
        self._app = app
        self._wiring = wiring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._wiring.bound():
            await self._app(scope, receive, send)


class RequestContext:
    """Gives each request an id, or keeps the one it came with, and tells of its end in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope))
        status = HTTPStatus.INTERNAL_SERVER_ERROR

        def note(message: Message, headers: MutableHeaders) -> None:
            nonlocal status
            status = message["status"]
            headers["X-Request-ID"] = request_id

        started = time.perf_counter()
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, _with_headers(send, note))
        finally:
            _tell(scope, status, time.perf_counter() - started)
            structlog.contextvars.clear_contextvars()


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    # Ids are told apart, and need not be hard to guess: those of `uuid4` take a call of the system each.
    return given if _REQUEST_ID.fullmatch(given) else f"{getrandbits(128):032x}"


def _tell(scope: Scope, status: int, seconds: float) -> None:
    metrics.count_request(scope["method"], _route_of(scope), status, seconds)
    level = logging.DEBUG if path_of(scope) in _QUIET else logging.INFO
    if not _access.isEnabledFor(level):
        return
    client = (scope.get("client") or ("-",))[0]
    extra = {"method": scope["method"], "path": scope["path"], "status": int(status), "client": client}
    extra["duration_ms"] = round(seconds * 1000, 1)
    # Not by `log`, which would search the stack for the calling line of code: for every request, that is this line.
    _access.handle(_access.makeRecord(_access.name, level, __file__, 0, "request", (), None, extra=extra))


def _route_of(scope: Scope) -> str:
    """The route's path as the documentation writes it; a router's own routes do not know what stands before them."""
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    if path is None:
        return "unknown"
    return path if path.startswith(PREFIX) or not path_of(scope).startswith(PREFIX) else PREFIX + path


class SecurityHeaders:
    """Tells browsers not to guess, frame, or leak."""

    def __init__(self, app: ASGIApp, *, hsts: bool) -> None:
        self._app = app
        always = SECURITY_HEADERS | (
            {"Strict-Transport-Security": f"max-age={_YEAR}; includeSubDomains"} if hsts else {}
        )
        policies = {**dict.fromkeys(pages.PAGES, pages.POLICY), ui.HOME: ui.POLICY}
        self._of_pages = {path: Headers({**always, _POLICY: policy}).raw for path, policy in policies.items()}
        self._of_the_rest = Headers({**always, _POLICY: API_POLICY}).raw

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = self._of_pages.get(path_of(scope), self._of_the_rest)

        def add(_message: Message, headers: MutableHeaders) -> None:
            has = {name for name, _ in headers.raw}
            headers.raw.extend(each for each in told if each[0] not in has)

        await self._app(scope, receive, _with_headers(send, add))


class PlainPaths:
    """Refuses paths that end in a newline (`%0A`).

    The router takes `/upload` and a newline for `/upload`, since `$` in a pattern fits before a last newline. Once such
    paths are refused, a path is equal to that of a route exactly where the router takes it for that route.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith("\n"):
            await refuse(InvalidInputError("path", "ends in a newline"), scope, receive, send)
            return
        await self._app(scope, receive, send)


class Failures:
    """Answers for what nobody foresaw, so that the answer has an id and the log the reason."""

    def __init__(self, app: ASGIApp, *, debug: bool) -> None:
        self._app = app
        self._debug = debug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http" or has_begun:
                _log.exception("a request failed after its answer had begun")
                raise
            await answer_for(error, debug=self._debug)(scope, receive, send)


def _with_headers(
    send: Send, change: Callable[[Message, MutableHeaders], None]
) -> Callable[[Message], Awaitable[None]]:
    async def changed(message: Message) -> None:
        if message["type"] == "http.response.start":
            change(message, MutableHeaders(scope=message))
        await send(message)

    return changed
