"""`si-cli serve` in a process of its own, and connections to it that cost next to nothing.

A client of many comforts would take more of the processor than the server does, and be measured in its place.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from benchmarks.databases import real_disk

PATIENCE: Final = 60.0
PREFIX: Final = "/api/v1"
FORM: Final = "application/x-www-form-urlencoded"
_COMMAND: Final = (sys.executable, "-c", "from soliplex.ingester.cli import main; main()", "serve", "--no-worker")
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered."""

    status: int
    body: bytes

    def expect(self, *statuses: int) -> Any:
        if self.status not in statuses:
            raise RuntimeError(f"answered {self.status}: {self.body[:300]!r}")
        return json.loads(self.body)


class Connection:
    """One connection, one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def get(self, path: str) -> Answer:
        return await self.send("GET", path)

    async def post(self, path: str, form: Mapping[str, Any]) -> Answer:
        return await self.send("POST", path, urlencode(form).encode(), FORM)

    async def send(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Answer:
        self._writer.write(_head(method, path, len(body), kind) + body)
        return await self._answer()

    async def stream(self, path: str, size: int, blocks: AsyncIterable[bytes], kind: str) -> Answer:
        """Post a body block by block, no faster than the server takes it."""
        self._writer.write(_head("POST", path, size, kind))
        async for block in blocks:
            self._writer.write(block)
            await self._writer.drain()
        return await self._answer()

    async def _answer(self) -> Answer:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1]) if length else 0)
        return Answer(int(head.split(b" ", 2)[1]), body)


def _head(method: str, path: str, length: int, kind: str) -> bytes:
    declared = f"Content-Type: {kind}\r\nContent-Length: {length}\r\n" if kind else ""
    return f"{method} {PREFIX}{path} HTTP/1.1\r\nHost: localhost\r\n{declared}\r\n".encode()


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    port: int
    pid: int

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Connection]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=64 << 20)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def serving(database_url: str) -> AsyncGenerator[ServerProcess]:
    """A server without a worker on this database, with a folder of its own on a real disk."""
    with tempfile.TemporaryDirectory(prefix="benchmark-files-", dir=real_disk(), ignore_cleanup_errors=True) as folder:
        port = _free_port()
        settings = {"DATA_DIR": folder, "DOC_DB_URL": database_url, "RATE_LIMIT_INGEST": "1000000/second"}
        with (Path(folder) / "server.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *_COMMAND, "--port", str(port), stdout=log, stderr=log, env=os.environ | settings
            )
        server = ServerProcess(port, process.pid)
        try:
            await _wait_until_it_answers(server)
            yield server
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _wait_until_it_answers(server: ServerProcess) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with server.connected() as connection:
                    (await connection.get("/batch/")).expect(200)
                    return
            except OSError:
                await asyncio.sleep(0.05)
