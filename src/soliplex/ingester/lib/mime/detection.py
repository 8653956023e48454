"""From evidence to a MIME type."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

import filetype

from soliplex.ingester.lib.mime.containers import holds_iwork, type_of_ole, type_of_zip
from soliplex.ingester.lib.mime.text import decode, type_of_text

UNKNOWN: Final = "application/octet-stream"
ZIP: Final = b"PK\x03\x04"
UNNAMED_ZIP: Final = "application/zip"
EMPTY_ZIP: Final = b"PK\x05\x06"
OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
LOOKAHEAD: Final = 5000
PDF_WITHIN: Final = 1024
"""Readers of PDF accept its signature anywhere in the first kilobyte, and so do we."""
_NETPBM: Final = re.compile(rb"P([1-7])\s(?:\s*#[^\n]*\n)*\s*(?:\d+\s|WIDTH\s)")
_NETPBM_KINDS: Final = {
    **dict.fromkeys((b"1", b"4"), "image/x-portable-bitmap"),
    **dict.fromkeys((b"2", b"5"), "image/x-portable-graymap"),
    **dict.fromkeys((b"3", b"6"), "image/x-portable-pixmap"),
    b"7": "image/x-portable-arbitrarymap",
}
_WELL_FORMED: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")

_IWORK: Final = {
    ".key": "application/vnd.apple.keynote",
    ".numbers": "application/vnd.apple.numbers",
    ".pages": "application/vnd.apple.pages",
}
_BINARY_BY_EXTENSION: Final = {
    ".parquet": "application/vnd.apache.parquet",
    ".dbf": "application/x-dbf",
    ".one": "application/onenote",
    ".pub": "application/vnd.ms-publisher",
    ".wpd": "application/vnd.wordperfect",
    ".mdb": "application/x-msaccess",
}
"""Kinds without a signature that we know. One that has a signature, and does not show it, is not what its name says."""


def detect_mime_type(
    path: Path, name: str = "", *, declared: str | None = None, head: bytes | None = None, lookahead: int = LOOKAHEAD
) -> str:
    """The type of the file at `path`, which came under `name`, a file's name or URI.

    `declared` is what the sender says; it decides only where nothing better is known. `head` spares reading the file's
    beginning once more.
    """
    if head is None:
        head = _beginning(path, lookahead)
    extension = extension_of(name)
    if found := _by_signature(head, path):
        is_iwork = found == UNNAMED_ZIP and extension in _IWORK and holds_iwork(path)
        return _IWORK[extension] if is_iwork else found
    if (text := decode(head)) is not None:
        return type_of_text(text, extension=extension, declared=_media_type(declared))
    if guessed := filetype.guess_mime(head):
        return guessed
    return _BINARY_BY_EXTENSION.get(extension) or _believable(declared) or UNKNOWN


def needs_file(head: bytes) -> bool:
    """Whether `detect_mime_type` looks beyond the beginning of what begins so, at the file itself."""
    return head.startswith((ZIP, OLE))


def _beginning(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def extension_of(name: str) -> str:
    """The extension of a name or URI in small letters, with its dot; a query is no part of it."""
    path = unquote(_split_path(name))
    return PurePosixPath(path.replace("\\", "/")).suffix.lower()


def _split_path(name: str) -> str:
    if "://" not in name:
        return name
    try:
        return urlsplit(name).path
    except ValueError:  # such as an IPv6 address without its bracket: then it is a name like any other
        return name


def _by_signature(head: bytes, path: Path) -> str | None:
    """The kinds whose beginning says too little, or that are text and must not be taken for it."""
    if head.startswith(ZIP):
        return type_of_zip(path)
    if head.startswith(EMPTY_ZIP):
        return UNNAMED_ZIP
    if head.startswith(OLE):
        return type_of_ole(path)
    if b"%PDF-" in head[:PDF_WITHIN]:
        return "application/pdf"
    if head.startswith(b"{\\rtf"):
        return "application/rtf"
    return "application/postscript" if head.startswith(b"%!PS") else _kind_of_netpbm(head)


def _kind_of_netpbm(head: bytes) -> str | None:
    """Pictures whose beginning is written as text, and whose bright pixels are letters in some encoding."""
    found = _NETPBM.match(head)
    return _NETPBM_KINDS[found[1]] if found else None


def _media_type(declared: str | None) -> str | None:
    """What was declared, without parameters such as a charset; None if it is no type."""
    media_type = (declared or "").partition(";")[0].strip().lower()
    return media_type if _WELL_FORMED.fullmatch(media_type) else None


def _believable(declared: str | None) -> str | None:
    """A declared type, unless the bytes speak against it: they are no text, and bear no signature that we know."""
    media_type = _media_type(declared)
    if media_type is None or media_type.startswith("text/") or filetype.get_type(mime=media_type) is not None:
        return None
    return None if media_type in _ALWAYS_RECOGNISED else media_type


_ALWAYS_RECOGNISED: Final = frozenset(
    {"application/json", "application/xml", "application/xhtml+xml", "application/x-yaml", "message/rfc822"}
)
