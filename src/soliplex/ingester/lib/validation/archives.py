"""Bounds on what a ZIP may unpack to.

A reader that unpacks a member reads as many bytes as the archive's directory says, and no more; so the directory, which
costs little to read, bounds everything. Members that overlap, the trick of the densest bombs, `zipfile` refuses itself.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from soliplex.ingester.lib.mime.containers import DAMAGED, LARGEST_DIRECTORY, directory_size
from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError
from soliplex.ingester.lib.validation.remedies import GET_AGAIN, SAVE_AGAIN, SPLIT, UNLOCK

SIGNATURE: Final = b"PK\x03\x04"
IN_MEMORY: Final = 4 << 20
READABLE: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED_FLAG: Final = 0x1


MOST_MEMBERS: Final = 20_000
"""Most files in an archive: workbooks of ten thousand sheets exist, and nobody wrote twice as many parts by hand."""
MOST_UNPACKED: Final = 2 << 30
MOST_RATIO: Final = 200
"""Most times as large as packed: text is packed to a tenth, sheets of equal rows to a hundredth, zeros to a thousandth.
"""
RATIO_COUNTS_FROM: Final = 32 << 20
"""Unpacked bytes from which on the ratio counts: fewer do no harm."""
DEEPEST: Final = 3
"""How deep archives may lie in each other: a document embedded in a document embedded in an archive is real."""


@dataclass(slots=True)
class Bounds:
    """What an archive may still unpack to, shared with the archives inside it."""

    members: int = MOST_MEMBERS
    unpacked: int = MOST_UNPACKED
    ratio: int = MOST_RATIO
    ratio_counts_from: int = RATIO_COUNTS_FROM
    depth: int = DEEPEST


@contextmanager
def checked_archive(path: Path, bounds: Bounds | None = None) -> Generator[zipfile.ZipFile]:
    """The open archive, once it has been found harmless. What goes wrong while it is read becomes a refusal, too."""
    if directory_size(path) > LARGEST_DIRECTORY:
        raise _bomb(f"it holds more than {MOST_MEMBERS:,} files")
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, bounds or Bounds())
            yield archive
    except DAMAGED as exc:
        raise _refusal(exc) from exc


def _check(archive: zipfile.ZipFile, bounds: Bounds) -> None:
    members = archive.infolist()
    _check_sizes(members, bounds)
    if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
        raise InvalidDocumentError(Defect.ENCRYPTED, "the archive is protected by a password", UNLOCK)
    for member in members:
        if member.file_size > len(SIGNATURE) and member.compress_type in READABLE:
            with archive.open(member) as content:
                if content.read(len(SIGNATURE)) == SIGNATURE:
                    _check_nested(archive, member, bounds)


def _check_sizes(members: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    bounds.members -= len(members)
    if bounds.members < 0:
        raise _bomb(f"it holds more than {MOST_MEMBERS:,} files")
    unpacked, packed = sum(each.file_size for each in members), sum(each.compress_size for each in members)
    bounds.unpacked -= unpacked
    if bounds.unpacked < 0:
        raise _bomb(f"it would unpack to more than {MOST_UNPACKED >> 30} GiB")
    if unpacked > bounds.ratio_counts_from and unpacked > packed * bounds.ratio:
        raise _bomb(f"it would unpack to more than {bounds.ratio} times its size")


def _check_nested(archive: zipfile.ZipFile, member: zipfile.ZipInfo, bounds: Bounds) -> None:
    bounds.depth -= 1
    if bounds.depth < 0:
        raise _bomb(f"it holds archives within archives, more than {DEEPEST} deep")
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as copy, archive.open(member) as content:
        shutil.copyfileobj(content, copy)
        with _nested_archive(copy) as inner:
            if inner is not None:
                _check(inner, bounds)
    bounds.depth += 1


@contextmanager
def _nested_archive(file: IO[bytes]) -> Generator[zipfile.ZipFile | None]:
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGED:
        yield None  # the file only begins like a ZIP: nobody can unpack it
        return
    with archive:
        yield archive


def _bomb(what: str) -> InvalidDocumentError:
    return InvalidDocumentError(Defect.BOMB, f"the file is refused as an archive bomb: {what}", SPLIT)


def _refusal(exc: BaseException) -> InvalidDocumentError:
    if "verlap" in str(exc):  # zipfile has one error for everything, and only its text differs
        return _bomb("several of the files in it share the same bytes")
    if isinstance(exc, NotImplementedError):
        return InvalidDocumentError(
            Defect.DAMAGED, "the archive is packed by a method that no office program uses", SAVE_AGAIN
        )
    if "not a zip" in str(exc):
        return InvalidDocumentError(
            Defect.TRUNCATED, "the file is cut off: the directory at the end of its archive is missing", GET_AGAIN
        )
    return InvalidDocumentError(Defect.DAMAGED, "the file is damaged: its archive cannot be unpacked", GET_AGAIN)
