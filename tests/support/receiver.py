"""A receiver of webhooks on loopback that takes them, or fails, as a test tells it to.

async with receiver() as hooks:
    hooks.answers += [Answer(500), HANGS, CLOSES, BREAKS_OFF, LIES]     # then it answers 204
    ...
    assert hooks.ids == [...]
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.tcp import listening


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int = 204
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"answers {self.status}"

    def on_the_wire(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Said", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in self.headers), "", ""]).encode() + self.body


@dataclass(frozen=True)
class Trouble:
    """What a receiver does in place of answering."""

    name: str
    said: bytes = b""
    then_hangs: bool = False

    def __repr__(self) -> str:
        return self.name


HANGS: Final = Trouble("hangs", then_hangs=True)
CLOSES: Final = Trouble("closes the connection")
BREAKS_OFF: Final = Trouble("breaks off in mid-body", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nbut then")
LIES: Final = Trouble(
    "announces more than it sends", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nless", then_hangs=True
)
BREAKS_CHUNKS: Final = Trouble(
    "breaks off between chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nless\r\n"
)
GIBBERISH: Final = Trouble("speaks no HTTP", b"\x00\x01\x02 hello\r\n\r\n")


@dataclass(frozen=True)
class Delivery:
    """A request that came in whole."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def content(self) -> Any:
        return json.loads(self.body)


type Reply = Answer | Trouble


@dataclass
class Receiver:
    """What came in, and how it is to be answered: by `answers` in turn, then by what `answer` says."""

    url: str = ""
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    taken: list[Delivery] = field(default_factory=list[Delivery])
    """Those that were answered with 2xx, to the end."""
    answers: list[Reply] = field(default_factory=list[Reply])
    answer: Callable[[Delivery], Reply] = lambda delivery: Answer()  # replaced by tests
    at_once: int = 0
    most_at_once: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def has(self, *, deliveries: int = 0, taken: int = 0) -> None:
        """Wait until so many have come, and so many were taken."""
        async with asyncio.timeout(300), self._changed:
            await self._changed.wait_for(lambda: len(self.deliveries) >= deliveries and len(self.taken) >= taken)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await self._handle_one(reader, writer):
            pass

    async def _handle_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        delivery = await _read(reader)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.deliveries.append(delivery)
        await self._tell()
        try:
            return await self._reply(delivery, reader, writer)
        finally:
            self.at_once -= 1

    async def _reply(self, delivery: Delivery, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        reply = self.answers.pop(0) if self.answers else self.answer(delivery)
        if isinstance(reply, Trouble):
            writer.write(reply.said)
            await writer.drain()
            if reply.then_hangs:
                await reader.read()  # until the sender gives up
            return False
        if reply.status < 300:
            self.taken.append(delivery)
        writer.write(reply.on_the_wire())
        await writer.drain()
        await self._tell()
        return True

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _read(reader: asyncio.StreamReader) -> Delivery:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Delivery(head[0].split(" ")[1], headers, body)


@asynccontextmanager
async def receiver(port: int = 0) -> AsyncGenerator[Receiver]:
    hooks = Receiver()
    async with listening(hooks.handle, port) as place:
        hooks.url = f"http://{place}/hooks"
        yield hooks
