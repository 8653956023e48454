"""Reading files for an upload, in a thread and piece by piece, whatever their size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from soliplex.ingester.installation.local_files import reason_of
from soliplex.ingester.installation.values import FileRefusedError

PIECE: Final = 1 << 20


async def pieces_of(path: Path, sent: Callable[[int], None] | None = None) -> AsyncGenerator[bytes]:
    """The file's content; `sent` is told how much of it has been taken. A file that cannot be read is refused."""
    with _refusal():
        file, piece = await asyncio.to_thread(_begin, path)
    with file:
        total = 0
        while piece:
            yield piece
            total += len(piece)
            if sent is not None:
                sent(total)
            # A file gives less than was asked for only at its end: a small one costs one hop into a thread.
            piece = await _read(file) if len(piece) == PIECE else b""


def _begin(path: Path) -> tuple[BinaryIO, bytes]:
    file = path.open("rb")
    try:
        return file, file.read(PIECE)
    except OSError:
        file.close()
        raise


async def _read(file: BinaryIO) -> bytes:
    with _refusal():
        return await asyncio.to_thread(file.read, PIECE)


@contextmanager
def _refusal() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise FileRefusedError(reason_of(error)) from error
