"""A server on loopback that embeds as Ollama and OpenAI do, and fails as a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.support.tcp import listening

DIM = 8


def vector_of(text: str, dim: int = DIM) -> list[float]:
    return [byte / 255 for byte in sha256(text.encode("utf-8", "surrogatepass")).digest()[:dim]]


@dataclass
class Failure:
    """An answer other than vectors."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class EmbeddingServer:
    """What was asked, and what is to go wrong with the next calls."""

    address: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    failures: list[Failure] = field(default_factory=list[Failure])
    silence: asyncio.Event | None = None
    """While it is not set, questions stay unanswered."""

    def answer(self, path: str, body: dict[str, Any]) -> Failure:
        if self.failures:
            return self.failures.pop(0)
        vectors = [vector_of(text, body.get("dimensions", DIM)) for text in body["input"]]
        if path == "/api/embed":
            return Failure(200, json.dumps({"model": body["model"], "embeddings": vectors}))
        if path == "/v1/embeddings":
            data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
            return Failure(200, json.dumps({"object": "list", "data": data[::-1]}))
        return Failure(404, json.dumps({"error": "no such path"}))

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.asked.append(body)
        self.headers.append(headers)
        if self.silence is not None:
            await self.silence.wait()
        _write(writer, self.answer(head[0].split(" ")[1], body))
        await writer.drain()


def _write(writer: asyncio.StreamWriter, answer: Failure) -> None:
    content = answer.body.encode()
    lines = [f"HTTP/1.1 {answer.status} Said", f"Content-Length: {len(content)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + content)


@asynccontextmanager
async def embedding_server(port: int = 0) -> AsyncGenerator[EmbeddingServer]:
    fake = EmbeddingServer()
    async with listening(fake.handle, port) as place:
        fake.address = f"http://{place}"
        yield fake
