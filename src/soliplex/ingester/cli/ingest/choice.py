"""Which target a command means: this installation, or with `--server` another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.lib.errors import InvalidInputError

if TYPE_CHECKING:
    from soliplex.ingester.installation.protocol import Installation


def _checked(url: str | None) -> str | None:
    from soliplex.ingester.installation.which_installation import checked_address

    try:
        return None if url is None else checked_address(url)
    except InvalidInputError as error:
        raise typer.BadParameter(error.problem) from None


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
    from soliplex.ingester.installation.which_installation import open_installation
    from soliplex.ingester.lib.scratch import lend_folder

    if server is None:
        lend_folder()
    async with open_installation(server, tell=tell) as installation:
        yield installation
