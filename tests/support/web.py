"""A small HTTP server on loopback whose answers a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

type Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"", *, status: str = "200 OK", **headers: str) -> Answer:
    """A whole answer; a header's name is written with _ for -."""

    async def write(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return write


@asynccontextmanager
async def serving(answers: Mapping[str, Answer]) -> AsyncGenerator[str]:
    """The address of a server that gives these answers, by path."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split(b" ", 2)[1].decode()
            await answers.get(path, answer(status="404 Not Found", Content_Length="0"))(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
