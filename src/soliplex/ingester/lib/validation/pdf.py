"""PDF: its pages can be opened, and it is not locked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError
from soliplex.ingester.lib.validation.facts import Facts, pdf_date, tidy
from soliplex.ingester.lib.validation.remedies import GET_AGAIN, UNLOCK, advice_for

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

PRINT: Final = advice_for(".pdf").remedy
END_WITHIN: Final = 2048
"""Where the end mark stands in a whole file: programs append a little, seldom more than this."""
PAGES_TRIED: Final = 50
"""Pages that are opened in search of a readable one. A PDF without one among so many has none for us."""


def check_pdf(path: Path) -> Facts:
    """Give the number of pages, and what the document says about itself."""
    try:
        with pdfium.opened(path) as document:
            return _facts(document)
    except pdfium.UnreadablePDFError as exc:
        raise _refusal(path, exc) from exc


def _facts(document: PdfDocument) -> Facts:
    pages = len(document)
    if not _has_readable_page(document, pages):
        raise InvalidDocumentError(
            Defect.DAMAGED, "the PDF is damaged or empty: it has no page that can be read", PRINT
        )
    said = document.get_metadata_dict()
    return tidy(
        {
            "page_count": pages,
            "title": said.get("Title"),
            "author": said.get("Author"),
            "subject": said.get("Subject"),
            "keywords": said.get("Keywords"),
            "creator": said.get("Creator"),
            "producer": said.get("Producer"),
            "created": pdf_date(said.get("CreationDate", "")),
            "modified": pdf_date(said.get("ModDate", "")),
        }
    )


def _has_readable_page(document: PdfDocument, pages: int) -> bool:
    return any(_opens(document, number) for number in range(min(pages, PAGES_TRIED)))


def _opens(document: PdfDocument, number: int) -> bool:
    from pypdfium2 import PdfiumError  # noqa: PLC0415  as in pdfium.py

    try:
        document[number].close()
    except PdfiumError:
        return False
    return True


def _refusal(path: Path, error: pdfium.UnreadablePDFError) -> InvalidDocumentError:
    if error.needs_password:
        return InvalidDocumentError(Defect.ENCRYPTED, "the PDF is protected by a password", UNLOCK)
    if not _has_end(path):
        return InvalidDocumentError(Defect.TRUNCATED, "the PDF is cut off: its end is missing", GET_AGAIN)
    return InvalidDocumentError(Defect.DAMAGED, "the PDF is damaged: no page of it can be found", PRINT)


def _has_end(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - END_WITHIN))
        return b"%%EOF" in file.read()
