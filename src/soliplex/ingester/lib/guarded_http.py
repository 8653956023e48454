"""An HTTP client for addresses that somebody else chose: documents to fetch, callbacks to call.

Such an address may point at this machine or its neighbours, which trust us and not its author. So a host's name is
resolved here, every address it has is checked, and the connection goes to a checked one: resolving again would give the
name's owner a second chance to answer otherwise. Redirects pass through the same gate. TLS and the Host header keep the
name. No proxy of the environment is used; it would resolve names by itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self, override

import httpx

from soliplex.ingester.lib.errors import IngesterError

_log = logging.getLogger(__name__)

type Address = IPv4Address | IPv6Address
type Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

MOST_REDIRECTS: Final = 5
MOST_ADDRESSES: Final = 4
"""Most addresses of a host that are tried, one after the other."""
CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0
"""Longest time in which a server may send nothing."""
USUAL_PORTS: Final = {"http": 80, "https": 443}
_NAT64: Final = IPv6Network("64:ff9b::/96")


class ForbiddenAddressError(IngesterError):
    """A URL leads to an address that nobody outside may make us talk to.

    Which address that is stands in the log only: who names the URL must not learn where the machines inside are.
    """

    def __init__(self, host: str, *, fix: str = "set ALLOW_PRIVATE_ADDRESSES=true on the server") -> None:
        super().__init__(f"{host} is not at a public address; if it may be used, {fix}")
        self.host = host


@dataclass(frozen=True, slots=True)
class Exempt:
    """Hosts and networks that may be talked to though they are private."""

    hosts: tuple[str, ...] = ()
    """Names of hosts, in which an asterisk stands for any part."""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    fix: str = "set ALLOW_PRIVATE_ADDRESSES=true on the server"
    """What somebody can do whose address is refused."""

    @classmethod
    def read(cls, items: Iterable[str], *, fix: str) -> Self:
        """From texts, each the name of a host, an address or a network."""
        hosts, networks = list[str](), list[IPv4Network | IPv6Network]()
        for item in items:
            try:
                networks.append(ip_network(item))
            except ValueError:
                hosts.append(item.lower())
        return cls(tuple(hosts), tuple(networks), fix)

    def covers(self, host: str, address: str) -> bool:
        ip = _innermost(ip_address(address))
        return any(fnmatchcase(host.lower(), name) for name in self.hosts) or any(ip in each for each in self.networks)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Every address of the host, as the system resolves it."""
    with suppress(ValueError):  # an address needs no look-up, which would cost a thread
        return [str(ip_address(host))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def is_public(address: str) -> bool:
    """Whether anyone on the net may be sent there. An IPv4 address within an IPv6 one is judged as what it is."""
    ip = _innermost(ip_address(address))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _innermost(ip: Address) -> Address:
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    teredo = ip.teredo[1] if ip.teredo else None
    return ip.ipv4_mapped or ip.sixtofour or teredo or ip


NONE_EXEMPT: Final = Exempt()


class GuardedTransport(httpx.AsyncBaseTransport):
    """Connects to checked addresses only."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        allow_private: bool,
        exempt: Exempt = NONE_EXEMPT,
        resolver: Resolver = resolve,
    ) -> None:
        self._inner = inner
        self._allow_private = allow_private
        self._exempt = exempt
        self._resolve = resolver

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        *others, last = await self._checked_addresses(request)
        for address in others:
            # A machine without IPv6, or a server that listens at one of its addresses only: nothing was sent yet.
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._inner.handle_async_request(_pinned(request, address))
        return await self._inner.handle_async_request(_pinned(request, last))

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _checked_addresses(self, request: httpx.Request) -> Sequence[str]:
        """Where to connect to: the addresses of the host, all of which may be talked to, in the order of trying."""
        host = request.url.host
        usual_port = USUAL_PORTS.get(request.url.scheme)
        if usual_port is None:  # a redirect may lead anywhere
            raise httpx.UnsupportedProtocol(f"{request.url.scheme}:// is not http", request=request)
        port = request.url.port or usual_port
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                addresses = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError) as exc:
            raise httpx.ConnectError(f"the host {host!r} is not known", request=request) from exc
        if not self._allow_private:
            see_allowed(host, addresses, self._exempt)
        if not addresses:
            raise httpx.ConnectError(f"the host {host!r} has no address", request=request)
        return addresses[:MOST_ADDRESSES]


def _pinned(request: httpx.Request, address: str) -> httpx.Request:
    """The request to this address; TLS and the Host header keep the name."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


def see_allowed(host: str, addresses: Sequence[str], exempt: Exempt = NONE_EXEMPT) -> None:
    """Refuse a host that has a private address, unless that is exempt."""
    # All of them: a name with one public address among private ones is a trick.
    for address in addresses:
        if not is_public(address) and not exempt.covers(host, address):
            _log.warning("refused to connect to %r: it is at %s, which is not a public address", host, address)
            raise ForbiddenAddressError(host, fix=exempt.fix)


def guarded_client(
    *,
    allow_private: bool,
    exempt: Exempt = NONE_EXEMPT,
    resolver: Resolver = resolve,
    follow_redirects: bool = True,
    tls: ssl.SSLContext | None = None,
    limits: httpx.Limits = httpx.Limits(max_connections=100, max_keepalive_connections=20),  # noqa: B008  immutable
) -> httpx.AsyncClient:
    """A client that goes nowhere it must not, and waits for nobody too long. The caller closes it.

    Whoever makes many gives them one context for TLS: reading the certificates takes as long as some requests.
    """
    # From the environment come SSL_CERT_FILE and SSL_CERT_DIR, and nothing else.
    connections = httpx.AsyncHTTPTransport(verify=tls or True, trust_env=True, retries=1, limits=limits)
    transport = GuardedTransport(connections, allow_private=allow_private, exempt=exempt, resolver=resolver)
    return httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=follow_redirects,
        max_redirects=MOST_REDIRECTS,
        timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        headers={"User-Agent": "soliplex-ingester"},
    )
