"""Where webhooks may go: to public addresses, and to what the settings allow besides."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.guarded_http import (
    USUAL_PORTS,
    Exempt,
    ForbiddenAddressError,
    Resolver,
    resolve,
    see_allowed,
)
from soliplex.ingester.lib.webhooks.messages import check_url

_FIX: Final = "add it to WEBHOOK_ALLOWED_TARGETS on the server"
_LOOK_UP_SECONDS: Final = 3.0


def exempt_targets(settings: Settings) -> Exempt:
    """The private hosts and networks that the settings allow."""
    return Exempt.read(settings.webhook_allowed_targets, fix=_FIX)


async def check_target(url: str, settings: Settings, *, field: str = "url", resolver: Resolver = resolve) -> None:
    """Refuse an address that no webhook may go to, before anything is stored; the error names the field.

    A host that is not known now may be known later: that is no reason to refuse it. Every delivery looks again.
    """
    parts = urlsplit(check_url(url, field))
    if settings.allow_private_addresses:
        return
    host, port = parts.hostname or "", parts.port or USUAL_PORTS[parts.scheme]
    try:
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            addresses = await resolver(host, port)
    except (OSError, UnicodeError, TimeoutError):
        return
    try:
        see_allowed(host, addresses, exempt_targets(settings))
    except ForbiddenAddressError as exc:
        raise InvalidInputError(field, str(exc)) from exc
