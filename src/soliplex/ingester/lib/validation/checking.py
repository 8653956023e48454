"""From a file to its type and its facts, or to the reason why it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.markdown_source import LONGEST_MATTER, read_source
from soliplex.ingester.lib.mime import UNKNOWN, detect_mime_type
from soliplex.ingester.lib.mime.containers import OLE, ZIP
from soliplex.ingester.lib.mime.detection import extension_of
from soliplex.ingester.lib.mime.text import BY_EXTENSION, PLAIN
from soliplex.ingester.lib.text_encoding import SAMPLE, encoding_of, guess_encoding
from soliplex.ingester.lib.validation import compound, image, office
from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError, is_system_trouble
from soliplex.ingester.lib.validation.facts import Facts, tidy
from soliplex.ingester.lib.validation.mail import check_mail
from soliplex.ingester.lib.validation.markup import check_xml
from soliplex.ingester.lib.validation.pdf import check_pdf
from soliplex.ingester.lib.validation.remedies import CONVERT, GET_AGAIN, SAVE_AGAIN

type Check = Callable[[Path], Facts]

TEXTUAL: Final = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/toml",
        "application/x-bibtex",
        "application/x-ipynb+json",
        "application/x-subrip",
        "application/x-tex",
        "application/yaml",
    }
)
"""Kinds of documents that are text, though the name of their MIME type does not begin with `text/`."""
XML: Final = frozenset({"application/xml", "image/svg+xml", "text/x-docbook", "text/x-opml"})
_IWORK: Final = tuple(f"application/vnd.apple.{name}" for name in ("keynote", "numbers", "pages"))
_OFFICE_EXTENSIONS: Final = frozenset(
    {
        *(".docx", ".docm", ".dotx", ".dotm"),
        *(".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm"),
        *(".xlsx", ".xlsm", ".xltx", ".xltm"),
        *(".odt", ".ott", ".ods", ".ots", ".odp", ".otp"),
        *(".vsdx", ".epub"),
    }
)


@dataclass(frozen=True, slots=True)
class Validated:
    """A document that can be read."""

    mime_type: str
    """The MIME type of its content, whatever the client said that it was."""
    facts: Facts = field(default_factory=dict)
    """What the document says about itself, for its metadata: title, author, page_count and the like."""


async def validate(path: Path, *, name: str, mime_type: str | None) -> Validated:
    """Judge a file that came under `name`, a file's name or URI, and was said to be of `mime_type`.

    Raises InvalidDocumentError.
    """
    return await asyncio.to_thread(validate_blocking, path, name=name, mime_type=mime_type)


def validate_blocking(path: Path, *, name: str, mime_type: str | None) -> Validated:
    """As `validate`, for a caller that has a thread or a process to itself."""
    if path.stat().st_size == 0:
        raise InvalidDocumentError(Defect.EMPTY, "the document is empty: it has no bytes", GET_AGAIN)
    found = kind_of(path, name, declared=mime_type)
    facts = _checked(path, found, extension_of(name))
    if "xml_error" in facts:
        found = PLAIN
    said = {"declared_mime_type": mime_type} if mime_type and mime_type.partition(";")[0] != found else {}
    return Validated(found, facts | said)


def kind_of(path: Path, name: str, *, declared: str | None = None) -> str:
    """The kind of a file that came under `name`.

    Old texts, in an encoding from before Unicode, are known by their words.
    """
    found = detect_mime_type(path, name, declared=declared)
    return BY_EXTENSION.get(extension_of(name), PLAIN) if found == UNKNOWN and _is_old_text(path) else found


def has_more_to_say(mime_type: str, name: str) -> bool:
    """Whether to validate a file although no parser reads its kind.

    That the file is encrypted or damaged then tells its sender more than that nobody reads its kind.
    """
    is_damaged_office = mime_type == ZIP and extension_of(name) in _OFFICE_EXTENSIONS
    return is_damaged_office or mime_type == compound.ENCRYPTED_PACKAGE


def _checked(path: Path, mime_type: str, extension: str) -> Facts:
    try:
        return _check_for(mime_type, extension)(path)
    except IngesterError:
        raise
    except Exception as exc:
        if is_system_trouble(exc):
            raise
        # The libraries that read headers and tables may raise any error over what strangers wrote into them.
        raise InvalidDocumentError(Defect.DAMAGED, "the document is damaged: it cannot be read", GET_AGAIN) from exc


def _is_old_text(path: Path) -> bool:
    """Whether its bytes make words in some encoding of before Unicode, as Cyrillic and Greek do there in high bytes."""
    with path.open("rb") as file:
        return guess_encoding(file.read(SAMPLE)) is not None


def _check_for(mime_type: str, extension: str) -> Check:
    if check := _CHECKS.get(mime_type):
        return _as_office_document if check is office.check_archive and extension in _OFFICE_EXTENSIONS else check
    if mime_type.startswith(office.OPEN_XML) or "macroEnabled" in mime_type or "ms-visio.drawing" in mime_type:
        return office.check_office_open_xml
    if mime_type.startswith(office.OPEN_DOCUMENT):
        return office.check_open_document
    if mime_type.startswith("text/") or mime_type in TEXTUAL:
        return _check_text
    return _take_as_it_is


def _as_office_document(path: Path) -> Facts:
    """Check a ZIP that is named like an office document, and in which nothing says that it is one."""
    facts = office.check_archive(path)
    raise InvalidDocumentError(
        Defect.DAMAGED,
        f"the document is damaged: it is an archive of {facts.get('file_count', 0)} files, "
        "but the part that says what it contains is missing",
        SAVE_AGAIN,
    )


def _check_text(path: Path) -> Facts:
    return {"encoding": encoding_of(path)}


def _check_markdown(path: Path) -> Facts:
    """Take the metadata of the page from its front matter, which is no part of its text."""
    encoding = encoding_of(path)
    with path.open(encoding=encoding, errors="replace") as file:
        beginning = file.read(2 * LONGEST_MATTER).removeprefix("\ufeff")
    return {**tidy(read_source(beginning).facts()), "encoding": encoding}


def _check_mail(path: Path) -> Facts:
    return {**check_mail(path), **_check_text(path)}


def _refuse_unknown(_path: Path) -> Facts:
    raise InvalidDocumentError(
        Defect.UNKNOWN,
        "the document is of no known kind: it is not text, and bears no signature of a known format",
        CONVERT,
    )


def _take_as_it_is(_path: Path) -> Facts:
    """Accept a document of a kind that is known and has no check: the parser finds out whether it can be parsed."""
    return {}


_CHECKS: Final[dict[str, Check]] = {
    "application/pdf": check_pdf,
    "message/rfc822": _check_mail,
    "text/markdown": _check_markdown,
    office.EPUB: office.check_epub,
    ZIP: office.check_archive,
    **dict.fromkeys(_IWORK, office.check_archive),
    OLE: compound.check_compound_file,
    compound.ENCRYPTED_PACKAGE: compound.refuse_encrypted_package,
    "application/msword": compound.check_compound_file,
    "application/vnd.ms-excel": compound.check_compound_file,
    "application/vnd.ms-powerpoint": compound.check_compound_file,
    "application/vnd.ms-outlook": compound.check_compound_file,
    "application/vnd.visio": compound.check_compound_file,
    UNKNOWN: _refuse_unknown,
    **dict.fromkeys(XML, check_xml),
    **dict.fromkeys(image.READABLE, image.check_image),
}
