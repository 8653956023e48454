"""Reading files for an upload, in a thread and piece by piece, whatever their size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from soliplex.ingester.cli.ingest.files import reason_of
from soliplex.ingester.cli.ingest.target import FileRefusedError

PIECE: Final = 1 << 20


async def pieces_of(path: Path, sent: Callable[[int], None]) -> AsyncGenerator[bytes]:
    """The file's content; `sent` is told how much of it has been taken. A file that cannot be read is refused."""
    with _refusal():
        file = await asyncio.to_thread(path.open, "rb")
    with file:
        total = 0
        while piece := await _read(file.read):
            yield piece
            total += len(piece)
            sent(total)


async def _read(read: Callable[[int], bytes]) -> bytes:
    with _refusal():
        return await asyncio.to_thread(read, PIECE)


@contextmanager
def _refusal() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise FileRefusedError(reason_of(error)) from error
