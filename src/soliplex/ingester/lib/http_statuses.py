"""Which answers over HTTP are about the moment and not about the request: the same request may succeed later."""

from __future__ import annotations

from collections.abc import Mapping
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


def may_pass(status: int) -> bool:
    """Whether a server that we know nothing about may answer the same request otherwise, later.

    Beside the statuses of `PASSING`, these are all from 500 on: errors of the server's own, which it may recover from.
    Who knows a server's own errors to be lasting asks for `PASSING` alone.
    """
    return status in PASSING or status >= FIRST_OF_SERVERS
