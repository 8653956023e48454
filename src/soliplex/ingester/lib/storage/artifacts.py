"""Documents and what is made of them, by hash, kind and step config, whatever the store."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.gathering import Gathering
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.storage import envelope
from soliplex.ingester.lib.storage.blob_keys import Layout, hash_of_digest
from soliplex.ingester.lib.storage.blobs import BlobStore, GroupWrites
from soliplex.ingester.lib.storage.errors import DamagedBlobError
from soliplex.ingester.lib.storage.spool import Received, Spool
from soliplex.ingester.lib.storage.threads import in_thread

DELETED_AT_ONCE: Final = 10_000
VERIFIED_AT_ONCE: Final = 4
LOOKED_FOR_AT_ONCE: Final = 64
LARGEST_HELD: Final = 64 << 10
"""Most bytes of a document that is held in memory: for larger ones, a hop to a thread costs less than the write itself.
"""


class Integrity(StrEnum):
    """What a check of a stored document found."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


class Artifacts:
    """All stored bytes. Made by `get_artifacts()`, or from its parts in a test."""

    def __init__(self, store: BlobStore, spool: Spool, layout: Layout, *, compress: bool = False) -> None:
        self.store = store
        self.spool = spool
        self.layout = layout
        self._compress = compress
        writes, lookups = store.capabilities.group_writes, store.capabilities.group_lookups
        self._keeping = Gathering(partial(self._keep_held, writes)) if writes and not compress else None
        self._looking = Gathering(lookups.have) if lookups else None

    async def receive(
        self, content: AsyncIterable[bytes], *, limit: int | None, expected: int | None = None, hold: bool = False
    ) -> Received:
        """Take in a document, hashing as it comes. The caller then keeps it, or discards it.

        DocumentTooLargeError as soon as the limit is passed, and before the disk is full. With `hold`, a small one is
        not written to the spool, but held until `keep_copy` writes it, with others, to where it belongs.
        """
        largest = LARGEST_HELD if hold and self._keeping else 0
        return await self.spool.receive(content, limit=limit, expected=expected, hold=largest)

    async def as_file(self, received: Received) -> Received:
        """The same document, in the spool even if it was held: for those who need to look into a file."""
        return await self.spool.write(received)

    async def keep(self, received: Received) -> bool:
        """Make a received document durable under its hash, and remove its spool; False if it was there already.

        If this fails, the spool is still there: keep it once more, or discard it.
        """
        received = await self.spool.write(received)
        is_new = await self.document_size(received.hash) != received.size
        if is_new:
            await self._put(self.layout.document(received.hash), received.path, received.head)
        else:
            await self.discard(received)
        return is_new

    async def keep_copy(self, received: Received) -> None:
        """As `keep`, but the spool stays: what is kept may be lost again to a removal that is under way."""
        if await self._link(received):
            return
        second = await self._second(received)
        try:
            await self.keep(second)
        except BaseException:
            await self.discard(second)
            raise

    async def release(self, received: Received) -> bool:
        """Remove the spool of a document that is kept; False, and it stays, if the document is not there any more."""
        key = self.layout.document(received.hash)
        if received.held is None and (files := self.store.capabilities.local_files):
            return await files.release_file(key, received.path)
        if not await self._is_there(key):
            return False
        await self.discard(received)
        return True

    async def discard(self, received: Received) -> None:
        """Forget a received document; one that is kept stays kept."""
        if received.held is None:
            await in_thread(received.path.unlink, missing_ok=True)

    def read_document(self, doc_hash: str) -> AsyncGenerator[bytes]:
        """The document in blocks; NotFoundError on the first step, where there is none. Who stops early closes it."""
        return self._original(self.layout.document(doc_hash), NotFoundError("document", doc_hash))

    @asynccontextmanager
    async def document_file(self, doc_hash: str) -> AsyncGenerator[Path]:
        """The document as a local file, to read and not to touch; a copy, where the store has no such file itself."""
        missing = NotFoundError("document", doc_hash)
        async with self._file(self.layout.document(doc_hash), missing) as path:
            yield path

    async def has_document(self, doc_hash: str) -> bool:
        return await self._is_there(self.layout.document(doc_hash))

    async def document_size(self, doc_hash: str) -> int | None:
        """Bytes of the document, however it is stored; None where it is not."""
        key = self.layout.document(doc_hash)
        stored = await self.store.size(key)
        if stored is None or stored < envelope.HEADER:
            return stored
        original = envelope.original_size(await self._head(key))
        return stored if original is None else original

    async def write(self, doc_hash: str, kind: ArtifactType, step_config_id: int, content: bytes) -> None:
        """Store what a step made of a document; what it made before is replaced."""
        key = self.layout.artifact(doc_hash, kind, step_config_id)
        if self._compress or envelope.is_compressed(content):
            content = await in_thread(envelope.compress, content)
        await self.store.put(key, content)

    async def write_file(self, doc_hash: str, kind: ArtifactType, step_config_id: int, path: Path) -> None:
        """As `write`, for a file of the spool, which is handed over: a large artifact need not be in memory."""
        await self._put(self.layout.artifact(doc_hash, kind, step_config_id), path, await in_thread(_beginning, path))

    async def read(self, doc_hash: str, kind: ArtifactType, step_config_id: int) -> bytes:
        """What a step made of a document; NotFoundError if it has not."""
        return b"".join([block async for block in self.read_blocks(doc_hash, kind, step_config_id)])

    async def read_short(self, doc_hash: str, kind: ArtifactType, step_config_id: int, *, most: int) -> bytes | None:
        """As `read`, if the artifact has at most so many bytes; else None, and no more than these bytes were read."""
        content = bytearray()
        async with aclosing(self.read_blocks(doc_hash, kind, step_config_id)) as blocks:
            async for block in blocks:
                content += block
                if len(content) > most:
                    return None
        return bytes(content)

    def read_blocks(self, doc_hash: str, kind: ArtifactType, step_config_id: int) -> AsyncGenerator[bytes]:
        """As `read`, in blocks, as `read_document` gives them."""
        missing = _missing(doc_hash, kind, step_config_id)
        return self._original(self.layout.artifact(doc_hash, kind, step_config_id), missing)

    @asynccontextmanager
    async def artifact_file(self, doc_hash: str, kind: ArtifactType, step_config_id: int) -> AsyncGenerator[Path]:
        """The artifact as a local file, as `document_file` gives it: for a process that reads it by itself."""
        missing = _missing(doc_hash, kind, step_config_id)
        async with self._file(self.layout.artifact(doc_hash, kind, step_config_id), missing) as path:
            yield path

    async def has(self, doc_hash: str, kind: ArtifactType, step_config_id: int) -> bool:
        return await self._is_there(self.layout.artifact(doc_hash, kind, step_config_id))

    async def configs_of(self, kind: ArtifactType, doc_hashes: Iterable[str]) -> dict[str, list[int]]:
        """By document, the step configs that made an artifact of this kind. The store is asked which there are."""
        wanted = [self.layout.checked_hash(doc_hash) for doc_hash in doc_hashes]
        folder = self.layout.dirs[kind]
        if index := self.store.capabilities.name_index:
            below = await index.folders_of(wanted, folder)
            return {doc_hash: list(map(int, filter(_is_config, names))) for doc_hash, names in below.items()}
        configs = [int(name) for name in await self.store.folders(folder) if _is_config(name)]
        pairs = [(doc_hash, config) for doc_hash in wanted for config in configs]
        found: dict[str, list[int]] = {}
        for some in batched(pairs, LOOKED_FOR_AT_ONCE):
            there = await asyncio.gather(*(self.has(doc_hash, kind, config) for doc_hash, config in some))
            for (doc_hash, config), is_there in zip(some, there, strict=True):
                if is_there:
                    found.setdefault(doc_hash, []).append(config)
        return found

    async def delete(self, doc_hash: str, step_config_ids: Iterable[int]) -> int:
        """Delete a document and what these step configs made of it; the number of blobs that were there."""
        return await self.delete_many([doc_hash], step_config_ids)

    async def delete_many(self, doc_hashes: Iterable[str], step_config_ids: Iterable[int]) -> int:
        configs = [(kind, config) for kind in self.layout.derived() for config in set(step_config_ids)]
        return await self._delete(doc_hashes, configs)

    async def delete_all(self, *doc_hashes: str) -> int:
        """Delete documents and what any step config ever made of them. The store is asked which there are."""
        if index := self.store.capabilities.name_index:
            return await index.delete_named(self.layout.checked_hash(doc_hash) for doc_hash in doc_hashes)
        configs = [
            (kind, int(name))
            for kind in self.layout.derived()
            for name in await self.store.folders(self.layout.dirs[kind])
            if _is_config(name)
        ]
        return await self._delete(doc_hashes, configs)

    async def verify(self, doc_hashes: Iterable[str], *, deep: bool = True) -> dict[str, Integrity]:
        """Whether each document is there and, with `deep`, whether its bytes still have its hash."""
        found: dict[str, Integrity] = {}
        look = self._verify_bytes if deep else self._verify_presence
        for some in batched(doc_hashes, VERIFIED_AT_ONCE):
            found |= zip(some, await asyncio.gather(*map(look, some)), strict=True)
        return found

    async def check(self) -> None:
        """StorageError if nothing could be stored now."""
        await self.store.check()
        await in_thread(self.spool.see_room_for, 1)

    async def close(self) -> None:
        await self.store.close()

    async def _is_there(self, key: str) -> bool:
        if self._looking:
            return await self._looking.submit(key)
        return await self.store.size(key) is not None

    async def _link(self, received: Received) -> bool:
        """Keep the document without a copy, if the store can: most uploads are small, and hops to threads cost most."""
        if self._packs(received.head):
            return False
        if received.held is not None:
            return self._keeping is not None and await self._keeping.submit(received)
        files = self.store.capabilities.local_files
        return files is not None and await files.link_file(self.layout.document(received.hash), received.path)

    async def _keep_held(self, writes: GroupWrites, group: Sequence[Received]) -> Sequence[bool | Exception]:
        keys = [self.layout.document(each.hash) for each in group]
        contents = {key: each.held or b"" for key, each in zip(keys, group, strict=True)}
        kept = await in_thread(self._write_all, writes, contents)
        return [kept[key] for key in keys]

    def _write_all(self, writes: GroupWrites, contents: dict[str, bytes]) -> Mapping[str, bool | Exception]:
        self.spool.see_room_for(sum(map(len, contents.values())))
        return writes.write_all(contents)

    async def _second(self, received: Received) -> Received:
        if received.held is not None:
            return await self.spool.write(received)
        second = replace(received, path=self.spool.new_path())
        await in_thread(_duplicate, received.path, second.path)
        return second

    def _packs(self, head: bytes) -> bool:
        """Whether content with this beginning is stored in an envelope: to be smaller, or since it looks like one."""
        return self._compress or envelope.is_compressed(head)

    async def _put(self, key: str, path: Path, head: bytes) -> None:
        if not self._packs(head):
            await self.store.put_file(key, path)
            return
        packed = self.spool.new_path()
        try:
            if await in_thread(envelope.compress_file, path, packed):
                await self.store.put_file(key, packed)
                await in_thread(path.unlink, missing_ok=True)
            else:
                await self.store.put_file(key, path)
        finally:
            await in_thread(packed.unlink, missing_ok=True)

    async def _original(self, key: str, missing: NotFoundError) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(envelope.original(self.store.read(key), key)) as blocks:
                async for block in blocks:
                    yield block
        except NotFoundError as exc:
            raise missing from exc

    async def _head(self, key: str) -> bytes:
        async with aclosing(self.store.read(key)) as blocks:
            return await anext(blocks, b"")

    @asynccontextmanager
    async def _file(self, key: str, missing: NotFoundError) -> AsyncGenerator[Path]:
        if path := await self._own_file(key, missing):
            yield path
            return
        received = await self.spool.receive(self._original(key, missing))
        try:
            yield received.path
        finally:
            await self.discard(received)

    async def _own_file(self, key: str, missing: NotFoundError) -> Path | None:
        files = self.store.capabilities.local_files
        if files is None:
            return None
        path = files.path_of(key)
        try:
            return None if envelope.is_compressed(await in_thread(_beginning, path)) else path
        except FileNotFoundError as exc:
            raise missing from exc

    def _keys(self, doc_hashes: Iterable[str], configs: list[tuple[ArtifactType, int]]) -> Iterator[str]:
        for doc_hash in doc_hashes:
            yield self.layout.document(doc_hash)
            for kind, config in configs:
                yield self.layout.artifact(doc_hash, kind, config)

    async def _delete(self, doc_hashes: Iterable[str], configs: list[tuple[ArtifactType, int]]) -> int:
        keys = self._keys(doc_hashes, configs)
        return sum([await self.store.delete(some) for some in batched(keys, DELETED_AT_ONCE)])

    async def _verify_presence(self, doc_hash: str) -> Integrity:
        return Integrity.OK if await self.has_document(doc_hash) else Integrity.MISSING

    async def _verify_bytes(self, doc_hash: str) -> Integrity:
        digest = hashlib.sha256()
        try:
            async for block in self.read_document(doc_hash):
                await in_thread(digest.update, block)
        except NotFoundError:
            return Integrity.MISSING
        except DamagedBlobError:
            return Integrity.DAMAGED
        return Integrity.OK if hash_of_digest(digest) == doc_hash else Integrity.DAMAGED


def _duplicate(path: Path, second: Path) -> None:
    try:
        second.hardlink_to(path)
    except OSError:  # not every file system has hard links
        shutil.copyfile(path, second)


def _missing(doc_hash: str, kind: ArtifactType, step_config_id: int) -> NotFoundError:
    return NotFoundError(f"artifact {kind} of step config {step_config_id} for document", doc_hash)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(envelope.HEADER)


def _is_config(name: str) -> bool:
    """Whether a folder is that of a step config."""
    return name.isascii() and name.isdigit()
