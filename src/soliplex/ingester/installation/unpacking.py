"""Archives as folders of documents: what is in `a.zip` is ingested as `a.zip!/folder/file`.

Members are unpacked into a folder of their own, under names that we choose, and deleted with the ingestion. What an
archive says of itself is believed only as far as it is checked: the number of members, what they unpack to, and how
many times as much that is as the archive. An archive that is refused gives nothing: it is not known which half of it
would be right.

Links, and what is neither file nor folder, are left out, as where folders are walked. An archive inside an archive is
told as a failure.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

from soliplex.ingester.installation.local_files import (
    BETWEEN,
    MBOX,
    ZIP,
    Finding,
    LeftOut,
    LocalFile,
    Rules,
    Unreadable,
    Why,
    is_name_of_archive,
    reason_of,
    why_not_inside,
)
from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.mime import UNKNOWN, detect_mime_type
from soliplex.ingester.lib.mime.containers import DAMAGED
from soliplex.ingester.lib.validation.archives import Bounds, checked_archive

LARGEST_MESSAGE: Final = 128 << 20
LONGEST_NAME: Final = 1_000
BLOCK: Final = 1 << 20
LARGEST_SIP: Final = 16 << 20
_NO_DOCUMENT: Final = frozenset({"application/zip", UNKNOWN})
_LINK: Final = 0o120000
_TYPE_OF_FILE: Final = 0o170000
_QUOTED_FROM: Final = re.compile(rb">+From ")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_DAMAGED: Final = (tarfile.TarError, *DAMAGED)


class ArchiveRefusedError(IngesterError):
    """Nothing of the archive is ingested."""


@dataclass(frozen=True, slots=True)
class _Member:
    """What an archive says of a file in it, and how its bytes are had."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]
    why_not: Why | None = None


def is_archive(file: Path, name: str) -> bool:
    """Whether a file of this name is looked into. An office document is a ZIP, too, and a document all the same.

    One that is damaged or cannot be read is an archive, too: looking into it says so.
    """
    if not name.lower().endswith(ZIP):
        return is_name_of_archive(name)
    try:
        return detect_mime_type(file, name) in _NO_DOCUMENT
    except OSError:
        return True


def unpacked(archive: Path, into: Path, rules: Rules) -> list[Finding]:
    """The files in the archive, each with a copy of its bytes below `into`; or the one reason why there are none."""
    found: dict[Path, Finding] = {}
    folder = Path(tempfile.mkdtemp(dir=into))
    try:
        with _members(archive) as members:
            for number, member in enumerate(members):
                finding = _taken(archive, member, folder / str(number), rules)
                found[finding.path] = finding  # of two members with one name, the later one counts
    except (IngesterError, *_DAMAGED) as exc:
        shutil.rmtree(folder, ignore_errors=True)
        return [Unreadable(archive, _reason(exc))]
    return list(found.values()) or [LeftOut(archive, Why.EMPTY)]


def _reason(exc: BaseException) -> str:
    if isinstance(exc, IngesterError):
        return str(exc)
    if isinstance(exc, OSError) and exc.errno is not None:
        return reason_of(exc)
    return "the archive is damaged or cut off; get it again, or unpack it and ingest what is in it"


def _taken(archive: Path, member: _Member, copy: Path, rules: Rules) -> Finding:
    inside = _inside(member.name)
    path = archive.with_name(archive.name + BETWEEN) / inside
    why = member.why_not or why_not_inside(inside, rules)
    if why is not None:
        return LeftOut(path, why)
    size = _copy(member, copy)
    if not size:
        return LeftOut(path, Why.EMPTY)
    if is_archive(copy, path.name):
        return Unreadable(path, "it is an archive inside an archive; unpack the outer one, and ingest what is in it")
    return LocalFile(path, size, content=copy)


def _inside(name: str) -> PurePosixPath:
    """The path of a member, if it is one that can lie inside a folder and be a URI."""
    path = PurePosixPath(name.replace("\\", "/"))
    is_outside = path.is_absolute() or ".." in path.parts or bool(_DRIVE.match(name))
    if is_outside or not path.parts:
        raise ArchiveRefusedError(
            f"the archive is refused: a file in it is named {name[:80]!r}, which lies outside of it"
        )
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise ArchiveRefusedError(
            f"the archive is refused: the name {name[:80]!r} of a file in it cannot be one; rename it and pack it again"
        )
    return path


def _copy(member: _Member, copy: Path) -> int:
    """How many bytes the copy has: no more than the archive has said, whatever comes."""
    left = member.size
    with member.open() as source, copy.open("wb") as target:
        while block := source.read(min(BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                raise ArchiveRefusedError("the archive is refused: a file in it is larger than the archive says")
            target.write(block)
    return member.size - left


@contextmanager
def _members(archive: Path) -> Generator[Iterator[_Member]]:
    name = archive.name.lower()
    if name.endswith(ZIP):
        with checked_archive(archive) as opened:
            yield _in_zip(opened)
    elif name.endswith(MBOX):
        with archive.open("rb") as file:
            yield _in_mailbox(file)
    else:
        with _unpressed(archive) as file, tarfile.open(fileobj=cast("IO[bytes]", _Sips(file)), mode="r:") as tar:
            yield _in_tar(tar, archive.stat().st_size)


def _unpressed(archive: Path) -> IO[bytes]:
    name = archive.name.lower()
    if name.endswith(".tar"):
        return archive.open("rb")
    return cast("IO[bytes]", gzip.GzipFile(archive) if name.endswith("gz") else bz2.BZ2File(archive))


class _Sips:
    """A file of which nobody reads much at once: tarfile takes the name of a member into memory, however long it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.tell, self.seek, self.close = file.tell, file.seek, file.close

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_SIP:
            raise _bomb("a name in it is longer than any can be")
        return self._file.read(size)


def _in_zip(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        if not info.is_dir():
            is_link = info.external_attr >> 16 & _TYPE_OF_FILE == _LINK
            yield _Member(info.filename, info.file_size, partial(archive.open, info), Why.LINK if is_link else None)


def _in_tar(archive: tarfile.TarFile, packed: int) -> Iterator[_Member]:
    """The members as they come: nothing tells how many there are, so each is counted before it is read."""
    bounds, total = Bounds(), 0
    for number, info in enumerate(archive, start=1):
        total += info.size
        if number > bounds.members:
            raise _bomb(f"it holds more than {bounds.members:,} files")
        if total > bounds.unpacked or (total > bounds.ratio_counts_from and total > packed * bounds.ratio):
            raise _bomb(f"it would unpack to {total:,} bytes or more")
        if not info.isdir():
            yield _Member(info.name, info.size, partial(_extracted, archive, info), _why_no_file(info))
    # tarfile takes an archive that was cut off between two members for one that ends there.
    archive.fileobj.seek(archive.offset)
    if len(archive.fileobj.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("the end is missing")


def _why_no_file(info: tarfile.TarInfo) -> Why | None:
    if info.issym() or info.islnk():
        return Why.LINK
    return None if info.isreg() and not info.issparse() else Why.SPECIAL


def _extracted(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    return archive.extractfile(info) or io.BytesIO()


def _in_mailbox(file: IO[bytes]) -> Iterator[_Member]:
    bounds = Bounds()
    for number, message in enumerate(_messages(file), start=1):
        if number > bounds.members:
            raise _bomb(f"it holds more than {bounds.members:,} messages")
        yield _Member(f"{number:06}.eml", len(message), partial(io.BytesIO, message))


def _messages(file: IO[bytes]) -> Iterator[bytes]:
    """What stands between the lines that begin with "From ", each of which follows on an empty line."""
    if not file.readline(BLOCK).startswith(b"From "):
        raise ArchiveRefusedError("it does not begin as a mailbox does, with a line of From")
    message, is_after_empty = bytearray(), False
    while line := file.readline(BLOCK):
        if is_after_empty and line.startswith(b"From "):
            yield bytes(message)
            message.clear()
            continue
        message += line[1:] if _QUOTED_FROM.match(line) else line
        if len(message) > LARGEST_MESSAGE:
            raise _bomb(f"a message in it has more than {LARGEST_MESSAGE >> 20} MiB")
        is_after_empty = not line.strip(b"\r\n")
    yield bytes(message)


def _bomb(what: str) -> ArchiveRefusedError:
    return ArchiveRefusedError(f"the archive is refused: {what}; split it, and ingest the parts")
