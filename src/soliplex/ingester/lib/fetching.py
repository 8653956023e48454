"""Documents that a client names instead of sending them: `input_uri`.

    file:///folder/name     below INPUT_FILE_ROOTS only, after all links are followed
    s3://bucket/key         from the bucket INPUT_S3 only
    http(s)://host/path     through the guarded client; no private addresses, within size and time

What a client may not have, it is told it may not have, in one kind of error, whatever the reason: an answer that told
apart "not there" and "not yours" below a forbidden folder would let strangers list this machine's files.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import SplitResult, unquote, urlsplit

import httpx

from soliplex.ingester.lib.config import StorageSettings, get_settings
from soliplex.ingester.lib.errors import IngesterError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.guarded_http import ForbiddenAddressError, Resolver, guarded_client, resolve
from soliplex.ingester.lib.storage.blobs import BLOCK
from soliplex.ingester.lib.storage.errors import DocumentTooLargeError
from soliplex.ingester.lib.storage.objects import ObjectBlobs, open_operator, s3_options
from soliplex.ingester.lib.storage.threads import in_thread

FIELD: Final = "input_uri"
SCHEMES: Final = ("file", "s3", "http", "https")
DECODED: Final = frozenset({"", "identity", "gzip", "deflate"})
"""Encodings that grow a thousandfold at most; others could fill the memory out of one small block."""


class InputRefusedError(InvalidInputError):
    """The address may not be fetched, or nothing is there."""

    def __init__(self, problem: str, field: str = FIELD) -> None:
        super().__init__(field, problem)


class FetchFailedError(IngesterError):
    """The place exists and may be asked, but did not give the document; trying again may help."""

    def __init__(self, uri: str, problem: str) -> None:
        super().__init__(f"{without_secrets(uri)} could not be fetched: {problem}")
        self.problem = problem


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
        match parts.scheme:
            case "file":
                blocks = self._from_file(parts)
            case "s3":
                blocks = self._from_bucket(uri, parts)
            case "http" | "https":
                blocks = self._from_web(uri, limit)
            case _:
                raise _unknown_scheme(parts.scheme, FIELD)
        return _limited(blocks, limit)

    async def _from_file(self, parts: SplitResult) -> AsyncGenerator[bytes]:
        if parts.netloc not in {"", "localhost"}:
            raise InputRefusedError(f"file://{parts.netloc}/… names another machine; write file:///folder/name")
        file = await in_thread(open_below, unquote(parts.path), self._settings.input_file_roots)
        try:
            while block := await in_thread(file.read, BLOCK):
                yield block
        finally:
            file.close()

    async def _from_bucket(self, uri: str, parts: SplitResult) -> AsyncGenerator[bytes]:
        bucket = self._settings.input_s3
        if bucket.bucket is None or parts.netloc != bucket.bucket:
            raise InputRefusedError(f"the bucket {parts.netloc!r} is not the one that documents may be read from")
        # In s3:// a key is written as it is; ? and # are letters like any other.
        name = uri.partition("://")[2].partition("/")[2]
        if not name or name.endswith("/"):
            raise InputRefusedError(f"s3://{parts.netloc}/{name} names no object")
        store = ObjectBlobs("s3", open_operator("s3", s3_options(bucket), setting="INPUT_S3"))
        try:
            async with aclosing(store.read_object(name)) as blocks:
                async for block in blocks:
                    yield block
        except NotFoundError as exc:
            raise InputRefusedError(f"there is no object {name!r} in the bucket {parts.netloc!r}") from exc

    async def _from_web(self, uri: str, limit: int | None) -> AsyncGenerator[bytes]:
        deadline = asyncio.get_running_loop().time() + self._settings.input_http_timeout_seconds
        blocks = self._response(uri, limit)
        async with aclosing(blocks):
            while True:
                try:
                    # Around each step, not around all: between two, the time is the receiver's, whose task this is.
                    async with asyncio.timeout_at(deadline):
                        block = await anext(blocks)
                except StopAsyncIteration:
                    return
                except TimeoutError as exc:
                    seconds = self._settings.input_http_timeout_seconds
                    raise FetchFailedError(uri, f"it took longer than {seconds:g} s") from exc
                yield block

    async def _response(self, uri: str, limit: int | None) -> AsyncGenerator[bytes]:
        allow_private = self._settings.allow_private_addresses
        try:
            async with (
                guarded_client(allow_private=allow_private, resolver=self._resolver) as client,
                client.stream("GET", uri, headers={"Accept-Encoding": "identity"}) as response,
            ):
                _accept(uri, response, limit)
                async for block in response.aiter_bytes(BLOCK):
                    yield block
        except ForbiddenAddressError as exc:
            raise InputRefusedError(str(exc)) from exc
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as exc:
            raise InputRefusedError(f"{without_secrets(uri)}: {exc}") from exc
        except httpx.HTTPError as exc:
            raise FetchFailedError(uri, str(exc) or type(exc).__name__) from exc


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
    return InputRefusedError(f"{scheme or 'no'} scheme is not known; use file://, s3://, http:// or https://", field)


def without_secrets(uri: str) -> str:
    """The URI without user, password, query and fragment, any of which may hold a secret."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def open_below(path: str, roots: Sequence[Path]) -> BinaryIO:
    """Open a plain file for reading if, with all links followed, it lies below one of the roots."""
    refusal = InputRefusedError(f"{path!r} is no file below a folder that documents may be read from")
    try:
        real = Path(path).resolve(strict=True)
        if not any(real.is_relative_to(root.resolve()) for root in roots):
            raise refusal
        # Not blocking: opening a pipe would wait for whoever writes to it. Following no link: one may be new.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError) as exc:
        raise refusal from exc
    if stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_still(real, descriptor):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise refusal


def _is_still(real: Path, descriptor: int) -> bool:
    """Whether what was opened is what was checked: a folder on the way may have become a link in between."""
    try:
        return real.resolve(strict=True) == real and os.path.samestat(real.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _split(uri: str) -> SplitResult:
    if any(ord(letter) < ord(" ") for letter in uri):
        raise InputRefusedError("a URI holds no control characters")
    try:
        return urlsplit(uri)
    except ValueError as exc:
        raise InputRefusedError(f"it is not a URI: {exc}") from exc


def _accept(uri: str, response: httpx.Response, limit: int | None) -> None:
    status = response.status_code
    if status != int(httpx.codes.OK):
        problem = f"the server answered {status} {response.reason_phrase}"
        if httpx.codes.is_client_error(status) and status not in {408, 425, 429}:
            raise InputRefusedError(f"{without_secrets(uri)}: {problem}")
        raise FetchFailedError(uri, problem)
    if response.headers.get("content-encoding", "").strip().lower() not in DECODED:
        raise FetchFailedError(uri, "the server compressed it although asked not to")
    announced = response.headers.get("content-length", "")
    if limit is not None and announced.isdecimal() and int(announced) > limit:
        raise DocumentTooLargeError(limit)


async def _limited(blocks: AsyncGenerator[bytes], limit: int | None) -> AsyncGenerator[bytes]:
    total = 0
    async with aclosing(blocks):
        async for block in blocks:
            total += len(block)
            if limit is not None and total > limit:
                raise DocumentTooLargeError(limit)
            yield block
