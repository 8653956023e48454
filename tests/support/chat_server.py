"""A server on loopback that answers as OpenAI's chat completions do, and fails as a test tells it to.

async with chat_server() as server:
    server.answers += [Failure(429), "not JSON", '{"tags": ["sea"]}']
    chat = open_chat(load_settings(llm_backend="openai", openai_base_url=server.address, openai_api_key="k"))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.tcp import listening

AT_ONCE: Final = {"retry-after-ms": "1"}
"""Asks the client not to wait before it tries again, so that tests do not."""


@dataclass(frozen=True)
class Failure:
    """An answer that is no completion."""

    status: int
    body: str = '{"error": {"message": "it said the prompt", "type": "server_error", "code": "some_code"}}'
    headers: dict[str, str] = field(default_factory=lambda: dict(AT_ONCE))


@dataclass(frozen=True)
class Truncated:
    """An answer that is cut off in its middle: the connection is closed before as much has come as was announced."""


@dataclass(frozen=True)
class Silence:
    """No answer, until the client goes away."""


type Answer = str | Failure | Truncated | Silence | dict[str, Any]
"""A text is what the model says; a dict is the whole body of the answer."""


@dataclass
class ChatServer:
    """What was asked, and what is to be answered: `answers` in turn, then what `answer` makes of a question."""

    address: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    answers: list[Answer] = field(default_factory=list[Answer])
    answer: Callable[[dict[str, Any]], Answer] = lambda question: "yes"
    gate: asyncio.Event | None = None
    """While it is not set, questions wait."""
    at_once: int = 0
    most_at_once: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def busy(self, questions: int) -> None:
        """Wait until so many questions are here at once."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.at_once >= questions)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        question = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.asked.append(question)
        self.headers.append(headers)
        self.paths.append(head[0].split(" ")[1])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        async with self._changed:
            self._changed.notify_all()
        try:
            if self.gate is not None:
                await self.gate.wait()
            await _write(reader, writer, self.answers.pop(0) if self.answers else self.answer(question))
        finally:
            self.at_once -= 1


async def _write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    match answer:
        case Silence():
            await reader.read()  # to the end: the client closes
        case Truncated():
            writer.write(
                b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"choices": ['
            )
            await writer.drain()
        case Failure():
            await _respond(writer, answer.status, answer.body, answer.headers)
        case str():
            await _respond(writer, 200, json.dumps(completion(answer)), {})
        case _:
            await _respond(writer, 200, json.dumps(answer), {})


async def _respond(writer: asyncio.StreamWriter, status: int, body: str, headers: dict[str, str]) -> None:
    content = body.encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(content)}", "Connection: close"]
    lines += ["Content-Type: application/json", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + content)
    await writer.drain()


def completion(text: str, **choice: Any) -> dict[str, Any]:
    """A whole answer in which the model says this."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37},
    }


@asynccontextmanager
async def chat_server() -> AsyncGenerator[ChatServer]:
    fake = ChatServer()
    async with listening(fake.handle) as place:
        fake.address = f"http://{place}"
        yield fake
