"""Fetching a document from wherever its address says."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import SplitResult, urlsplit

from soliplex.ingester.lib.config import StorageSettings, get_settings
from soliplex.ingester.lib.fetching.errors import FIELD, InputRefusedError
from soliplex.ingester.lib.fetching.registry import SCHEMES, schemes_in_words
from soliplex.ingester.lib.fetching.wanted import Wanted
from soliplex.ingester.lib.guarded_http import Resolver, resolve
from soliplex.ingester.lib.storage.errors import DocumentTooLargeError


class Fetcher:
    """Fetches what the settings allow."""

    def __init__(self, settings: StorageSettings, *, resolver: Resolver = resolve) -> None:
        self._settings = settings
        self._resolver = resolver

    def fetch(self, uri: str, *, limit: int | None) -> AsyncGenerator[bytes]:
        """The document's bytes; who stops early closes it.

        InputRefusedError before the first of them; DocumentTooLargeError once the limit is passed.
        """
        parts = _split(uri)
        if parts.scheme not in SCHEMES:
            raise _unknown_scheme(parts.scheme, FIELD)
        wanted = Wanted(uri, parts, self._settings, limit, self._resolver)
        return _limited(SCHEMES[parts.scheme](wanted), limit)


def fetch(uri: str, *, limit: int | None = None) -> AsyncGenerator[bytes]:
    """As `Fetcher.fetch`, with the process's settings; without a limit, UPLOAD_SIZE_LIMIT."""
    settings = get_settings()
    return Fetcher(settings).fetch(uri, limit=settings.upload_size_limit if limit is None else limit)


def see_scheme(uri: str, field: str = FIELD) -> None:
    """Refuse an address that no kind of place has, before anybody tries to fetch it."""
    try:
        scheme = _split(uri).scheme
    except InputRefusedError as exc:
        raise InputRefusedError(exc.problem, field) from exc
    if scheme not in SCHEMES:
        raise _unknown_scheme(scheme, field)


def _unknown_scheme(scheme: str, field: str) -> InputRefusedError:
    return InputRefusedError(f"{scheme or 'no'} scheme is not known; use {schemes_in_words()}", field)


def _split(uri: str) -> SplitResult:
    if any(ord(letter) < ord(" ") for letter in uri):
        raise InputRefusedError("a URI holds no control characters")
    try:
        return urlsplit(uri)
    except ValueError as exc:
        raise InputRefusedError(f"it is not a URI: {exc}") from exc


async def _limited(blocks: AsyncGenerator[bytes], limit: int | None) -> AsyncGenerator[bytes]:
    total = 0
    async with aclosing(blocks):
        async for block in blocks:
            total += len(block)
            if limit is not None and total > limit:
                raise DocumentTooLargeError(limit)
            yield block
