"""Which way a document goes, and what is done where too little comes out."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing import office_text, pdf_text
from soliplex.ingester.lib.parsing.completing import complete, measure, show_hidden
from soliplex.ingester.lib.parsing.coverage import layer_of
from soliplex.ingester.lib.parsing.errors import (
    ParseFailedError,
    ParserMissingError,
    UnsupportedFormatError,
    unreadable,
)
from soliplex.ingester.lib.parsing.formats import (
    IMAGES,
    LEGACY,
    MAIL,
    MARKDOWN,
    MARKUP,
    OTHER_IMAGES,
    STRUCTURED,
    TABLES,
    XML,
    extension_for,
    is_text,
    media_type,
)
from soliplex.ingester.lib.parsing.local.legacy import in_format_of_today
from soliplex.ingester.lib.parsing.local.pictures import SCALED_DOWN, within_bounds
from soliplex.ingester.lib.parsing.notations import NOTATIONS
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.packages import as_docling_knows
from soliplex.ingester.lib.parsing.pdf_marks import marks_of
from soliplex.ingester.lib.parsing.pdf_text import unread_pictures
from soliplex.ingester.lib.parsing.plain_documents import PageText, of_pages, of_paragraphs, text_length, to_parsed
from soliplex.ingester.lib.parsing.plain_text import as_markdown, bare_text_document, read_page
from soliplex.ingester.lib.parsing.results import Parsed
from soliplex.ingester.lib.parsing.sheet_text import MOST_CELLS
from soliplex.ingester.lib.validation.errors import is_system_trouble
from soliplex.ingester.lib.validation.remedies import CONVERT, GET_AGAIN

if TYPE_CHECKING:
    from docling.datamodel.base_models import DocumentStream
    from docling.datamodel.document import ConversionResult
    from docling_core.types.doc.document import DoclingDocument

type Way = Callable[[Path, str, ParseOptions], Parsed]

_log = logging.getLogger(__name__)

FAR_LESS: Final = 0.5
"""If less than this share of a page's text comes through, the layout has lost text; docling leaves out a tenth on
purpose."""
_OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}
"""Environment variables for docling and its libraries: nothing is fetched at run time, and the warning that there is no
torch is not shown."""
PDFIUM: Final = "pypdfium2"
TIFF: Final = "image/tiff"
PICTURES_OF_TEXT: Final = "the pages hold no text, at most pictures of it; do_ocr: true has them read"
LARGE_PAGE: Final = 4_000_000
"""Largest area of a page, in square points, that docling reads: that of A1. It draws pages to read them; PDFium does
not."""
LARGEST_MARKUP: Final = 16 << 20
"""Bytes of markup whose structure is read. Beyond, that takes hours and gigabytes, and the text must do."""
READ_IN_PART: Final = f"some of its pages could not be read, and were left out; {GET_AGAIN}"
LARGE: Final = "the document is large"
NOT_ITS_NOTATION: Final = "it is not written in the notation of its kind"
UNREAD: Final = "docling could not read it"


class LocalParser:
    """docling in this process. One document at a time: its models and PDFium are shared."""

    name = "local"

    async def parse(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed:
        """Parse in a thread. A cancelled call waits for it: only the end of the process ends a conversion."""
        work = asyncio.create_task(asyncio.to_thread(self.parse_blocking, path, mime_type=mime_type, options=options))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise

    def parse_blocking(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed:
        """As `parse`, for a caller that has a process to itself."""
        if find_spec("docling") is None:
            fix = (
                "pip install 'soliplex-ingester[local]', or choose `parser: fast` in config.parse of the parameter set"
            )
            raise ParserMissingError(f"the local parser is not installed; {fix}")
        os.environ.update(_OFFLINE)  # read when docling is first imported, by what it imports
        kind = media_type(mime_type)
        with pdfium.LOCK:
            return _parse(path, kind, options)


def _parse(path: Path, kind: str, options: ParseOptions) -> Parsed:
    if kind in LEGACY:
        with in_format_of_today(path, kind) as (saved, kind_of_today):
            return _parse(saved, kind_of_today, options)
    return _way_for(kind)(path, kind, options)


def _way_for(kind: str) -> Way:
    if kind in _WAYS:
        return _WAYS[kind]
    if extension_for(kind) in office_text.OFFICE:
        return _parse_office
    if kind in STRUCTURED:
        return _parse_as_it_is
    if is_text(kind):
        return _parse_text
    raise UnsupportedFormatError("local", kind, _advice(kind))


def _advice(kind: str) -> str:
    if kind == "application/zip":
        return "unpack the archive and ingest the files in it"
    if kind in {"image/heic", "image/heif"}:
        return "save the photo as JPEG, and ingest that"
    return CONVERT


def _parse_as_it_is(path: Path, kind: str, options: ParseOptions) -> Parsed:
    return to_parsed(_converted(path, kind, options))


def _parse_pdf(path: Path, _kind: str, options: ParseOptions) -> Parsed:
    pages = pdf_text.page_texts(path, options.page_range)
    if not pages:
        raise ParseFailedError(f"the PDF has no pages {options.page_range}; correct page_range, or leave it out")
    from soliplex.ingester.lib.parsing.local.marked import kept, set_levels  # noqa: PLC0415  docling is slow to import

    try:
        marks = marks_of(path, [page.number for page in pages])
        with kept(path, marks):
            document, is_partial = _converted_pdf(path, _for_pages(pages, options), len(pages))
        set_levels(document, marks)
    except ParseFailedError:
        if not any(page.paragraphs for page in pages):
            raise
        document, is_partial = None, False
    if document is not None and text_length(document) >= FAR_LESS * pdf_text.text_length(pages):
        # Where every page was to be read as a picture, somebody does not trust the text that it holds.
        coverage = None if options.force_ocr else complete(document, path, layer_of(pages))
        if options.force_ocr:
            show_hidden(document)
        told = _unread(document, pages, options) + _lost(document, pages, is_partial=is_partial)
        return to_parsed(document, warnings=told, coverage=coverage)
    _log.warning("the layout of %s was not understood; its text is taken without structure", path.name)
    document = of_pages(path.stem, pages)
    told = _unread(document, pages, options) + _lost(document, pages, is_partial=False)
    return to_parsed(
        document,
        warnings=("the layout was not understood; the text is without structure", *told),
        coverage=measure(document, layer_of(pages)),
    )


def _for_pages(pages: Sequence[PageText], options: ParseOptions) -> ParseOptions:
    is_large = any(page.width * page.height > LARGE_PAGE for page in pages)
    return options.model_copy(update={"pdf_backend": PDFIUM}) if is_large else options


def _unread(document: DoclingDocument, pages: Sequence[PageText], options: ParseOptions) -> tuple[str, ...]:
    """What is told of pages whose text is in pixels, where nobody wanted these read."""
    if options.ocr:
        return ()
    told = unread_pictures(pages) or (None if text_length(document) else PICTURES_OF_TEXT)
    return () if told is None else (told,)


def _lost(document: DoclingDocument, pages: Sequence[PageText], *, is_partial: bool) -> tuple[str, ...]:
    """What is told of pages that were left out, since they, or what reads them, are out of order.

    Of a document that docling has read in part, it says which pages it could not read in words only. So all pages are
    named that nothing is known of: one among them may be empty.
    """
    known = {place.page_no for item, _ in document.iterate_items() for place in getattr(item, "prov", ())}
    unknown = [page for page in pages if page.number not in known]
    told = pdf_text.lost_pages([page.number for page in unknown if page.is_lost or is_partial], pages)
    return () if told is None else (told,)


def _converted_pdf(path: Path, options: ParseOptions, count: int) -> tuple[DoclingDocument, bool]:
    """Convert a PDF by docling's own reader, or by PDFium where docling's cannot read the file.

    Also by PDFium where docling's reader sees another number of pages than PDFium: it passes over those that the file
    names and does not hold, and what it read of the others would be compared with the text of their neighbours.
    """
    try:
        document, is_partial = _result(path, "application/pdf", options)
        if len(document.pages) == count or options.pdf_backend == PDFIUM:
            return document, is_partial
    except ParseFailedError:
        if options.pdf_backend == PDFIUM:
            raise
    return _result(path, "application/pdf", options.model_copy(update={"pdf_backend": PDFIUM}))


def _parse_mail(path: Path, _kind: str, options: ParseOptions) -> Parsed:
    try:
        return to_parsed(_converted(path, MAIL, options))
    except ParseFailedError:
        paragraphs = office_text.mail_paragraphs(path)
        return to_parsed(of_paragraphs(path.stem, paragraphs), warnings=(_without_structure(UNREAD),))


def _parse_picture(path: Path, kind: str, options: ParseOptions) -> Parsed:
    try:
        with within_bounds(path, is_known=kind in IMAGES) as (picture, is_scaled):
            document, is_partial = _result(picture, kind if picture == path else TIFF, options)
            show_hidden(document)
            told = [words for words, is_true in ((SCALED_DOWN, is_scaled), (READ_IN_PART, is_partial)) if is_true]
            return to_parsed(document, warnings=tuple(told))
    except (OSError, SyntaxError, ValueError, EOFError) as exc:
        if is_system_trouble(exc):
            raise
        raise unreadable(extension_for(kind), detail=repr(exc)) from exc


def _parse_office(path: Path, kind: str, options: ParseOptions) -> Parsed:
    extension = extension_for(kind)
    if office_text.is_large_sheet(path, extension, MOST_CELLS):
        return _office_text(path, extension, reason=LARGE)
    try:
        with as_docling_knows(path, kind) as known:
            return to_parsed(_converted(known, kind, options))
    except ParseFailedError as exc:
        try:
            return _office_text(path, extension, reason=UNREAD)
        except ParseFailedError:
            raise exc from None  # says what to do about the document as a whole


def _office_text(path: Path, extension: str, *, reason: str) -> Parsed:
    paragraphs = office_text.office_paragraphs(path, extension)
    if not paragraphs:
        raise unreadable(extension)
    return to_parsed(of_paragraphs(path.stem, paragraphs), warnings=(_without_structure(reason),))


def _without_structure(reason: str) -> str:
    return f"the text is without structure: {reason}"


def _parse_text(path: Path, kind: str, options: ParseOptions) -> Parsed:
    text = read_page(path, kind)
    if (markdown := as_markdown(text, kind)) is not None:
        text, kind = markdown, MARKDOWN
    elif kind in NOTATIONS:
        return to_parsed(bare_text_document(path.stem, text, kind), warnings=(_without_structure(NOT_ITS_NOTATION),))
    if kind not in MARKUP and kind != "application/xml":
        return to_parsed(bare_text_document(path.stem, text, kind))
    if len(text) > LARGEST_MARKUP or (kind in TABLES and _cells(text) > MOST_CELLS):
        return to_parsed(bare_text_document(path.stem, text, kind), warnings=(_without_structure(LARGE),))
    try:
        return to_parsed(_converted_text(path.stem, text, kind, options))
    except ParseFailedError:
        # Nested too deeply, or none of the kinds of XML that docling knows: that is expected, and no reason to warn.
        warnings = () if kind in XML else (_without_structure(UNREAD),)
        return to_parsed(bare_text_document(path.stem, text, kind), warnings=warnings)


_WAYS: Final[dict[str, Way]] = {
    "application/pdf": _parse_pdf,
    MAIL: _parse_mail,
    **dict.fromkeys((*IMAGES, *OTHER_IMAGES), _parse_picture),
}


def _cells(text: str) -> int:
    return sum(map(text.count, ",;\t|\n"))


def _converted_text(name: str, text: str, kind: str, options: ParseOptions) -> DoclingDocument:
    """The text in UTF-8, which docling takes every text for."""
    if kind == MARKDOWN:
        return _converted_markdown(name, text, options)
    with tempfile.TemporaryDirectory(prefix="parse-") as folder:
        copy = Path(folder) / name
        copy.write_text(text, encoding="utf-8")
        return _converted(copy, kind, options)


def _converted_markdown(name: str, text: str, options: ParseOptions) -> DoclingDocument:
    """Convert Markdown without files: it is mostly short, and two temporary folders take longer than reading it."""
    from docling.datamodel.base_models import DocumentStream  # noqa: PLC0415  slow to import

    stream = DocumentStream(name=f"document{MARKUP[MARKDOWN]}", stream=BytesIO(text.encode()))
    return _document_of(_convert(stream, options), name, MARKUP[MARKDOWN])


def _converted(path: Path, kind: str, options: ParseOptions) -> DoclingDocument:
    return _result(path, kind, options)[0]


def _result(path: Path, kind: str, options: ParseOptions) -> tuple[DoclingDocument, bool]:
    """The document, and whether docling could read but a part of it."""
    from docling.datamodel.base_models import ConversionStatus  # noqa: PLC0415  slow to import

    extension = extension_for(kind)
    with _under_its_extension(path, extension) as named:
        result = _convert(named, options)
        return _document_of(result, path.stem, extension), result.status is ConversionStatus.PARTIAL_SUCCESS


def _document_of(result: ConversionResult, name: str, extension: str) -> DoclingDocument:
    from docling.datamodel.base_models import ConversionStatus  # noqa: PLC0415  slow to import

    if result.status not in {ConversionStatus.SUCCESS, ConversionStatus.PARTIAL_SUCCESS}:
        raise unreadable(extension, reader="docling", detail=_reasons(result))
    document: DoclingDocument = result.document
    document.name = name
    return document


def _convert(source: Path | DocumentStream, options: ParseOptions) -> ConversionResult:
    from docling.datamodel.settings import DEFAULT_PAGE_RANGE  # noqa: PLC0415  slow to import

    from soliplex.ingester.lib.parsing.local.converters import converter  # noqa: PLC0415  slow to import

    docling = converter(
        ocr=options.ocr,
        force_ocr=options.force_ocr,
        tables=options.do_table_structure,
        robust=options.pdf_backend == PDFIUM,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on images left out and the like, for whoever works on docling
            return docling.convert(source, raises_on_error=False, page_range=options.page_range or DEFAULT_PAGE_RANGE)
    except MemoryError:
        raise
    except Exception as exc:
        # docling's back ends may raise anything, and another attempt would raise it again.
        raise unreadable(Path(source.name).suffix, reader="docling", detail=f"{type(exc).__name__}: {exc}") from exc


def _reasons(result: ConversionResult) -> str:
    messages = [error.error_message for error in result.errors]
    return "; ".join(dict.fromkeys(messages)) or "it gave no reason"


@contextmanager
def _under_its_extension(path: Path, extension: str) -> Generator[Path]:
    """A link to the document with an extension: docling tells kinds by it, and documents are stored without."""
    with tempfile.TemporaryDirectory(prefix="parse-") as folder:
        named = Path(folder) / f"document{extension}"
        named.symlink_to(path.resolve())
        yield named
