"""The seam between documents and where their bytes are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from soliplex.ingester.lib.storage.errors import InvalidKeyError

BLOCK: Final = 1 << 20
"""Bytes handled in one go: large enough that a thread hop a block does not matter, small enough to hold many."""


@dataclass(frozen=True, slots=True)
class Blob:
    """One stored value, without its bytes. Some stores do not know when it was stored."""

    key: str
    size: int
    modified: datetime | None = None


class LocalFiles(Protocol):
    """Capability: every blob is a file of this machine, so that a file can be shared instead of copied."""

    def path_of(self, key: str) -> Path:
        """Where the blob is, if it is there."""
        ...

    async def link_file(self, key: str, path: Path) -> bool:
        """Store the file unless a blob of its size is there already; the file stays where it is.

        False: that cannot be done without copying, or the blob that is there has another size.
        """
        ...

    async def release_file(self, key: str, path: Path) -> bool:
        """Unlink a file whose content is stored under the key; False, and the file stays, if there is no such blob."""
        ...


class GroupWrites(Protocol):
    """Capability: many small blobs cost little more to write together than one alone."""

    def write_all(self, contents: Mapping[str, bytes]) -> Mapping[str, bool | Exception]:
        """Store small blobs, each unless one of its size is there already; this blocks, so call it in a thread.

        False: the blob that is there has another size, and was not replaced. An error belongs to its blob alone.
        """
        ...


class GroupLookups(Protocol):
    """Capability: asking for many blobs costs little more than asking for one."""

    async def have(self, keys: Sequence[str]) -> Sequence[bool]:
        """Whether each of these blobs is there."""
        ...


class NameIndex(Protocol):
    """Capability: blobs are found by the last name of their key, whatever their folder, without listing folders."""

    async def folders_of(self, names: Iterable[str], prefix: str) -> Mapping[str, set[str]]:
        """By name, the folders right below the prefix that hold a blob of this name."""
        ...

    async def delete_named(self, names: Iterable[str]) -> int:
        """Delete every blob whose key ends in one of these names, and say how many there were."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do beyond what every store can: each is the store itself, or None.

    They save work and change no result. A caller does without those that are missing.
    """

    local_files: LocalFiles | None = None
    group_writes: GroupWrites | None = None
    group_lookups: GroupLookups | None = None
    name_index: NameIndex | None = None


class BlobStore(Protocol):
    """Bytes by key. A key is a path of names: `raw/3f/sha256-…3f`.

    A blob is there whole or not at all, also to concurrent readers. When a `put` returns, it is durable. Putting the
    same again changes nothing; putting something else replaces it.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    async def put_file(self, key: str, path: Path) -> None:
        """Store a file, which is handed over: when this returns, it is no longer at `path`. If it fails, it is."""
        ...

    async def put(self, key: str, content: bytes) -> None: ...

    def read(self, key: str) -> AsyncGenerator[bytes]:
        """The blob in blocks; NotFoundError, on the first step, where there is none. Who stops early closes it."""
        ...

    async def size(self, key: str) -> int | None:
        """Stored bytes; None where there is no such blob."""
        ...

    async def delete(self, keys: Iterable[str]) -> int:
        """Delete those of these blobs that exist, and say how many that were."""
        ...

    def list(self, prefix: str) -> AsyncIterator[Blob]:
        """All blobs below a folder, such as `raw`, in no particular order; below `""`, all."""
        ...

    async def folders(self, prefix: str) -> Sequence[str]:
        """Names of the folders right below this one."""
        ...

    async def check(self) -> None:
        """StoreUnavailableError if the store cannot be used."""
        ...

    async def close(self) -> None: ...


_FORBIDDEN: Final = frozenset("\\#") | {chr(code) for code in (*range(32), 127)}


def checked(key: str) -> str:
    """The key, if every store can hold it. No name may be hidden: a store keeps what is its own under a leading dot."""
    names = key.split("/")
    if any(not name or name.startswith(".") for name in names) or _FORBIDDEN & set(key):
        raise InvalidKeyError(key)
    return key
