"""Looks inside the two containers that office documents come in: ZIP and OLE.

Both are written by whoever sends the document, so every size in them is checked before it is believed.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

ZIP: Final = "application/zip"
OLE: Final = "application/x-ole-storage"
OPEN_DOCUMENT: Final = re.compile(rb"application/[\w.+-]{1,100}")
OFFICE_MAIN: Final = re.compile(rb"""ContentType\s*=\s*["'](application/[\w.+-]{1,120})\.main\+xml["']""")
EPUB: Final = "application/epub+zip"
_MANIFEST_ROOT: Final = re.compile(
    rb'<(?:\w+:)?file-entry\b(?=[^>]*\bfull-path="/")[^>]*\bmedia-type="(application/vnd\.oasis\.[\w.+-]{1,100})"'
)
"""What the manifest of an OpenDocument file says of the file as a whole."""
_IWORK_PART: Final = re.compile(r"(?:[^/]+/)?(?:Index/[^/]+\.iwa|Index\.zip|index\.(?:xml|apxl)(?:\.gz)?)")
"""Where Pages, Keynote and Numbers keep what a document says: today, flattened to one file, and before 2013."""
_BEFORE_TYPE: Final = b"\xef\xbb\xbf \t\r\n"
"""What some programs write before the type: a byte order mark, or space."""
LARGEST_DIRECTORY: Final = 16 << 20
"""Bytes of a ZIP's directory that are read: a hundred thousand members."""
LARGEST_MEMBER: Final = 256 << 10
MOST_SECTORS: Final = 4096
OLE_HEADER: Final = 512
OLE_ENTRY: Final = 128
"""One entry of a directory: a name in 64 bytes, its length in the next two."""
OLE_NAME: Final = 64
NO_SECTOR: Final = 0xFFFFFFFA
"""From here on, a number says that a chain ends, or that there is none."""

DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    EOFError,
)
"""What the standard library raises on archives that are not in order."""

_END: Final = struct.Struct("<4s4H2IH")
_OLE_KINDS: Final = {
    "WordDocument": "application/msword",
    "Workbook": "application/vnd.ms-excel",
    "Book": "application/vnd.ms-excel",
    "PowerPoint Document": "application/vnd.ms-powerpoint",
    "__properties_version1.0": "application/vnd.ms-outlook",
    "VisioDocument": "application/vnd.visio",
    "EncryptedPackage": "application/x-encrypted-office",
}


def type_of_zip(path: Path) -> str:
    """OpenDocument and EPUB say what they are in a member of their own, Office Open XML in its list of types."""
    if not 0 < directory_size(path) <= LARGEST_DIRECTORY:
        return ZIP
    try:
        with zipfile.ZipFile(path) as archive:
            return _declared_inside(archive) or ZIP
    except DAMAGED:
        return ZIP  # damaged or encrypted, but a ZIP all the same


def holds_iwork(path: Path) -> bool:
    """Whether a ZIP is built as Pages, Keynote and Numbers build theirs; which of the three did, its name tells."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(map(_IWORK_PART.fullmatch, archive.namelist()))
    except DAMAGED:
        return False


def _declared_inside(archive: zipfile.ZipFile) -> str | None:
    names = set(archive.namelist())
    if "mimetype" in names and (found := OPEN_DOCUMENT.match(_member(archive, "mimetype").lstrip(_BEFORE_TYPE))):
        return found[0].decode()
    if "[Content_Types].xml" in names and (found := OFFICE_MAIN.search(_member(archive, "[Content_Types].xml"))):
        return _registered(found[1].decode())
    return _declared_by_its_parts(archive, names)


def _registered(kind: str) -> str:
    """The name under which a type is registered: those with macros end in a version there, and not in the file."""
    kind = kind.removesuffix("Template") if kind.endswith("macroEnabledTemplate") else kind
    return f"{kind}.12" if kind.endswith("macroEnabled") else kind


def _declared_by_its_parts(archive: zipfile.ZipFile, names: set[str]) -> str | None:
    """For archives that somebody unpacked and packed again, without the member that says what they are."""
    if "META-INF/container.xml" in names and any(name.endswith(".opf") for name in names):
        return EPUB
    if "META-INF/manifest.xml" in names and (found := _MANIFEST_ROOT.search(_member(archive, "META-INF/manifest.xml"))):
        return found[1].decode()
    return None


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    about = archive.getinfo(name)
    # The other ways to pack are unpacked without a bound, and no office program uses them.
    if about.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        return b""
    with archive.open(about) as member:
        return member.read(LARGEST_MEMBER)


def directory_size(path: Path) -> int:
    """Bytes of the directory, as the record at the end of a ZIP says; 0 without such a record."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END.size - 0xFFFF))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        return 0
    return _END.unpack_from(tail, at)[5]


def type_of_ole(path: Path) -> str:
    """The names of its streams tell the program that wrote it."""
    with path.open("rb") as file:
        names = set(_OleDirectory(file).names())
    return next((kind for name, kind in _OLE_KINDS.items() if name in names), OLE)


class _OleDirectory:
    """As much of a compound file as it takes to read the names in it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._header = file.read(OLE_HEADER).ljust(OLE_HEADER, b"\x00")
        (shift,) = struct.unpack_from("<H", self._header, 30)
        self._sector_size = 1 << shift if shift in {9, 12} else 512

    def names(self) -> Iterator[str]:
        for sector in self._directory_sectors():
            content = self._sector(sector)
            for at in range(0, len(content) - OLE_ENTRY + 1, OLE_ENTRY):
                (length,) = struct.unpack_from("<H", content, at + OLE_NAME)
                name = content[at : at + min(length, OLE_NAME)].decode("utf-16-le", "replace")
                yield name.rstrip("\x00")

    def _directory_sectors(self) -> Iterator[int]:
        (sector,) = struct.unpack_from("<I", self._header, 48)
        table = self._allocation_table()
        for _ in range(MOST_SECTORS):
            yield sector
            if sector >= len(table):
                return
            sector = table[sector]
            if sector >= NO_SECTOR:
                return

    def _allocation_table(self) -> Sequence[int]:
        """Which sector follows which. The header lists the first 109 parts; the directory stands well within them."""
        entries: list[int] = []
        for sector in struct.unpack_from("<109I", self._header, 76):
            if sector >= NO_SECTOR:
                break
            content = self._sector(sector)
            entries.extend(struct.unpack(f"<{len(content) // 4}I", content[: len(content) // 4 * 4]))
        return entries

    def _sector(self, number: int) -> bytes:
        self._file.seek((number + 1) * self._sector_size)
        return self._file.read(self._sector_size)
