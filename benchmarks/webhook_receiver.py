"""A receiver of webhooks in a process of its own, which takes everything.

    python -m benchmarks.webhook_receiver

It says its port. `GET /` tells how many it has taken, and how many came out of the order of their stream. It ends with
its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import httpx

ROOT: Final = Path(__file__).parent.parent
TAKEN: Final = b"HTTP/1.1 204 No Content\r\n\r\n"


class Books:
    """What was taken."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.taken = 0
        self.out_of_order = 0

    def take(self, body: bytes) -> None:
        said = json.loads(body)
        stream, number = said["stream"], said["number"]
        self.taken += 1
        self.out_of_order += number != self.last.get(stream, 0) + 1
        self.last[stream] = number

    def told(self) -> bytes:
        text = json.dumps({"taken": self.taken, "out_of_order": self.out_of_order}).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)


class Connection(asyncio.Protocol):
    """As little of HTTP as is needed, so that the receiver is not what is measured."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, found, rest = self._read.partition(b"\r\n\r\n")
        if not found:
            return
        if head.startswith(b"GET"):
            self._read = b""
            self._transport.write(self._books.told())
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) >= length:
            self._read = rest[length:]
            self._books.take(rest[:length])
            self._transport.write(TAKEN)


class ReceiverProcess:
    """The process as the benchmark sees it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncGenerator[Self]:
        pipe = asyncio.subprocess.PIPE
        arguments = (sys.executable, "-m", "benchmarks.webhook_receiver")
        process = await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe, cwd=ROOT)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield cls(int(await process.stdout.readline()))
        finally:
            process.stdin.close()
            await process.wait()

    async def told(self) -> dict[str, int]:
        async with httpx.AsyncClient() as client:
            return (await client.get(self.url)).json()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    books = Books()
    server = await loop.create_server(lambda: Connection(books), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
