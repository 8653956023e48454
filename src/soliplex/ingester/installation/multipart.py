"""A multipart form that is streamed: httpx would read the file on the event loop, and tell nobody how far it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Form:
    """Some fields, and one file of a known size."""

    fields: Mapping[str, str]
    filename: str
    size: int
    file: str = "file"
    """The name of the part that is the file."""
    boundary: str = field(default_factory=lambda: uuid4().hex)

    @property
    def headers(self) -> dict[str, str]:
        length = len(self._head()) + self.size + len(self._tail())
        return {
            "Content-Type": f"multipart/form-data; boundary={self.boundary}",
            "Content-Length": str(length),
        }

    async def body(self, content: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        yield self._head()
        async for piece in content:
            yield piece
        yield self._tail()

    def _head(self) -> bytes:
        parts = [_part(self.boundary, f'name="{name}"', value) for name, value in self.fields.items()]
        file = f'name="{self.file}"; filename="{_quoted(self.filename)}"\r\nContent-Type: application/octet-stream'
        return "".join([*parts, _part(self.boundary, file, "").removesuffix("\r\n")]).encode()

    def _tail(self) -> bytes:
        return f"\r\n--{self.boundary}--\r\n".encode()


def _part(boundary: str, disposition: str, value: str) -> str:
    return f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{value}\r\n"


def _quoted(name: str) -> str:
    """As browsers write file names."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
