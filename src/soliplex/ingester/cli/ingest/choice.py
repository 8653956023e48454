"""Which target a command means: this installation, or with `--server` another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from soliplex.ingester.cli.ingest.target import Installation


def _checked(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{url!r} must begin with http:// or https://")
    return url


Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="INGESTER_SERVER",
        metavar="URL",
        callback=_checked,
        help="Ask this server instead of working in this process.",
    ),
]


@asynccontextmanager
async def open_target(server: str | None, tell: Callable[[str], None]) -> AsyncGenerator[Installation]:
    """The server of this address, or without one this installation, for the time of the block."""
    from soliplex.ingester.lib.config import get_settings

    settings = get_settings()
    if server is None:
        from soliplex.ingester.cli.ingest.local import open_local

        async with open_local(settings) as target:
            yield target
    else:
        from soliplex.ingester.cli.ingest.remote import open_remote

        key = settings.api_key.get_secret_value() if settings.api_key else None
        async with open_remote(server, api_key=key, tell=tell) as target:
            yield target
