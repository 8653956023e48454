"""The tools over HTTP, for clients that have the key.

The checks are those of the HTTP server: pages of other sites are refused by their Host and Origin (`server/sites.py`),
and so is whoever does not show the key where one is set (`server/auth.py`). Heads that are large or slow end the
connection (`server/connections.py`), bodies that do not come on end the request (`server/bodies.py`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, override

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.meanwhile import meanwhile
from soliplex.ingester.server.auth import Authentication
from soliplex.ingester.server.bodies import BodyPace
from soliplex.ingester.server.connections import BoundedConnection
from soliplex.ingester.server.sites import Hosts, Origins, Served

PATH: Final = "/mcp"
LAST_ANSWERS: Final = 3
"""Seconds that answers under way have to end once the server is told to stop: streams never end by themselves."""


def http_app(server: MCPServer, settings: Settings, host: str) -> ASGIApp:
    """The application that is served over HTTP."""
    # Ours is the check of hosts: the package's own knows neither TRUSTED_HOSTS nor addresses of any network.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, transport_security=unchecked, host=host)
    # Clients act with the key that this process shows to a server: so where there is a key, they must show it, too.
    asking = settings.model_copy(update={"api_key_enabled": settings.api_key is not None})
    served = Served(host=host)
    # How large a body may be, the package itself bounds.
    app = BodyPace(app, settings=asking)
    app = Origins(app, settings=asking, served=served)
    app = Authentication(app, settings=asking)
    return Hosts(app, settings=asking, served=served)


async def serve_http(
    server: MCPServer, settings: Settings, address: socket.socket, host: str, stopping: asyncio.Event
) -> None:
    """Serve until the event says to stop."""
    config = uvicorn.Config(
        http_app(server, settings, host),
        http=BoundedConnection,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    http = _Server(config)
    async with meanwhile(_stop_when_told(http, stopping)):
        await http.serve([address])


class _Server(uvicorn.Server):
    @contextmanager
    @override
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command, which has its own use for them."""
        yield


async def _stop_when_told(http: uvicorn.Server, stopping: asyncio.Event) -> None:
    await stopping.wait()
    http.should_exit = True


def bound(host: str, port: int) -> socket.socket:
    """A socket at the address, before anything else is begun: OSError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = socket.socket(family)
    address.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        address.bind((host, port))
    except BaseException:
        address.close()
        raise
    return address
