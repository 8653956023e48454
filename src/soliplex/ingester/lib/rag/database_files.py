"""The files of RAG databases, in a folder of this machine or in a bucket: which there are, how large, which checksum.

The checksum of a database stands beside it, in NAME.sha256.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.rag.folder import rag_folder
from soliplex.ingester.lib.rag.opening import is_remote
from soliplex.ingester.lib.storage.objects import ObjectBlobs, open_operator, s3_options

_BLOCK: Final = 1 << 20


class Record(NamedTuple):
    """The checksum that a database had, and when."""

    checksum: str
    since: datetime | None


class DatabaseFiles(Protocol):
    """The databases of one folder."""

    async def names(self) -> Sequence[str]: ...

    async def exists(self, name: str) -> bool: ...

    async def size(self, name: str) -> int: ...

    async def checksum(self, name: str) -> str:
        """SHA-256 over the names and contents of all files of the database."""
        ...

    async def record(self, name: str, checksum: str) -> None: ...

    async def recorded(self, name: str) -> Record | None: ...


def all_databases() -> DatabaseFiles:
    """The files of all databases below LANCEDB_DIR."""
    return _files_in(rag_folder().address)


def files_of(db_path: str | Path) -> tuple[DatabaseFiles, str]:
    """The folder of a database, and its name there."""
    folder, _, name = str(db_path).rstrip("/").rpartition("/")
    return _files_in(folder), name


def _files_in(folder: str) -> DatabaseFiles:
    if not is_remote(folder):
        return FolderFiles(Path(folder).absolute())
    address = urlsplit(folder)
    if address.scheme != "s3":
        raise ConfigurationError("LANCEDB_DIR", f"{folder} is not supported", "use a folder, or s3://bucket/prefix")
    bucket = rag_folder().bucket.model_copy(update={"bucket": address.netloc})
    operator = open_operator("s3", s3_options(bucket, address.path), setting="LANCEDB_DIR")
    return BucketFiles(ObjectBlobs("s3", operator))


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Databases that are folders."""

    folder: Path

    async def names(self) -> Sequence[str]:
        return await asyncio.to_thread(self._names)

    async def exists(self, name: str) -> bool:
        return await asyncio.to_thread((self.folder / name).is_dir)

    async def size(self, name: str) -> int:
        return await asyncio.to_thread(lambda: sum(map(_size, (self.folder / name).rglob("*"))))

    async def checksum(self, name: str) -> str:
        return await asyncio.to_thread(_checksum, self.folder / name)

    async def record(self, name: str, checksum: str) -> None:
        await asyncio.to_thread(self._record_of(name).write_text, f"{checksum}\n", "utf-8")

    async def recorded(self, name: str) -> Record | None:
        return await asyncio.to_thread(self._recorded, name)

    def _names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))

    def _record_of(self, name: str) -> Path:
        return self.folder / f"{name}.sha256"

    def _recorded(self, name: str) -> Record | None:
        path = self._record_of(name)
        if not path.is_file():
            return None
        since = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return Record(path.read_text(encoding="utf-8").strip(), since)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0  # a vacuum has just removed the file


def _checksum(folder: Path) -> str:
    digest = hashlib.sha256()
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted(names):
        digest.update(name.encode() + b"\x00")
        with names[name].open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """Databases that are prefixes of a bucket."""

    blobs: ObjectBlobs

    async def names(self) -> Sequence[str]:
        return [name for name in await self.blobs.folders("") if not name.startswith(".")]

    async def exists(self, name: str) -> bool:
        return bool(await self.blobs.folders(name))

    async def size(self, name: str) -> int:
        return sum([blob.size async for blob in self.blobs.list(name)])

    async def checksum(self, name: str) -> str:
        digest = hashlib.sha256()
        for key in sorted([blob.key async for blob in self.blobs.list(name)]):
            digest.update(key.removeprefix(f"{name}/").encode() + b"\x00")
            async for block in self.blobs.read(key):
                digest.update(block)
        return digest.hexdigest()

    async def record(self, name: str, checksum: str) -> None:
        await self.blobs.put(f"{name}.sha256", f"{checksum}\n".encode())

    async def recorded(self, name: str) -> Record | None:
        key = f"{name}.sha256"
        blob = await self.blobs.about(key)
        if blob is None:
            return None
        text = b"".join([block async for block in self.blobs.read(key)]).decode()
        return Record(text.strip(), blob.modified)
