"""Ending work for a client that does not wait for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

CLIENT_LEFT: Final = 499
"""The status in the log of a request whose client went away; nobody gets such an answer."""


async def unless_client_leaves[T](request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What comes of the work, which is cancelled when the client closes its connection. The body has been read."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise HTTPException(CLIENT_LEFT, "the client closed its connection")
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
