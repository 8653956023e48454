"""Documents on their way in: written to a file of their own while they are hashed and counted.

Nothing is held in memory beyond a block. The spool lies on the file system of the store, where that is a folder, so
that keeping a document is renaming it. A spool that nobody keeps or discards, since its process died, stays there until
`find_strays` finds it. A small document may be held in memory instead, until it is brought to its place with others.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from soliplex.ingester.lib.storage.blob_keys import hash_of_digest
from soliplex.ingester.lib.storage.errors import DocumentTooLargeError, NoRoomError
from soliplex.ingester.lib.storage.fs import explained, make_folders
from soliplex.ingester.lib.storage.threads import in_thread

GATHERED: Final = 256 << 10
"""Bytes that are written in one go. Every upload whose client is slow holds up to so many in memory."""


@dataclass(frozen=True, slots=True)
class Received:
    """A document that has arrived and is not kept yet."""

    hash: str
    size: int
    head: bytes
    """Its beginning, from which its type can be told."""
    path: Path
    """The file it is in; where it would be, if it is held."""
    held: bytes | None = None
    """All of it, where it is small and in no file yet."""


class Spool:
    """Where incoming documents are written. `reserve` bytes of the disk are never used."""

    def __init__(self, folder: Path, *, reserve: int = 0, head: int = 5000) -> None:
        self.folder = folder
        self._reserve = reserve
        self._head = head
        self._own = uuid4().hex
        """How the names of this spool's files begin: others may write to the same folder."""
        self._numbers = count()

    async def receive(
        self,
        content: AsyncIterable[bytes],
        *,
        limit: int | None = None,
        expected: int | None = None,
        hold: int = 0,
    ) -> Received:
        """Write the content to a new file; what goes wrong leaves none behind.

        `expected` is the size that the sender announced: with it, what cannot be taken is refused before it is sent.
        Content of at most `hold` bytes is held in memory, and written to no file.
        """
        if limit is not None and expected is not None and expected > limit:
            raise DocumentTooLargeError(limit)
        incoming = _Incoming(self.new_path(), reserve=self._reserve, head=self._head)
        try:
            if expected:
                await in_thread(incoming.see_room_for, expected)
            held = b""
            async for block in _blocks(content, limit):
                if held:
                    await in_thread(incoming.write, held)
                held = block
            if hold and len(held) <= hold and not incoming.has_begun:
                return incoming.hold(held)
            # The last block and the end in one hop: most documents have one block.
            return await in_thread(incoming.finish, held)
        except BaseException:
            incoming.remove()
            raise

    async def write(self, received: Received) -> Received:
        """The same document, in a file if it was held."""
        if received.held is None:
            return received
        incoming = _Incoming(self.new_path(), reserve=self._reserve, head=self._head)
        try:
            return await in_thread(incoming.finish, received.held)
        except BaseException:
            incoming.remove()
            raise

    def new_path(self) -> Path:
        return self.folder / f"{self._own}{next(self._numbers):08x}"

    def see_room_for(self, size: int) -> None:
        """NoRoomError or StoreUnavailableError if so much could not be received now."""
        _Incoming(self.folder / "any", reserve=self._reserve, head=0).see_room_for(size)


async def _blocks(content: AsyncIterable[bytes], limit: int | None) -> AsyncIterator[bytes]:
    """The content in blocks of at least GATHERED bytes, but for the last; it ends as soon as the limit is passed."""
    gathered, total = bytearray(), 0
    async for piece in content:
        total += len(piece)
        if limit is not None and total > limit:
            raise DocumentTooLargeError(limit)
        gathered += piece
        if len(gathered) >= GATHERED:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


class _Incoming:
    """One file being written. All but `remove` is called in threads, one call after the other."""

    def __init__(self, path: Path, *, reserve: int, head: int) -> None:
        self._path = path
        self._reserve = reserve
        self._head_size = head
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._size = 0
        self._head = b""

    def see_room_for(self, size: int) -> None:
        self._make_folder()
        room = max(0, shutil.disk_usage(self._path.parent).free - self._reserve)
        if size > room:
            raise NoRoomError(room)

    @property
    def has_begun(self) -> bool:
        return self._size > 0

    def write(self, block: bytes) -> None:
        self.see_room_for(len(block))
        self._count(block)
        self._append(block)

    def finish(self, last_block: bytes) -> Received:
        self.write(last_block)
        assert self._file is not None
        self._file.close()
        return self._received()

    def hold(self, only_block: bytes) -> Received:
        self._count(only_block)
        return self._received(only_block)

    def remove(self) -> None:
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)

    def _count(self, block: bytes) -> None:
        if len(self._head) < self._head_size:
            self._head += block[: self._head_size - len(self._head)]
        self._digest.update(block)
        self._size += len(block)

    def _received(self, held: bytes | None = None) -> Received:
        return Received(hash_of_digest(self._digest), self._size, self._head, self._path, held)

    def _append(self, block: bytes) -> None:
        with explained("spool", self._path):
            if self._file is None:
                self._file = self._path.open("xb", buffering=0)
            rest = memoryview(block)
            while rest:
                rest = rest[self._file.write(rest) :]

    def _make_folder(self) -> None:
        with explained("spool", self._path.parent):
            make_folders(self._path.parent)
