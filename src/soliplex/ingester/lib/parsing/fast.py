"""The fast parser: the text and its pages, no headings, no tables, no pictures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from soliplex.ingester.lib.parsing import office_text
from soliplex.ingester.lib.parsing.completing import measure
from soliplex.ingester.lib.parsing.coverage import layer_of
from soliplex.ingester.lib.parsing.errors import ParseFailedError, UnsupportedFormatError
from soliplex.ingester.lib.parsing.formats import (
    IMAGES,
    LEGACY,
    MARKDOWN,
    STRUCTURED,
    extension_for,
    is_text,
    media_type,
)
from soliplex.ingester.lib.parsing.notations import NOTATIONS
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.pdf_text import lost_pages, page_texts, unread_pictures
from soliplex.ingester.lib.parsing.plain_documents import of_pages, of_paragraphs, to_parsed
from soliplex.ingester.lib.parsing.plain_text import (
    as_markdown,
    bare_text_document,
    plain_document,
    read_bounded,
    read_page,
)
from soliplex.ingester.lib.parsing.results import Parsed
from soliplex.ingester.lib.validation.remedies import CONVERT

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument


class FastParser:
    """Reads the text that a document holds. Pages are not looked at as pictures, so scanned text is not found."""

    name = "fast"

    async def parse(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed:
        return await asyncio.to_thread(self.parse_blocking, path, mime_type=mime_type, options=options)

    def parse_blocking(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed:
        """As `parse`, for a caller that has a process to itself."""
        kind = media_type(mime_type)
        if kind == MARKDOWN:
            text = read_page(path, kind)
            return to_parsed(plain_document(path.stem, text), markdown=text)
        if kind in NOTATIONS and (text := as_markdown(read_bounded(path), kind)) is not None:
            return to_parsed(plain_document(path.stem, text), markdown=text)
        if kind == "application/pdf":
            return _parse_pdf(path, options)
        return to_parsed(_document(path, kind))


def _parse_pdf(path: Path, options: ParseOptions) -> Parsed:
    pages = page_texts(path, options.page_range)
    if not any(page.paragraphs for page in pages):
        raise ParseFailedError(
            "the PDF holds no text, only pictures of it; the parser 'local' with do_ocr: true can read them"
        )
    document = of_pages(path.stem, pages)
    told = unread_pictures(pages), lost_pages([page.number for page in pages if page.is_lost], pages)
    return to_parsed(document, warnings=tuple(filter(None, told)), coverage=measure(document, layer_of(pages)))


def _document(path: Path, kind: str) -> DoclingDocument:
    name, extension = path.stem, extension_for(kind)
    if kind == "message/rfc822":
        return of_paragraphs(name, office_text.mail_paragraphs(path))
    if extension in office_text.OFFICE:
        return of_paragraphs(name, office_text.office_paragraphs(path, extension))
    if is_text(kind):
        return bare_text_document(name, read_bounded(path), kind)
    raise UnsupportedFormatError("fast", kind, _advice(kind))


def _advice(kind: str) -> str:
    if kind in STRUCTURED or kind in IMAGES or kind in LEGACY:
        return "the parsers 'local' and 'docling-serve' do: use one of them"
    return CONVERT
