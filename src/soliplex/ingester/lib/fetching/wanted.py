"""What a scheme is asked for: an address and the terms on which its document is fetched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from soliplex.ingester.lib.config import StorageSettings
from soliplex.ingester.lib.guarded_http import Resolver, resolve


@dataclass(frozen=True, slots=True)
class Wanted:
    """A document that somebody names by its address."""

    uri: str
    parts: SplitResult
    settings: StorageSettings
    """Which places may be read."""
    limit: int | None = None
    """Most bytes it may have. The fetcher counts what comes; a scheme that knows the size before may refuse earlier."""
    resolver: Resolver = resolve


type Scheme = Callable[[Wanted], AsyncGenerator[bytes]]
"""Gives the bytes of the document; who stops early closes it.

InputRefusedError before the first of them, if the document may not be had; FetchFailedError, if trying again may help.
"""


def without_secrets(uri: str) -> str:
    """The URI without user, password, query and fragment, any of which may hold a secret."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
