"""Who sends a request: nobody is asked, unless the settings say so.

A request that is refused gets no further than this module, whatever its path; only what `access.OPEN` names is answered
to anyone. All is checked before a byte of the body is read: a stranger cannot make the server take in an upload only to
refuse it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from soliplex.ingester.lib.access import Bearer, bearer_of, bearer_of_session
from soliplex.ingester.lib.access.keys import hash_of
from soliplex.ingester.lib.config import ServerSettings
from soliplex.ingester.lib.enums import Scope as Needed
from soliplex.ingester.lib.models import NotInitializedError
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.server.access import Routes, is_open, scope_of
from soliplex.ingester.server.errors import MissingScopeError, UnauthorizedError, answer_for, refuse

_USER_HEADERS: Final = ("x-auth-request-user", "x-forwarded-user")
_EMAIL_HEADERS: Final = ("x-auth-request-email", "x-forwarded-email")
_GROUP_HEADERS: Final = ("x-auth-request-groups", "x-forwarded-groups")

COOKIE: Final = "si_session"
ALL_SCOPES: Final = frozenset(Needed)
TROUBLES: Final = (*TROUBLES_OF_THE_DATABASE, NotInitializedError)

# For the documentation only: what is asked for is checked by the middleware.
DOCUMENTED: Final = Security(
    HTTPBearer(auto_error=False, description="API_KEY or a named key, when API_KEY_ENABLED is true.")
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as far as the settings have it asked."""

    name: str
    email: str | None = None
    groups: tuple[str, ...] = ()
    shows_key: bool = False
    """Whether the request bears an API key, which no page of another origin can know. A cookie is sent for any page."""
    scopes: frozenset[Needed] = ALL_SCOPES


ANYONE: Final = Caller("anyone")
"""The caller where the settings ask for no key."""
STRANGER: Final = Caller("stranger", scopes=frozenset())
"""The caller of an open route that shows no key."""


class Authentication:
    """Lets through who presents a key or a session, or whom a trusted proxy names, if its scopes allow the request.

    The caller is then in `scope["state"]`.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, routes: Callable[[], Routes] | None = None) -> None:
        self._app = app
        self._settings = settings
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            try:
                caller = await identify(Headers(scope=scope), self._settings)
                self._check(caller, scope)
            except UnauthorizedError as error:
                if not is_open(scope):
                    await refuse(error, scope, receive, send)
                    return
                caller = STRANGER
            except TROUBLES as error:
                # Named keys stand in the database. While it cannot be asked, open paths alone are answered.
                if not is_open(scope):
                    await answer_for(error)(scope, receive, send)
                    return
                caller = STRANGER
            except MissingScopeError as error:
                await refuse(error, scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = caller
            structlog.contextvars.bind_contextvars(user=caller.name)
        await self._app(scope, receive, send)

    def _check(self, caller: Caller, scope: Scope) -> None:
        if caller.scopes >= ALL_SCOPES or is_open(scope):
            return
        if self._routes is None:
            # An application whose requests have no scopes of their own, such as that of assistants' tools.
            require(caller, Needed.ADMIN)
            return
        path = self._routes().path_for(scope) if scope["type"] == "http" else None
        if path is None:
            return  # no route is at this path: the answer will be 404, whoever asks
        # A route without a scope in `access.SCOPES` is for administrators only.
        needed = scope_of(scope["method"], path) or Needed.ADMIN
        require(caller, needed)


def require(caller: Caller, needed: Needed) -> None:
    """MissingScopeError, unless the caller may do what needs this scope."""
    if needed not in caller.scopes:
        raise MissingScopeError(caller.name, needed, caller.scopes)


def caller_of(scope: Scope) -> Caller:
    """Who sends the request, as `Authentication` found it."""
    state: dict[str, Any] = scope.get("state") or {}
    return state.get("caller", ANYONE)


async def identify(headers: Headers, settings: ServerSettings) -> Caller:
    """Tell who sends the request; raises when nobody acceptable does."""
    if not (settings.api_key_enabled or settings.auth_trust_proxy_headers):
        return ANYONE
    bearer = await bearer_of_key(_key_in(headers), settings) if settings.api_key_enabled else None
    if settings.auth_trust_proxy_headers and (caller := _named_by_proxy(headers)):
        return replace(caller, shows_key=bearer is not None)
    if bearer is not None:
        return Caller(bearer.name, shows_key=True, scopes=bearer.scopes)
    if settings.api_key_enabled:
        if (token := session_in(headers)) and (found := await bearer_of_session(token, _master(settings))):
            return Caller(found.name, scopes=found.scopes)
        raise UnauthorizedError("send the API key as `Authorization: Bearer <key>`")
    raise UnauthorizedError("sign in first: the proxy in front of this server names no user")


async def bearer_of_key(given: str, settings: ServerSettings) -> Bearer | None:
    """Whose key it is: that of the settings, or a named one; None if it is nobody's."""
    master = _master(settings)
    # This takes the same time whatever was sent, so its duration tells nothing about the key.
    if master is not None and hmac.compare_digest(hash_of(given), master.key_hash):
        return master
    return await bearer_of(given)


def _master(settings: ServerSettings) -> Bearer | None:
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    return Bearer("api-key", ALL_SCOPES, hash_of(key)) if key else None


def session_in(headers: Headers) -> str | None:
    """What the cookie of a browser holds that has logged in."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE)


def _key_in(headers: Headers) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _named_by_proxy(headers: Headers) -> Caller | None:
    name = _first(headers, _USER_HEADERS)
    if not name:
        return None
    groups = _first(headers, _GROUP_HEADERS) or ""
    listed = tuple(group.strip() for group in groups.split(",") if group.strip())
    return Caller(name, _first(headers, _EMAIL_HEADERS), listed)


def _first(headers: Headers, names: tuple[str, ...]) -> str | None:
    return next((headers[name] for name in names if headers.get(name)), None)
