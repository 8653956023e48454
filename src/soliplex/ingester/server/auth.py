"""Who sends a request: nobody is asked, unless the settings say so.

Whoever is not acceptable gets no further than here, whatever the path, but for what `access.OPEN` names. Checked before
a byte of the body is read: a stranger cannot make the server take in an upload only to refuse it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from soliplex.ingester.lib.config import ServerSettings
from soliplex.ingester.server.access import is_open
from soliplex.ingester.server.errors import UnauthorizedError, refuse

_USER_HEADERS: Final = ("x-auth-request-user", "x-forwarded-user")
_EMAIL_HEADERS: Final = ("x-auth-request-email", "x-forwarded-email")
_GROUP_HEADERS: Final = ("x-auth-request-groups", "x-forwarded-groups")

# For the documentation only: what is asked for is checked by the middleware.
DOCUMENTED: Final = Security(HTTPBearer(auto_error=False, description="API_KEY, when API_KEY_ENABLED is true."))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as far as anybody asked."""

    name: str
    email: str | None = None
    groups: tuple[str, ...] = ()
    shows_key: bool = False
    """Whether the request bears the API key, which no page of another origin can know."""


ANYONE: Final = Caller("anyone")
"""The caller where the settings ask for no key."""
STRANGER: Final = Caller("stranger")
"""The caller of an open route that shows no key."""


class Authentication:
    """Lets through who presents the key, or whom a trusted proxy names; the caller is then in `scope["state"]`."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            try:
                caller = identify(Headers(scope=scope), self._settings)
            except UnauthorizedError as error:
                if not is_open(scope):
                    await refuse(error, scope, receive, send)
                    return
                caller = STRANGER
            scope.setdefault("state", {})["caller"] = caller
            structlog.contextvars.bind_contextvars(user=caller.name)
        await self._app(scope, receive, send)


def caller_of(scope: Scope) -> Caller:
    """Who sends the request, as `Authentication` found it."""
    state: dict[str, Any] = scope.get("state") or {}
    return state.get("caller", ANYONE)


def identify(headers: Headers, settings: ServerSettings) -> Caller:
    """Tell who sends the request; raises when nobody acceptable does."""
    if not (settings.api_key_enabled or settings.auth_trust_proxy_headers):
        return ANYONE
    shows_key = settings.api_key_enabled and _has_key(headers, settings)
    if settings.auth_trust_proxy_headers and (caller := _named_by_proxy(headers)):
        return replace(caller, shows_key=shows_key)
    if shows_key:
        return Caller("api-key", shows_key=True)
    if settings.api_key_enabled:
        raise UnauthorizedError("send the API key as `Authorization: Bearer <key>`")
    raise UnauthorizedError("sign in first: the proxy in front of this server names no user")


def _named_by_proxy(headers: Headers) -> Caller | None:
    name = _first(headers, _USER_HEADERS)
    if not name:
        return None
    groups = _first(headers, _GROUP_HEADERS) or ""
    listed = tuple(group.strip() for group in groups.split(",") if group.strip())
    return Caller(name, _first(headers, _EMAIL_HEADERS), listed)


def _first(headers: Headers, names: tuple[str, ...]) -> str | None:
    return next((headers[name] for name in names if headers.get(name)), None)


def _has_key(headers: Headers, settings: ServerSettings) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    # This takes the same time whatever was sent, so its duration tells nothing about the key.
    is_right = hmac.compare_digest(given.strip().encode(), key.encode())
    return scheme.lower() == "bearer" and bool(key) and is_right
