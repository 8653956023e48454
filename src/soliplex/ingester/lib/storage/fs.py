"""Blobs as files below a folder, each under its key.

A file is written beside the others, in `.incoming`, brought to the disk, and renamed to its place: readers see it whole
or not at all, and a crash leaves nothing but a file in `.incoming`. The folder that holds the new name is brought to
the disk too; without that, a power cut could take the name away from a file that is safe.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import batched
from pathlib import Path
from typing import BinaryIO, Final, Self
from uuid import uuid4

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.gathering import Gathering
from soliplex.ingester.lib.storage.blobs import BLOCK, Blob, Capabilities, checked
from soliplex.ingester.lib.storage.errors import NoRoomError, StorageError, StoreUnavailableError
from soliplex.ingester.lib.storage.threads import in_thread

INCOMING: Final = ".incoming"
LISTED_AT_ONCE: Final = 1000
LANES: Final = 4
PUTS_AT_ONCE: Final = 3
LARGEST_GATHERED: Final = 1 << 20
"""Bytes of a blob that is written along with others: more would keep these waiting."""
_lanes: Final = ThreadPoolExecutor(LANES - 1, thread_name_prefix="sync")


class FolderBlobs:
    """A folder on this machine, or one that several machines have mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.capabilities: Final = Capabilities(local_files=self, group_writes=self, group_lookups=self)
        self._putting = Gathering(self._put_all, at_once=PUTS_AT_ONCE)

    @property
    def incoming(self) -> Path:
        """Where files wait to be renamed. It must be on the same file system as the rest."""
        return self.root / INCOMING

    def path_of(self, key: str) -> Path:
        return self.root / checked(key)

    async def put_file(self, key: str, path: Path) -> None:
        await in_thread(self._move_in, path, self.path_of(key))

    async def link_file(self, key: str, path: Path) -> bool:
        return await in_thread(_link_in, path, self.path_of(key))

    async def release_file(self, key: str, path: Path) -> bool:
        return await in_thread(_release, path, self.path_of(key))

    async def have(self, keys: Sequence[str]) -> Sequence[bool]:
        """All are looked at in one hop to a thread."""
        paths = [self.path_of(key) for key in keys]
        return await in_thread(lambda: [_size(path) is not None for path in paths])

    def write_all(self, contents: Mapping[str, bytes], *, replace: bool = False) -> dict[str, bool | Exception]:
        """As `GroupWrites` says; with `replace`, blobs that are there are written again."""
        name = f"{self.incoming}/{uuid4().hex}"
        files = {
            key: _Small(f"{self.root}/{checked(key)}", content, f"{name}-{number}", replace)
            for number, (key, content) in enumerate(contents.items())
        }
        with explained("fs"):
            make_folders(self.incoming)
        for file in files.values():
            file.attempt(_Small.write)
        _land_all([file for file in files.values() if file.outcome in {None, True}])
        return {key: file.outcome or False for key, file in files.items()}

    async def put(self, key: str, content: bytes) -> None:
        new = (checked(key), content)
        if len(content) <= LARGEST_GATHERED:
            await self._putting.submit(new)
        else:
            for failure in await self._put_all([new]):
                if failure is not None:
                    raise failure

    async def _put_all(self, group: Sequence[tuple[str, bytes]]) -> Sequence[Exception | None]:
        # Where a key is given twice, the later content counts.
        written = await in_thread(self.write_all, dict(group), replace=True)
        outcomes = [written[key] for key, _ in group]
        return [outcome if isinstance(outcome, Exception) else None for outcome in outcomes]

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
        return await in_thread(unlink_all, [self.path_of(key) for key in keys])

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        groups = batched(self._walk(self._folder(prefix)), LISTED_AT_ONCE)
        while some := await in_thread(next, groups, ()):
            for blob in some:
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
        with explained("fs"):
            make_folders(self.incoming)
            probe = self.incoming / f"check-{uuid4().hex}"
            probe.touch()
            probe.unlink()

    def _move_in(self, path: Path, target: Path) -> None:
        with explained("fs"):
            sync(path)
            try:
                path.replace(target)
            except FileNotFoundError:  # the folder does not exist yet
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


@dataclass(slots=True)
class _Small:
    """A small blob on its way to its place, in steps. It has an outcome as soon as there is nothing more to do."""

    target: str
    content: bytes
    path: str
    replaces: bool = False
    descriptor: int = -1
    outcome: bool | Exception | None = None

    def attempt(self, step: Callable[[Self], bool | None]) -> None:
        if self.outcome is not None:
            return
        try:
            with explained("fs"):
                self.outcome = step(self)
        except Exception as exc:  # noqa: BLE001  the others of its group go on; this one's owner is told
            self.outcome = exc
            self._give_up()

    def write(self) -> bool | None:
        if not self.replaces and (there := _size(self.target)) is not None:
            return there == len(self.content)
        self.descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        rest = memoryview(self.content)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        return None

    def move_in(self) -> bool:
        os.fsync(self.descriptor)
        self._close()
        try:
            os.rename(self.path, self.target)  # noqa: PTH104  a path object for each would cost more than the call
        except FileNotFoundError:  # the folder does not exist yet
            make_folders(Path(self.target).parent)
            os.rename(self.path, self.target)  # noqa: PTH104
        return True

    def _give_up(self) -> None:
        self._close()
        Path(self.path).unlink(missing_ok=True)

    def _close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _land_all(files: Sequence[_Small]) -> None:
    """Bring files and their names to the disk, in a few threads: what is synced at the same time is written at once."""
    mine, *others = (files[lane::LANES] for lane in range(min(LANES, max(1, len(files)))))
    waiting = [_lanes.submit(_land, some) for some in others]
    try:
        _land(mine)
    finally:
        wait(waiting)
    for each in waiting:
        each.result()


def _land(files: Sequence[_Small]) -> None:
    for file in files:
        file.attempt(_Small.move_in)
    _sync_folders([file for file in files if file.outcome is True])


def _sync_folders(files: Sequence[_Small]) -> None:
    """Bring the names of files to the disk; also of files that were there: who wrote them may not have synced yet."""
    by_folder: defaultdict[str, list[_Small]] = defaultdict(list)
    for file in files:
        by_folder[file.target.rpartition("/")[0]].append(file)
    for folder, its in by_folder.items():
        try:
            with explained("fs"):
                sync(folder)
        except StorageError as exc:
            for file in its:
                file.outcome = exc


def _link_in(path: Path, target: Path) -> bool:
    with explained("fs"):
        if (there := _size(target)) is not None:
            sync(target.parent)  # whoever wrote the file may not have synced it yet
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
    except FileNotFoundError:  # the folder does not exist yet
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


def sync(path: Path | str) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(store: str, path: Path | None = None) -> Generator[None]:
    """Raise an error of the system as one of storage. `path` is the file at work, for calls whose errors name none."""
    try:
        yield
    except OSError as exc:
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoRoomError(0) from exc
        raise StoreUnavailableError(store, f"{exc.strerror or exc} ({exc.filename or path})") from exc


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


def _size(path: Path | str) -> int | None:
    try:
        status = os.stat(path)  # noqa: PTH116  it may be a text
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def unlink_all(paths: Iterable[Path]) -> int:
    """Unlink those of these files that exist, and say how many that were."""
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
