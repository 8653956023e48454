"""Blobs as rows of `documentbytes`, in the database that holds everything else.

The last name of a key is the row's `hash`, the folder before it the `storage_root`. A blob of up to PART bytes is one
row. A larger one has a row for every further part, under `folder#version.number`: neither database takes a value of
more than a gigabyte, and nothing here holds more than one part in memory. All rows of a blob are written in one
transaction. A reader fetches part after part, without a transaction that lasts as long as a download; when the blob
is replaced meanwhile, the version it began with is gone, and it says so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import batched
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import exc as errors
from sqlalchemy.ext.asyncio import AsyncConnection

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Database, metadata
from soliplex.ingester.lib.storage.blobs import Blob, Capabilities, checked
from soliplex.ingester.lib.storage.errors import StoreUnavailableError
from soliplex.ingester.lib.storage.threads import in_thread

PART: Final = 4 << 20
AT_ONCE: Final = 250
"""Rows named in one statement: three parameters each, and SQLite takes a thousand."""

rows: Final = metadata.tables["documentbytes"]
row: Final[Any] = rows.c
identity: Final = sa.tuple_(row.hash, row.artifact_type, row.storage_root)

_UPSERT: Final = sa.text("""
    INSERT INTO documentbytes (hash, artifact_type, storage_root, file_size, file_bytes)
    VALUES (:hash, :kind, :root, :size, :content)
    ON CONFLICT (hash, artifact_type, storage_root)
    DO UPDATE SET file_size = excluded.file_size, file_bytes = excluded.file_bytes
""").bindparams(sa.bindparam("content", type_=sa.LargeBinary))


class DatabaseBlobs:
    """The open `Database` as a store. `kinds` says which artifacts the first folder of a key holds."""

    def __init__(self, kinds: Mapping[str, ArtifactType], *, part: int = PART) -> None:
        self._kinds = kinds
        self._part = part
        self.capabilities: Final = Capabilities(name_index=self)

    async def put_file(self, key: str, path: Path) -> None:
        with path.open("rb") as file:
            first = await in_thread(file.read, self._part)
            async with self._replacing(key, first) as write_part:
                while part := await in_thread(file.read, self._part):
                    await write_part(part)
        await in_thread(path.unlink)

    async def put(self, key: str, content: bytes) -> None:
        async with self._replacing(key, content[: self._part]) as write_part:
            for start in range(self._part, len(content), self._part):
                await write_part(content[start : start + self._part])

    async def read(self, key: str) -> AsyncGenerator[bytes]:
        folder, name = _split(key)
        query = sa.select(row.storage_root, sa.case((folder == row.storage_root, row.file_bytes))).where(
            name == row.hash, _of_blob(folder)
        )
        async with _reading() as connection:
            found = (await connection.execute(query)).all()
        parts: dict[str, bytes] = dict(map(tuple, found))
        if folder not in parts:
            raise NotFoundError("blob", key)
        if parts[folder]:
            yield parts[folder]
        for root in sorted(parts.keys() - {folder}):
            yield await self._part_of(key, name, root)

    async def size(self, key: str) -> int | None:
        folder, name = _split(key)
        query = sa.select(sa.func.sum(row.file_size)).where(name == row.hash, _of_blob(folder))
        async with _reading() as connection:
            size = (await connection.execute(query)).scalar_one()
        return None if size is None else int(size)

    async def delete(self, keys: Iterable[str]) -> int:
        split = {_split(key) for key in keys}
        there = 0
        for some in batched(sorted(split), AT_ONCE):
            async with _writing() as connection:
                there += await _delete(connection, some)
        return there

    async def delete_named(self, names: Iterable[str]) -> int:
        """The primary key begins with the name."""
        there = 0
        for some in batched(names, AT_ONCE):
            async with _writing() as connection:
                first_rows = sa.and_(row.hash.in_(some), ~row.storage_root.contains("#"))
                deleted: Any = await connection.execute(sa.delete(rows).where(first_rows))
                await connection.execute(sa.delete(rows).where(row.hash.in_(some)))
                there += deleted.rowcount
        return there

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        # Parts are added up per hash: how a root sorts beside its parts depends on the database's collation.
        name, sizes = "", dict[str, int]()
        async for row_name, root, size in _rows_below(prefix):
            if row_name != name:
                for blob in _blobs(name, sizes):
                    yield blob
                name, sizes = row_name, {}
            folder = root.partition("#")[0]
            sizes[folder] = sizes.get(folder, 0) + size
        for blob in _blobs(name, sizes):
            yield blob

    async def folders(self, prefix: str) -> Sequence[str]:
        start = f"{prefix}/" if prefix else ""
        query = sa.select(row.storage_root).where(row.storage_root.startswith(start, autoescape=True)).distinct()
        async with _reading() as connection:
            roots = (await connection.execute(query)).scalars().all()
        below = {root.partition("#")[0].removeprefix(start).split("/")[0] for root in roots}
        return sorted(below - {""})

    async def folders_of(self, names: Iterable[str], prefix: str) -> dict[str, set[str]]:
        """The primary key begins with the name, while `folders` reads the whole index."""
        found: dict[str, set[str]] = {}
        for some in batched(names, AT_ONCE):
            query = sa.select(row.hash, row.storage_root).where(
                row.hash.in_(some), row.storage_root.startswith(f"{prefix}/", autoescape=True)
            )
            async with _reading() as connection:
                for name, root in (await connection.execute(query)).all():
                    below = root.partition("#")[0].removeprefix(f"{prefix}/").split("/")[0]
                    found.setdefault(name, set()).add(below)
        return found

    async def check(self) -> None:
        try:
            async with _reading() as connection:
                await connection.execute(sa.select(row.hash).limit(1))
        except (OSError, errors.DBAPIError) as exc:
            raise StoreUnavailableError("db", str(exc).splitlines()[0]) from exc

    async def close(self) -> None:
        """The database is not ours to close."""

    @asynccontextmanager
    async def _replacing(self, key: str, first: bytes) -> AsyncGenerator[Any]:
        """The transaction that replaces a blob. Its first row comes first: two who replace the same blob wait there."""
        folder, name = _split(key)
        kind = self._kinds.get(folder.split("/")[0], ArtifactType.CUSTOM)
        version = uuid4().hex
        roots = (f"{folder}#{version}.{number:06d}" for number in range(1, 1_000_000))
        async with _writing() as connection:

            async def write(root: str, content: bytes) -> None:
                values = {"hash": name, "kind": str(kind), "root": root, "size": len(content), "content": content}
                await connection.execute(_UPSERT, values)

            await write(folder, first)
            parts = sa.and_(name == row.hash, row.storage_root.startswith(f"{folder}#", autoescape=True))
            await connection.execute(sa.delete(rows).where(parts))
            yield lambda content: write(next(roots), content)

    async def _part_of(self, key: str, name: str, root: str) -> bytes:
        query = sa.select(row.file_bytes).where(name == row.hash, root == row.storage_root)
        async with _reading() as connection:
            content = (await connection.execute(query)).scalar_one_or_none()
        if content is None:
            raise StoreUnavailableError("db", f"{key} was replaced while it was read; read it again")
        return content


def _reading() -> AsyncConnection:
    return Database.engine().execution_options(read_only=True).connect()


def _writing() -> AbstractAsyncContextManager[AsyncConnection]:
    return Database.engine().begin()


def _split(key: str) -> tuple[str, str]:
    folder, _, name = checked(key).rpartition("/")
    return folder, name


def _of_blob(folder: str) -> sa.ColumnElement[bool]:
    return sa.or_(folder == row.storage_root, row.storage_root.startswith(f"{folder}#", autoescape=True))


def _blobs(name: str, sizes: Mapping[str, int]) -> Iterator[Blob]:
    for folder, size in sizes.items():
        yield Blob(f"{folder}/{name}" if folder else name, size)


async def _delete(connection: AsyncConnection, blobs: Sequence[tuple[str, str]]) -> int:
    """First rows first: whoever is replacing one of these is waited for, and its parts are then seen below."""
    wanted = set(blobs)
    first_rows = sa.tuple_(row.storage_root, row.hash).in_(blobs)
    deleted: Any = await connection.execute(sa.delete(rows).where(first_rows))
    names = {name for _, name in blobs}
    parts = sa.select(row.hash, row.artifact_type, row.storage_root).where(
        row.hash.in_(names), row.storage_root.contains("#")
    )
    found = (await connection.execute(parts)).all()
    left = [(name, kind, root) for name, kind, root in found if (root.partition("#")[0], name) in wanted]
    for some in batched(left, AT_ONCE):
        await connection.execute(sa.delete(rows).where(identity.in_(some)))
    return deleted.rowcount


async def _rows_below(prefix: str) -> AsyncIterator[tuple[str, str, int]]:
    """Name, root and size of every row below the folder, by name; page after page, each in its own transaction."""
    below = (
        sa.or_(_of_blob(prefix), row.storage_root.startswith(f"{prefix}/", autoescape=True)) if prefix else sa.true()
    )
    query = (
        sa.select(row.hash, row.artifact_type, row.storage_root, row.file_size)
        .where(below)
        .order_by(row.hash, row.artifact_type, row.storage_root)
        .limit(1000)
    )
    after: tuple[str, str, str] | None = None
    while True:
        page = query if after is None else query.where(sa.tuple_(*after) < identity)
        async with _reading() as connection:
            found = (await connection.execute(page)).all()
        for name, kind, root, size in found:
            after = (name, kind, root)
            yield name, root, size or 0
        if not found:
            return
