"""What answers over HTTP say about trying again: whether the same request may succeed later, and when to make it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

PASSING: Final[Mapping[int, str]] = {
    408: "the request came too slowly, or its connection stalled",
    425: "the server acts on requests only once it knows that they are not replayed",
    429: "the server was asked too often",
    502: "a proxy got no usable answer from the server behind it, which may be starting",
    503: "the server is overloaded, or about to end",
    504: "a proxy waited for the server behind it in vain",
}
"""Statuses that say so themselves, with the reason."""
FIRST_OF_SERVERS: Final = 500
LONGEST_WISH: Final = timedelta(days=365)
"""A server that asks to be left alone for longer is not believed."""


def may_pass(status: int) -> bool:
    """Whether a server that we know nothing about may answer the same request otherwise, later.

    Beside the statuses of `PASSING`, these are all from 500 on: errors of the server's own, which it may recover from.
    Who knows a server's own errors to be lasting asks for `PASSING` alone.
    """
    return status in PASSING or status >= FIRST_OF_SERVERS


def wait_asked_for(headers: Mapping[str, str]) -> timedelta | None:
    """How long a server asks to be left alone, by `Retry-After` in seconds; None if it does not ask, or by a date."""
    text = headers.get("Retry-After", "").strip()
    # Not by int() alone: it takes digits of any script, and any number of them.
    if not (text.isascii() and text.isdecimal() and len(text) <= len("999999999")):
        return None
    asked = timedelta(seconds=int(text))
    return asked if asked <= LONGEST_WISH else None
