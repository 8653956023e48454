"""`si-cli mcp`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server
from soliplex.ingester.lib.errors import ConflictError, MissingPackageError

if TYPE_CHECKING:
    import socket

_LARGEST_PORT = 65535


async def mcp(
    *,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Answer over HTTP, at /mcp; a port of 0 takes a free one."),
    ] = None,
    allow_ingest: Annotated[
        list[Path] | None,
        typer.Option(
            "--allow-ingest",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Let assistants ingest what lies in this folder; may be repeated.",
        ),
    ] = None,
    server: Server = None,
) -> None:
    """Offer the knowledge base to assistants (MCP).

    Over standard input and output, for a client that starts this command, or over HTTP. Assistants can search, read
    documents and list sources. Over HTTP they are asked for API_KEY where that is set. Ctrl-C stops it.
    """
    from soliplex.ingester.cli.stop_signals import stopping_on_signals
    from soliplex.ingester.installation.ingester import Ingester
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.logs import configure_logging

    _see_that_it_is_installed()
    address = None if http is None else _bound(*_host_and_port(http))
    with address or nullcontext(), stopping_on_signals() as stopping:
        settings = get_settings()
        configure_logging(settings)
        from soliplex.ingester.mcp_server.folders import AllowedFolders
        from soliplex.ingester.mcp_server.tools import mcp_server

        async with Ingester(server=server) as ingester:
            tools = mcp_server(ingester, AllowedFolders(allow_ingest or []))
            if address is None:
                from soliplex.ingester.mcp_server.over_stdio import serve_stdio

                if sys.stdin.isatty():
                    tell("Speaking MCP over standard input and output: an assistant's program starts this command.")
                await serve_stdio(tools, stopping)
            else:
                from soliplex.ingester.mcp_server.over_http import PATH, serve_http

                host, port = address.getsockname()[:2]
                tell(f"Speaking MCP at http://{f'[{host}]' if ':' in host else host}:{port}{PATH}; Ctrl-C stops it")
                await serve_http(tools, settings, address, _host_and_port(http or "")[0], stopping)


def _see_that_it_is_installed() -> None:
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise MissingPackageError("mcp", "`si-cli mcp`", extra="mcp")


def _host_and_port(given: str) -> tuple[str, int]:
    host, _, port = given.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > _LARGEST_PORT:
        raise typer.BadParameter(f"{given!r} is not of the form HOST:PORT, such as 127.0.0.1:8100", param_hint="--http")
    return host, int(port)


def _bound(host: str, port: int) -> socket.socket:
    import socket

    from soliplex.ingester.mcp_server.over_http import bound

    try:
        return bound(host, port)
    except socket.gaierror as error:
        raise typer.BadParameter(
            f"{host!r} is no address of this machine ({error.strerror})", param_hint="--http"
        ) from None
    except OSError as error:
        raise ConflictError(f"{host}:{port} cannot be listened on: {error.strerror}; choose another port") from error
