"""`http://host/path` and `https://host/path`: pages and files of the web, through the guarded client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import httpx

from soliplex.ingester.lib.fetching.errors import FetchFailedError, InputRefusedError
from soliplex.ingester.lib.fetching.wanted import Wanted, without_secrets
from soliplex.ingester.lib.guarded_http import ForbiddenAddressError, guarded_client
from soliplex.ingester.lib.http_statuses import may_pass
from soliplex.ingester.lib.storage.blobs import BLOCK
from soliplex.ingester.lib.storage.errors import DocumentTooLargeError

DECODED: Final = frozenset({"", "identity", "gzip", "deflate"})
"""Encodings that grow a thousandfold at most; others could fill the memory out of one small block."""


async def read_page(wanted: Wanted) -> AsyncGenerator[bytes]:
    """What the server answers, within INPUT_HTTP_TIMEOUT_SECONDS."""
    seconds = wanted.settings.input_http_timeout_seconds
    deadline = asyncio.get_running_loop().time() + seconds
    async with aclosing(_response(wanted)) as blocks:
        while True:
            try:
                # Around each step, not around all: between two, the time is the receiver's, whose task this is.
                async with asyncio.timeout_at(deadline):
                    block = await anext(blocks)
            except StopAsyncIteration:
                return
            except TimeoutError as exc:
                raise FetchFailedError(wanted.uri, f"it took longer than {seconds:g} s") from exc
            yield block


async def _response(wanted: Wanted) -> AsyncGenerator[bytes]:
    try:
        async with (
            guarded_client(allow_private=wanted.settings.allow_private_addresses, resolver=wanted.resolver) as client,
            client.stream("GET", wanted.uri, headers={"Accept-Encoding": "identity"}) as response,
        ):
            _accept(wanted, response)
            async for block in response.aiter_bytes(BLOCK):
                yield block
    except ForbiddenAddressError as exc:
        raise InputRefusedError(str(exc)) from exc
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as exc:
        raise InputRefusedError(f"{without_secrets(wanted.uri)}: {exc}") from exc
    except httpx.HTTPError as exc:
        raise FetchFailedError(wanted.uri, str(exc) or type(exc).__name__) from exc


def _accept(wanted: Wanted, response: httpx.Response) -> None:
    status = response.status_code
    if status != int(httpx.codes.OK):
        problem = f"the server answered {status} {response.reason_phrase}"
        if httpx.codes.is_client_error(status) and not may_pass(status):
            raise InputRefusedError(f"{without_secrets(wanted.uri)}: {problem}")
        raise FetchFailedError(wanted.uri, problem)
    if response.headers.get("content-encoding", "").strip().lower() not in DECODED:
        raise FetchFailedError(wanted.uri, "the server compressed it although asked not to")
    announced = response.headers.get("content-length", "")
    if wanted.limit is not None and announced.isdecimal() and int(announced) > wanted.limit:
        raise DocumentTooLargeError(wanted.limit)
