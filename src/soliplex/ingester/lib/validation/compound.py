"""OLE compound files: Word, Excel and PowerPoint of before 2007, Visio, and Outlook's messages."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError
from soliplex.ingester.lib.validation.facts import Facts, tidy
from soliplex.ingester.lib.validation.remedies import GET_AGAIN, UNLOCK

type OleFile = Any
"""olefile's class, whose type stubs do not know its own attributes."""

ENCRYPTED_PACKAGE: Final = "application/x-encrypted-office"
_WORD_FLAGS_AT: Final = 10
_WORD_ENCRYPTED: Final = 0x0100
_EXCEL_PASSWORD: Final = 0x002F
_EXCEL_RECORDS: Final = 20
"""The first records of a workbook: that of a password is among them, if there is one, and data comes later."""
_POWERPOINT_TOKEN_AT: Final = 12
_POWERPOINT_ENCRYPTED: Final = 0xF3D1C4DF
_TRIPPED: Final = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error, OverflowError)
"""Whatever is wrong with the tables inside, olefile finds out by tripping over it."""
_MAPI_SUBJECT: Final = ("__substg1.0_0037001F", "__substg1.0_0037001E")
_MAPI_SENDER: Final = ("__substg1.0_0C1A001F", "__substg1.0_0C1A001E")


def check_compound_file(path: Path) -> Facts:
    """See that its directory can be read and that it is not encrypted; gives what its summary says."""
    import olefile  # noqa: PLC0415  only for these

    try:
        with olefile.OleFileIO(str(path)) as file:
            if _is_encrypted(file):
                raise _password()
            return tidy({**_summary(file), **_message(file)})
    except _TRIPPED as exc:
        raise InvalidDocumentError(
            Defect.DAMAGED, "the document is damaged or cut off: the directory of its parts cannot be read", GET_AGAIN
        ) from exc


def refuse_encrypted_package(_path: Path) -> Facts:
    """An Office document of today, encrypted: the archive is wrapped in a compound file."""
    raise _password()


def _password() -> InvalidDocumentError:
    return InvalidDocumentError(Defect.ENCRYPTED, "the document is protected by a password", UNLOCK)


def _is_encrypted(file: OleFile) -> bool:
    if file.exists("EncryptedPackage") or file.exists("EncryptedSummary"):
        return True
    return _is_encrypted_word(file) or _is_encrypted_excel(file) or _is_encrypted_powerpoint(file)


def _is_encrypted_word(file: OleFile) -> bool:
    beginning = _beginning(file, "WordDocument", _WORD_FLAGS_AT + 2)
    return len(beginning) > _WORD_FLAGS_AT + 1 and bool(
        struct.unpack_from("<H", beginning, _WORD_FLAGS_AT)[0] & _WORD_ENCRYPTED
    )


def _is_encrypted_excel(file: OleFile) -> bool:
    content = _beginning(file, "Workbook", 1 << 16) or _beginning(file, "Book", 1 << 16)
    at = 0
    for _ in range(_EXCEL_RECORDS):
        if at + 4 > len(content):
            return False
        kind, length = struct.unpack_from("<HH", content, at)
        if kind == _EXCEL_PASSWORD:
            return True
        at += 4 + length
    return False


def _is_encrypted_powerpoint(file: OleFile) -> bool:
    beginning = _beginning(file, "Current User", _POWERPOINT_TOKEN_AT + 4)
    return len(beginning) > _POWERPOINT_TOKEN_AT + 3 and (
        struct.unpack_from("<I", beginning, _POWERPOINT_TOKEN_AT)[0] == _POWERPOINT_ENCRYPTED
    )


def _beginning(file: OleFile, stream: str, size: int) -> bytes:
    if not file.exists(stream):
        return b""
    with file.openstream(stream) as content:
        return content.read(size)


def _summary(file: OleFile) -> dict[str, Any]:
    try:
        said = file.get_metadata()
    except _TRIPPED:
        return {}  # metadata is welcome, not required
    return {
        "title": _text(said.title, said.codepage),
        "author": _text(said.author, said.codepage),
        "subject": _text(said.subject, said.codepage),
        "keywords": _text(said.keywords, said.codepage),
        "page_count": said.num_pages or None,
        "slide_count": said.slides or None,
        "created": _date(said.create_time),
        "modified": _date(said.last_saved_time),
    }


def _message(file: OleFile) -> dict[str, Any]:
    subject, sender = _property(file, _MAPI_SUBJECT), _property(file, _MAPI_SENDER)
    return ({"title": subject} if subject else {}) | ({"author": sender} if sender else {})


def _property(file: OleFile, names: tuple[str, ...]) -> str | None:
    for name in names:
        if content := _beginning(file, name, 8192):
            return content.decode("utf-16-le" if name.endswith("F") else "cp1252", "replace")
    return None


def _text(value: Any, codepage: int | None) -> str | None:
    if not isinstance(value, bytes):
        return None
    try:
        return value.decode(f"cp{codepage}" if codepage and codepage not in {65001, 1200} else "utf-8", "replace")
    except LookupError:
        return value.decode("cp1252", "replace")


def _date(value: Any) -> str | None:
    return value.replace(tzinfo=UTC).isoformat() if isinstance(value, datetime) else None
