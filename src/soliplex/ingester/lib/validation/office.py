"""Office Open XML, OpenDocument and EPUB: ZIP archives of XML parts."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError

from soliplex.ingester.lib.validation.archives import checked_archive
from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError
from soliplex.ingester.lib.validation.facts import Facts, tidy
from soliplex.ingester.lib.validation.remedies import SAVE_AGAIN, UNLOCK

OPEN_XML: Final = "application/vnd.openxmlformats-officedocument."
OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument."
EPUB: Final = "application/epub+zip"
LARGEST_METADATA: Final = 1 << 20
BLOCK: Final = 1 << 20
_DECLARATION: Final = re.compile(
    rb"<!(?:ENTITY|DOCTYPE)|<\x00!\x00(?:E\x00N\x00T\x00I|D\x00O\x00C\x00T)|\x00<\x00!\x00(?:E\x00N\x00T\x00I|D\x00O\x00C\x00T)"
)
"""The beginning of a declaration, in each encoding that an XML part may have. No office program writes declarations:
XML bombs are made of them."""
_LONGEST_DECLARATION: Final = 20
_PROPERTIES: Final = {
    "title": "title",
    "creator": "author",
    "initial-creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "keyword": "keywords",
    "description": "description",
    "language": "language",
    "created": "created",
    "creation-date": "created",
    "modified": "modified",
    "date": "modified",
}
"""The same property, by its names in the core properties of Office, in OpenDocument and in EPUB."""
_COUNTED: Final = {
    "slide_count": re.compile(r"ppt/slides/slide\d+\.xml"),
    "sheet_count": re.compile(r"xl/(?:worksheets|chartsheets)/sheet\d+\.xml"),
}
_DRM: Final = re.compile(rb"xmlenc#(?:aes|tripledes)|adept|readium-lcp|fairplay", re.IGNORECASE)


def check_office_open_xml(path: Path) -> Facts:
    """Word, Excel, PowerPoint and Visio since 2007."""
    with checked_archive(path) as archive:
        _refuse_declarations(archive, archive.infolist())
        names = archive.namelist()
        counts = {fact: sum(bool(part.fullmatch(name)) for name in names) or None for fact, part in _COUNTED.items()}
        return tidy({**_described(archive, "docProps/core.xml"), **counts, "page_count": _pages_of_word(archive)})


def check_open_document(path: Path) -> Facts:
    with checked_archive(path) as archive:
        if b"encryption-data" in _part(archive, "META-INF/manifest.xml"):
            raise InvalidDocumentError(Defect.ENCRYPTED, "the document is protected by a password", UNLOCK)
        _require(archive, "content.xml")
        _refuse_declarations(archive, [archive.getinfo("content.xml")])
        return tidy(_described(archive, "meta.xml"))


def check_epub(path: Path) -> Facts:
    with checked_archive(path) as archive:
        if _DRM.search(_part(archive, "META-INF/encryption.xml")):
            raise InvalidDocumentError(
                Defect.ENCRYPTED,
                "the book is protected by digital rights management, so its text cannot be read",
                "get it without that protection, and ingest it again",
            )
        _require(archive, "META-INF/container.xml")
        package = next((name for name in archive.namelist() if name.endswith(".opf")), None)
        if package is None:
            raise _missing("its list of contents (.opf)")
        return tidy(_described(archive, package))


def check_archive(path: Path) -> Facts:
    """Check the bounds of a ZIP that is no document. The parser finds out whether it has a use for its files."""
    with checked_archive(path) as archive:
        return tidy({"file_count": len(archive.infolist())})


def _require(archive: zipfile.ZipFile, name: str) -> None:
    if name not in archive.namelist():
        raise _missing(name)


def _missing(part: str) -> InvalidDocumentError:
    return InvalidDocumentError(Defect.DAMAGED, f"the document is damaged: {part} is missing in it", SAVE_AGAIN)


def _refuse_declarations(archive: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo]) -> None:
    for member in members:
        if member.filename.endswith((".xml", ".rels", ".vml")) and _declares(archive, member):
            raise InvalidDocumentError(
                Defect.BOMB,
                f"the document is refused as an XML bomb: {member.filename} declares a document type",
                SAVE_AGAIN,
            )


def _declares(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    # The parts are read to their end, which checks their checksums along the way.
    found, tail = False, b""
    with archive.open(member) as content:
        while block := content.read(BLOCK):
            found = found or _DECLARATION.search(tail + block) is not None
            tail = block[-_LONGEST_DECLARATION:]
    return found


def _described(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    root = _tree(_part(archive, name))
    if root is None:
        return {}
    said: dict[str, Any] = {}
    for element in root.iter():
        fact = _PROPERTIES.get(_local_name(element))
        if fact and element.text and fact not in said:
            said[fact] = element.text
    return said


def _pages_of_word(archive: zipfile.ZipFile) -> int | None:
    """The number of pages that Word wrote down when it last saved the file: a docx itself has no pages."""
    root = _tree(_part(archive, "docProps/app.xml"))
    texts: Mapping[str, str | None] = {} if root is None else {_local_name(each): each.text for each in root}
    pages = texts.get("Pages") or ""
    return int(pages) if pages.isascii() and pages.isdigit() and len(pages) < len("1000000") else None


def _local_name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    if name not in archive.namelist():
        return b""
    with archive.open(name) as content:
        return content.read(LARGEST_METADATA)


def _tree(content: bytes) -> Element | None:
    from defusedxml.common import DefusedXmlException  # noqa: PLC0415  with the next: parsers, seldom needed at once
    from defusedxml.ElementTree import fromstring  # noqa: PLC0415

    if not content:
        return None
    try:
        return fromstring(content, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        return None  # metadata is welcome, not required
