"""Which installation is meant: that of the settings, in this process, or one behind a server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wiring import wiring_for

if TYPE_CHECKING:
    from soliplex.ingester.installation.protocol import Installation
    from soliplex.ingester.lib.config import Settings

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_installation(
    server: str | None = None,
    *,
    settings: Settings | None = None,
    api_key: str | None = None,
    tell: Callable[[str], None] = _log.warning,
) -> AsyncGenerator[Installation]:
    """The installation behind the server, or without one that of the settings, for the time of the block.

    Settings that are not given are those of the environment; a server is shown their API_KEY where no other key is
    given. `tell` is told when a server makes us wait. What only one of the two needs is imported only for it.
    """
    if server is None:
        from soliplex.ingester.installation.local_installation import open_local  # noqa: PLC0415

        async with open_local(wiring_for(settings)) as here:
            yield here
    else:
        from soliplex.ingester.installation.remote_installation import open_remote  # noqa: PLC0415

        url = checked_address(server)
        key = api_key or _key_in(wiring_for(settings).settings)
        async with open_remote(url, api_key=key, tell=tell) as there:
            yield there


def _key_in(settings: Settings) -> str | None:
    return settings.api_key.get_secret_value() if settings.api_key else None


def checked_address(server: str) -> str:
    """The address of a server; InvalidInputError if it cannot be one."""
    if not server.startswith(("http://", "https://")):
        raise InvalidInputError("server", f"{server!r} must begin with http:// or https://")
    return server
