"""Blobs as files below a folder, each under its key.

A file is written beside the others, in `.incoming`, brought to the disk, and renamed to its place: readers see it whole
or not at all, and a crash leaves nothing but a file in `.incoming`. The folder that holds the new name is brought to
the disk too; without that, a power cut could take the name away from a file that is safe.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import batched
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.storage.blobs import BLOCK, Blob, checked
from soliplex.ingester.lib.storage.errors import NoRoomError, StoreUnavailableError
from soliplex.ingester.lib.storage.threads import in_thread

INCOMING: Final = ".incoming"
LISTED_AT_ONCE: Final = 1000


class FolderBlobs:
    """A folder on this machine, or one that several machines have mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def incoming(self) -> Path:
        """Where files wait to be renamed. It must be on the same file system as the rest."""
        return self.root / INCOMING

    def path_of(self, key: str) -> Path:
        """Where the blob is, if it is there."""
        return self.root / checked(key)

    async def put_file(self, key: str, path: Path) -> None:
        await in_thread(self._move_in, path, self.path_of(key))

    async def link_file(self, key: str, path: Path) -> bool:
        """Store the file unless a blob of its size is there already; it stays where it is.

        False: that cannot be done without copying, or what is there is of another size.
        """
        return await in_thread(_link_in, path, self.path_of(key))

    async def release_file(self, key: str, path: Path) -> bool:
        """Unlink a file whose content is stored under the key; False, and it stays, if that is not so."""
        return await in_thread(_release, path, self.path_of(key))

    async def put(self, key: str, content: bytes) -> None:
        await in_thread(self._write, self.path_of(key), content)

    async def read(self, key: str) -> AsyncGenerator[bytes]:
        file, block = await in_thread(_open, self.path_of(key), key)
        try:
            while block:
                yield block
                # A short block was the last one: most blobs are read in one hop.
                block = await in_thread(file.read, BLOCK) if len(block) == BLOCK else b""
        finally:
            file.close()

    async def size(self, key: str) -> int | None:
        return await in_thread(_size, self.path_of(key))

    async def delete(self, keys: Iterable[str]) -> int:
        return await in_thread(_unlink, [self.path_of(key) for key in keys])

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        batches = batched(self._walk(self._folder(prefix)), LISTED_AT_ONCE)
        while batch := await in_thread(next, batches, ()):
            for blob in batch:
                yield blob

    async def folders(self, prefix: str) -> Sequence[str]:
        return await in_thread(_names_of_folders, self._folder(prefix))

    async def check(self) -> None:
        await in_thread(self._check)

    async def close(self) -> None:
        """No file stays open."""

    def _folder(self, prefix: str) -> Path:
        return self.path_of(prefix) if prefix else self.root

    def _check(self) -> None:
        with _explained():
            make_folders(self.incoming)
            probe = self.incoming / f"check-{uuid4().hex}"
            probe.touch()
            probe.unlink()

    def _write(self, target: Path, content: bytes) -> None:
        waiting = self.incoming / uuid4().hex
        try:
            with _explained():
                make_folders(self.incoming)
                waiting.write_bytes(content)
            self._move_in(waiting, target)
        finally:
            waiting.unlink(missing_ok=True)

    def _move_in(self, path: Path, target: Path) -> None:
        with _explained():
            sync(path)
            try:
                path.replace(target)
            except FileNotFoundError:  # the first of its folder
                make_folders(target.parent)
                path.replace(target)
            # Two links to one file are not renamed: the call succeeds, and both stay.
            path.unlink(missing_ok=True)
            sync(target.parent)

    def _walk(self, folder: Path) -> Iterator[Blob]:
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=True):
                yield from self._walk(Path(entry.path))
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # deleted since the folder was read
                continue
            key = Path(entry.path).relative_to(self.root).as_posix()
            yield Blob(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _link_in(path: Path, target: Path) -> bool:
    with _explained():
        if (there := _size(target)) is not None:
            return there == path.stat().st_size
        sync(path)
        try:
            _link(path, target)
        except OSError:  # another was first, or the file system has no links
            return False
        sync(target.parent)
        return True


def _link(path: Path, target: Path) -> None:
    try:
        target.hardlink_to(path)
    except FileNotFoundError:  # the first of its folder
        make_folders(target.parent)
        target.hardlink_to(path)


def _release(path: Path, target: Path) -> bool:
    if _size(target) is None:
        return False
    path.unlink(missing_ok=True)
    return True


def make_folders(folder: Path) -> None:
    """Create the folder and those above it, durably."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained() -> Generator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoRoomError(0) from exc
        raise StoreUnavailableError("fs", f"{exc.strerror or exc} ({exc.filename})") from exc


def _open(path: Path, key: str) -> tuple[BinaryIO, bytes]:
    try:
        file = path.open("rb", buffering=0)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
        raise NotFoundError("blob", key) from exc
    try:
        return file, file.read(BLOCK)
    except BaseException:
        file.close()
        raise


def _size(path: Path) -> int | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _unlink(paths: Sequence[Path]) -> int:
    there = 0
    for path in paths:
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        there += 1
    return there


def _entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except FileNotFoundError:
        return ()


def _names_of_folders(folder: Path) -> Sequence[str]:
    return sorted(entry.name for entry in _entries(folder) if entry.is_dir())
