"""What browsers can be made to send by pages that are not ours, and what of it is refused.

A page of any site may let its visitor's browser send requests to servers that only the visitor can reach: this one, on
loopback or inside a network. Two ways, two checks.

    Hosts     A page at `http://evil.example:8000` whose name suddenly points here (DNS rebinding) is, for the browser,
              a page of this server: it may send anything, and read the answers. Its requests name `evil.example` as
              their Host. So names that nobody said are ours get no answer, reads included. Addresses (`10.0.0.7`) are
              answered: a page cannot make an address point elsewhere.
    Origins   A form, picture or script of another site can send a request, though not read the answer. Browsers say in
              `Sec-Fetch-Site` and `Origin` for whom they send it. So what would change something is refused when it
              comes for a page of another origin.

The API key protects against both, since no page of another site knows it. Programs send neither header, and go on as
ever.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from soliplex.ingester.lib.config import ServerSettings
from soliplex.ingester.server.access import SAFE_METHODS, changes_state
from soliplex.ingester.server.auth import caller_of
from soliplex.ingester.server.errors import ForeignHostError, ForeignOriginError, SilentBrowserError, refuse

LOOPBACK: Final = "localhost"
ANY: Final = "*"
_BROWSERS: Final = "Mozilla/"
"""How the User-Agent of every browser begins."""


@dataclass(frozen=True, slots=True)
class Served:
    """How the server was started, as far as requests can tell of it."""

    host: str | None = None
    """The name or address that it was told to listen on."""
    behind_proxy: bool = False
    """Whether the headers of a proxy in front are believed."""


class Hosts:
    """Answers only under its own names: those of TRUSTED_HOSTS, or else of loopback, and any address.

    In TRUSTED_HOSTS, `*.example.org` stands for all names below one, and `*` for all names there are.
    """

    def __init__(self, app: ASGIApp, *, settings: ServerSettings, served: Served) -> None:
        self._app = app
        self._trusted = tuple(name.lower() for name in settings.trusted_hosts)
        self._own = (served.host or LOOPBACK).lower()
        # A user whom a header names can be named by a page, too: only the key proves anything.
        self._key_protects = settings.api_key_enabled and not settings.auth_trust_proxy_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"} and not self._answers_to(host := host_of(Headers(scope=scope))):
            await refuse(ForeignHostError(host), scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _answers_to(self, host: str) -> bool:
        if self._trusted:
            return any(_fits(host, known) for known in self._trusted)
        # Every browser names a host: a request without one comes from no page.
        return self._key_protects or not host or host == self._own or _is_loopback_name(host) or _is_address(host)


def host_of(headers: Headers) -> str:
    """The name in the Host header, without its port."""
    host = headers.get("host", "").strip().lower()
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[")
    return host.partition(":")[0].removesuffix(".")


def _fits(host: str, known: str) -> bool:
    return known in {ANY, host} or (known.startswith("*.") and host.endswith(known[1:]))


def _is_loopback_name(host: str) -> bool:
    return host == LOOPBACK or host.endswith(f".{LOOPBACK}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Origins:
    """Refuses what would change something when a browser sends it for a page of another origin.

    `Sec-Fetch-Site` decides where a browser sends it: it cannot be wrong, not even behind a proxy that changes the
    Host. Browsers leave it out on plain HTTP beyond loopback: then the Origin must be that of the Host, and where that
    is missing too, as with a GET, the Referer's. A browser that says none of the three was told by a page to keep
    silent; a browser is known by its User-Agent, which no page can change for a request to another site.
    """

    def __init__(self, app: ASGIApp, *, settings: ServerSettings, served: Served) -> None:
        self._app = app
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in settings.allowed_origins)
        self._behind_proxy = served.behind_proxy or settings.auth_trust_proxy_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and changes_state(scope) and not caller_of(scope).shows_key:
            headers = Headers(scope=scope)
            if not self._may_change(headers):
                await refuse(ForeignOriginError(_origin(headers)), scope, receive, send)
                return
            if scope["method"] in SAFE_METHODS and self._hides_its_page(headers):
                await refuse(SilentBrowserError(), scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _may_change(self, headers: Headers) -> bool:
        origin, site = _origin(headers), headers.get("sec-fetch-site")
        if origin is not None and (ANY in self._allowed or origin in self._allowed):
            return True
        if site is not None:
            return site in {"same-origin", "none"}
        return origin is None or _authority(origin) in self._own_authorities(headers)

    def _hides_its_page(self, headers: Headers) -> bool:
        """Whether a browser does not say for which page it sends this. With anything but a GET, all of them say it."""
        is_told = _origin(headers) is not None or "sec-fetch-site" in headers or ANY in self._allowed
        return not is_told and headers.get("user-agent", "").startswith(_BROWSERS)

    def _own_authorities(self, headers: Headers) -> set[str]:
        """`host:port` as the browser knows it. The scheme is left out: TLS may end at a proxy that does not tell."""
        named = [headers.get("host", "")]
        if self._behind_proxy:
            named.append(headers.get("x-forwarded-host", "").partition(",")[0])
        return {name.strip().lower() for name in named} - {""}


def _origin(headers: Headers) -> str | None:
    """The origin of the page; None for a program that is no browser, or a browser that does not say."""
    if (origin := headers.get("origin")) is not None:
        return origin.lower()
    if referer := headers.get("referer"):
        scheme, _, rest = referer.lower().partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"
    return None


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
