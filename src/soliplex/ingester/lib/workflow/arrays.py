"""Artifacts that are long lists, such as the chunks of a document: read and written in pieces.

A text of 60 MiB has a quarter of a million chunks, and with their vectors gigabytes of objects. Whoever reads such a
list piece by piece, and writes another, holds one piece of each. What is stored is a JSON array like any other.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.storage.blobs import BLOCK
from soliplex.ingester.lib.storage.threads import in_thread
from soliplex.ingester.lib.workflow.step_artifacts import decoded, encoded

PIECE: Final = 1_000
"""Items in a piece. A thousand chunks with their vectors are some ten megabytes of objects."""
_SPACE: Final = " \t\r\n"
_BETWEEN: Final = _SPACE + ","


class ArrayReader:
    """Takes the bytes of a JSON array as they come, and gives its items as they become whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder()
        self._rest = ""
        """What was not made into items yet: the beginning of the next."""
        self._has_begun = False
        self._has_ended = False

    def feed(self, block: bytes) -> list[Any]:
        """The items that end in this block."""
        text, items = self._rest + self._decoder.decode(block), list[Any]()
        place = self._begin(text)
        while self._has_begun and not self._has_ended:
            place = _skip(text, place, _BETWEEN)
            if text.startswith("]", place):
                self._has_ended = True
                break
            try:
                item, end = self._json.raw_decode(text, place)
            except json.JSONDecodeError:
                break  # the rest of the item has not come yet; if it never comes, `close` says so
            after = _skip(text, end, _SPACE)
            if not text.startswith((",", "]"), after):
                break  # further digits of a number may be to come
            items.append(item)
            place = after
        self._rest = text[place:]
        return items

    def close(self) -> None:
        """ValueError unless the array has ended."""
        if not self._has_ended:
            raise ValueError("a stored list ends before its last item, or is none")

    def _begin(self, text: str) -> int:
        if self._has_begun:
            return 0
        place = _skip(text, 0, _SPACE)
        self._has_begun = text.startswith("[", place)
        return place + self._has_begun


def _skip(text: str, place: int, characters: str) -> int:
    while place < len(text) and text[place] in characters:
        place += 1
    return place


def items_of(path: Path) -> Iterator[list[Any]]:
    """The items of a list in a file, some at a time. Blocks."""
    reader = ArrayReader()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield reader.feed(block)
    reader.close()


async def read_short(doc_hash: str, kind: ArtifactType, config_id: int, *, most: int) -> list[Any] | None:
    """All items of a stored list; None if it has more than so many bytes, and should be read in pieces."""
    content = await get_artifacts().read_short(doc_hash, kind, config_id, most=most)
    return None if content is None else await decoded(content)


async def read_pieces(
    doc_hash: str, kind: ArtifactType, config_id: int, *, size: int = PIECE
) -> AsyncGenerator[list[Any]]:
    """The items of a stored list, so many at a time. Who stops early closes it."""
    reader, waiting = ArrayReader(), list[Any]()
    async with aclosing(get_artifacts().read_blocks(doc_hash, kind, config_id)) as blocks:
        async for block in blocks:
            waiting += await asyncio.to_thread(reader.feed, block)
            while len(waiting) >= size:
                yield waiting[:size]
                del waiting[:size]
    reader.close()
    if waiting:
        yield waiting


@asynccontextmanager
async def writing_pieces(doc_hash: str, kind: ArtifactType, config_id: int) -> AsyncGenerator[ArrayFile]:
    """A list to be stored, to which items are added. It is there, whole, when the block has ended; else not at all."""
    artifacts = get_artifacts()
    made = ArrayFile(artifacts.spool.new_path())
    try:
        yield made
        await in_thread(made.finish)
        await artifacts.write_file(doc_hash, kind, config_id, made.path)
    finally:
        await in_thread(made.path.unlink, missing_ok=True)


class ArrayFile:
    """A file that becomes a JSON array, an item a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        """The items so far."""

    async def add(self, items: Sequence[Any]) -> None:
        """As `append`, in a thread."""
        await in_thread(self.append, items)

    def append(self, items: Iterable[Any]) -> None:
        """Write the items to the end. Blocks."""
        lines = list(map(encoded, items))
        if lines:
            self._write((b",\n" if self.count else b"[\n") + b",\n".join(lines))
            self.count += len(lines)

    def finish(self) -> None:
        """Write the end of the array. Blocks."""
        self._write(b"\n]" if self.count else b"[]")

    def _write(self, content: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(content)
