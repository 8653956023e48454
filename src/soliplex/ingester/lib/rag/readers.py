"""RAG databases that stay open between searches.

Opening one takes longer than most searches. Within `readers_kept`, a database is opened once and read at its newest
version each time, whoever wrote that; without it, each search opens it and closes it again.

    search ──▶ kept? ── no, or another database now ──▶ open
                 │ yes
                 ▼
              newest version          ──▶ questions to its tables

A vacuum deletes old versions, also those that a search in another process is just reading: `read` then opens the
database anew and asks once more.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.rag.database_files import files_of
from soliplex.ingester.lib.rag.opening import ReadTables, is_remote, open_tables
from soliplex.ingester.lib.wiring import current_wiring

MOST_KEPT: Final = 16
"""Databases that stay open; the one that was not asked for longest is closed for the next."""
TROUBLES: Final = (OSError, RuntimeError, ValueError)
"""What LanceDB raises for any trouble, also for files that are gone."""


class Reader:
    """A database, open for reading."""

    def __init__(self, db_path: str, tables: ReadTables, mark: object, closing: AsyncExitStack) -> None:
        self.db_path = db_path
        self.chunks, self.documents, self.identity = tables
        self._mark = mark
        self._closing = closing
        self._users = 0
        self._is_dismissed = False

    @classmethod
    async def open(cls, db_path: str) -> Reader:
        mark = await asyncio.to_thread(_mark_of, db_path)
        async with AsyncExitStack() as stack:
            tables = await stack.enter_async_context(open_tables(db_path))
            return cls(db_path, tables, mark, stack.pop_all())

    async def is_current(self) -> bool:
        """Go to the newest version. False: what stands there now is another database."""
        if await asyncio.to_thread(_mark_of, self.db_path) != self._mark:
            return False
        # In this order: of whatever chunk is found, the document is there.
        await self.chunks.checkout_latest()
        await self.documents.checkout_latest()
        return True

    @asynccontextmanager
    async def used(self) -> AsyncGenerator[Reader]:
        self._users += 1
        try:
            yield self
        finally:
            self._users -= 1
            await self._close_if_unused()

    async def dismiss(self) -> None:
        """Close the database, once nobody uses it any more."""
        self._is_dismissed = True
        await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        if self._is_dismissed and not self._users:
            await self._closing.aclose()


class KeptReaders:
    """The databases that stay open."""

    def __init__(self) -> None:
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def __len__(self) -> int:
        return len(self._readers)

    def __contains__(self, db_path: str) -> bool:
        return db_path in self._readers

    async def get(self, db_path: str) -> Reader:
        """The database at its newest version."""
        async with self._opening[db_path]:
            reader = self._readers.get(db_path)
            if reader is None or not await self._is_current(reader):
                await self.forget(db_path)
                reader = self._readers[db_path] = await Reader.open(db_path)
            self._readers.move_to_end(db_path)
        while len(self._readers) > MOST_KEPT:
            await self._readers.popitem(last=False)[1].dismiss()
        return reader

    async def forget(self, db_path: str) -> None:
        """Close the database, if it is open: the next search opens it anew."""
        if reader := self._readers.pop(db_path, None):
            await reader.dismiss()

    async def close(self) -> None:
        for db_path in list(self._readers):
            await self.forget(db_path)

    @staticmethod
    async def _is_current(reader: Reader) -> bool:
        try:
            return await reader.is_current()
        except TROUBLES:  # the database was removed or replaced; opening it will tell
            return False


@dataclass(slots=True)
class _Kept:
    """The databases of a wiring that stay open, where any do."""

    readers: KeptReaders | None = None


def _kept_readers() -> KeptReaders | None:
    return current_wiring().kept(_Kept).readers


@asynccontextmanager
async def readers_kept() -> AsyncGenerator[KeptReaders]:
    """For the time of the block, databases stay open between searches: for programs that live long."""
    kept, mine = current_wiring().kept(_Kept), KeptReaders()
    before, kept.readers = kept.readers, mine
    try:
        yield mine
    finally:
        kept.readers = before
        await mine.close()


async def read[T](db_path: str | Path, question: Callable[[Reader], Awaitable[T]]) -> T:
    """Ask the database a question, at its newest version."""
    path, kept = str(db_path), _kept_readers()
    if kept is None:
        async with _opened(path) as reader:
            return await question(reader)
    try:
        async with (await kept.get(path)).used() as reader:
            return await question(reader)
    except TROUBLES:
        await kept.forget(path)
    async with (await kept.get(path)).used() as reader:
        return await question(reader)


async def can_be_read(db_path: str | Path) -> bool:
    """Whether there is such a database. One in a bucket that is open is not asked for again, which takes as long."""
    path, kept = str(db_path), _kept_readers()
    if is_remote(path) and kept is not None and path in kept:
        return True
    files, name = files_of(path)
    return await files.exists(name)


async def forget_reader(db_path: str | Path) -> None:
    """Let go of the files of a database that was compacted, replaced or deleted."""
    if (kept := _kept_readers()) is not None:
        await kept.forget(str(db_path))


@asynccontextmanager
async def _opened(db_path: str) -> AsyncGenerator[Reader]:
    reader = await Reader.open(db_path)
    try:
        yield reader
    finally:
        await reader.dismiss()


def _mark_of(db_path: str) -> object:
    """What tells a database from another in its place: the folder of its settings, which are written once."""
    if is_remote(db_path):
        return None
    try:
        about = os.stat(Path(db_path, "settings.lance", "data"))  # noqa: PTH116  as short as can be: once a search
    except FileNotFoundError:
        return None  # the creation of the database was cut short: opening it will tell
    return about.st_dev, about.st_ino, about.st_mtime_ns
