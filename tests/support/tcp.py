"""Servers on loopback that are gone when their block ends, with every connection they had.

A client that gives up leaves its connection open at the server's end. Where nobody closes that, it is told of when the
garbage collector finds it: in another test, which then fails.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

type Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(handle: Handler, port: int = 0, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """The host and port, as `host:port`, of a server that handles each connection like this, and then closes it."""
    open_here: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        open_here[this] = writer
        this.add_done_callback(open_here.pop)
        try:
            await handle(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away
        finally:
            writer.close()

    server = await asyncio.start_server(handled, "127.0.0.1", port, ssl=tls)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        closed = asyncio.ensure_future(server.wait_closed())
        while not closed.done():
            for task, writer in list(open_here.items()):
                writer.transport.abort()
                task.cancel()
            await asyncio.sleep(0)  # a connection that was just accepted reaches its handler
