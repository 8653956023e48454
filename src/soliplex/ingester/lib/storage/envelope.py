"""Compression that the blob itself tells of, so that it can be switched on and off at any time.

A compressed blob begins with a marker that holds the original size. Then comes frame after frame, each of at most BLOCK
original bytes, announced by its length; so whoever reads holds one frame at a time, whatever the ratio. Marker and
announcements are frames of the kind that Zstandard skips: `zstd -d` reads such a file as it is. Each frame has a
checksum.

A blob that does not begin with the marker is what it is. A document that happens to begin with it, being itself a
blob of such a store, is always compressed, and thus comes back as it was.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

from soliplex.ingester.lib.storage.blobs import BLOCK
from soliplex.ingester.lib.storage.errors import DamagedBlobError

_SKIPPED_FRAME: Final = 0x184D2A53
_SIZE: Final = struct.Struct("<Q")
_ANNOUNCEMENT: Final = struct.Struct("<III")
MARKER: Final = struct.pack("<II", _SKIPPED_FRAME, 9 + _SIZE.size) + b"soliplex\x01"
HEADER: Final = len(MARKER) + _SIZE.size
LEVEL: Final = 3


def is_compressed(head: bytes) -> bool:
    return head.startswith(MARKER)


def original_size(head: bytes) -> int | None:
    """The size before compression; None if this is no compressed blob."""
    return _SIZE.unpack(head[len(MARKER) : HEADER])[0] if is_compressed(head) and len(head) >= HEADER else None


def compress(content: bytes) -> bytes:
    """The content, compressed where that makes it smaller."""
    packed = BytesIO()
    _compress(BytesIO(content), packed, len(content))
    return content if packed.tell() >= len(content) and not is_compressed(content) else packed.getvalue()


def compress_file(source: Path, target: Path) -> bool:
    """Compress the file to another; False if that is no smaller, and not needed."""
    size = source.stat().st_size
    with source.open("rb") as file, target.open("xb") as packed:
        must = is_compressed(file.read(len(MARKER)))
        file.seek(0)
        _compress(file, packed, size)
        return must or packed.tell() < size


def _compress(source: BinaryIO, target: BinaryIO, size: int) -> None:
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    target.write(MARKER + _SIZE.pack(size))
    while block := source.read(BLOCK):
        frame = compressor.compress(block)
        target.write(_ANNOUNCEMENT.pack(_SKIPPED_FRAME, 4, len(frame)) + frame)


async def original(blocks: AsyncGenerator[bytes], key: str) -> AsyncGenerator[bytes]:
    """The bytes as they were before they were stored."""
    async with aclosing(blocks):
        async for block in _original(blocks, key):
            yield block


async def _original(blocks: AsyncGenerator[bytes], key: str) -> AsyncGenerator[bytes]:
    head = b""
    async for block in blocks:
        head += block
        if len(head) >= HEADER:
            break
    if not is_compressed(head):
        if head:
            yield head
        async for block in blocks:
            yield block
        return
    frames = _Frames(head, key)
    for block in frames:
        yield block
    async for packed in blocks:
        frames.feed(packed)
        for block in frames:
            yield block
    frames.finish()


class _Frames:
    """Takes stored bytes, and gives the original ones of each frame that is complete."""

    def __init__(self, head: bytes, key: str) -> None:
        self._key = key
        self._missing = original_size(head)
        self._buffer = bytearray(head[HEADER:])
        self._decompressor = zstandard.ZstdDecompressor()

    def feed(self, packed: bytes) -> None:
        self._buffer += packed

    def __iter__(self) -> Iterator[bytes]:
        while (length := self._complete_frame()) is not None:
            end = _ANNOUNCEMENT.size + length
            block = self._decompress(bytes(self._buffer[_ANNOUNCEMENT.size : end]))
            del self._buffer[:end]
            self._missing = (self._missing or 0) - len(block)
            yield block

    def finish(self) -> None:
        if self._buffer or self._missing:
            raise DamagedBlobError(self._key, "it does not hold as many bytes as it says")

    def _complete_frame(self) -> int | None:
        if len(self._buffer) < _ANNOUNCEMENT.size:
            return None
        magic, size, length = _ANNOUNCEMENT.unpack_from(self._buffer)
        if (magic, size) != (_SKIPPED_FRAME, 4) or length > 2 * BLOCK:
            raise DamagedBlobError(self._key, "a frame does not begin where it should")
        return length if len(self._buffer) >= _ANNOUNCEMENT.size + length else None

    def _decompress(self, frame: bytes) -> bytes:
        try:
            # The size the frame claims is looked at before anything is allocated.
            if zstandard.frame_content_size(frame) > BLOCK:
                raise DamagedBlobError(self._key, "a frame claims to be larger than any we write")
            return self._decompressor.decompress(frame, max_output_size=BLOCK)
        except zstandard.ZstdError as exc:
            raise DamagedBlobError(self._key, str(exc)) from exc
