"""Blobs in memory: for tests, and as the shortest example of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.storage.blobs import BLOCK, Blob, Capabilities, checked
from soliplex.ingester.lib.storage.threads import in_thread


class MemoryBlobs:
    """Keeps blobs until the process ends."""

    def __init__(self) -> None:
        self.capabilities: Final = Capabilities()
        self._blobs: dict[str, tuple[bytes, datetime]] = {}

    async def put_file(self, key: str, path: Path) -> None:
        await self.put(key, await in_thread(path.read_bytes))
        await in_thread(path.unlink)

    async def put(self, key: str, content: bytes) -> None:
        self._blobs[checked(key)] = (bytes(content), datetime.now(UTC))

    async def read(self, key: str) -> AsyncGenerator[bytes]:
        if checked(key) not in self._blobs:
            raise NotFoundError("blob", key)
        content, _ = self._blobs[key]
        for start in range(0, len(content), BLOCK):
            yield content[start : start + BLOCK]

    async def size(self, key: str) -> int | None:
        found = self._blobs.get(checked(key))
        return len(found[0]) if found else None

    async def delete(self, keys: Iterable[str]) -> int:
        return sum(self._blobs.pop(checked(key), None) is not None for key in keys)

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        for key, (content, modified) in tuple(self._blobs.items()):
            if not prefix or key.startswith(f"{prefix}/"):
                yield Blob(key, len(content), modified)

    async def folders(self, prefix: str) -> Sequence[str]:
        start = f"{prefix}/" if prefix else ""
        below = (key.removeprefix(start) for key in self._blobs if key.startswith(start))
        return sorted({rest.split("/")[0] for rest in below if "/" in rest})

    async def check(self) -> None:
        """Memory is always there."""

    async def close(self) -> None:
        self._blobs.clear()
