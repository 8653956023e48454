"""The text that a PDF holds, by PDFium: without structure, and far sooner than docling would have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing.coverage import MOST_PAGES_NAMED
from soliplex.ingester.lib.parsing.errors import ParseFailedError, unreadable
from soliplex.ingester.lib.parsing.line_ends import mended, with_marks
from soliplex.ingester.lib.parsing.page_lines import text_of
from soliplex.ingester.lib.parsing.plain_documents import PageText, count_alphanumeric
from soliplex.ingester.lib.parsing.words import one_kind_of_lines
from soliplex.ingester.lib.validation.remedies import GET_AGAIN, UNLOCK

FEW_CHARACTERS: Final = 20
"""A page with fewer characters has as good as no text: a page number, a stamp."""
SHORT: Final = 0.75
"""A line that ends a sentence, and is so much shorter than the longest of its page, ends a paragraph, too."""
_SENTENCE_END: Final = re.compile(r"[.!?:;\u3002\uff01\uff1f][\"'\u201d\u2019)\]]*$")


def page_texts(path: Path, page_range: tuple[int, int] | None = None) -> list[PageText]:
    """The pages of the range, each with its paragraphs. A page that cannot be read has none."""
    from pypdfium2 import PdfiumError  # noqa: PLC0415  loads a library of its own

    pages: list[PageText] = []
    try:
        with pdfium.opened(path) as document:
            for number in pages_within(len(document), page_range):
                try:
                    page = document[number - 1]
                    text = text_of(page)
                except PdfiumError:
                    pages.append(PageText(number, 612, 792, (), is_lost=True))
                    continue
                sides = page.get_width(), page.get_height()
                pages.append(PageText(number, *sides, paragraphs_of(text), text, _is_picture(page, text)))
    except pdfium.UnreadablePDFError as exc:
        raise unreadable_pdf(exc) from exc
    return _mended(pages)


def _mended(pages: Sequence[PageText]) -> list[PageText]:
    """The pages with their words whole, by what all of them tell."""
    texts = iter(mended([text for page in pages for text in page.paragraphs]))
    return [replace(page, paragraphs=list(islice(texts, len(page.paragraphs)))) for page in pages]


def _is_picture(page: Any, text: str) -> bool:
    if len(text.strip()) >= FEW_CHARACTERS:
        return False
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE  # noqa: PLC0415  as above

    return next(iter(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE])), None) is not None


def unread_pictures(pages: Sequence[PageText]) -> str | None:
    """What is told of pages that are pictures, where nobody reads these; None where there are none."""
    numbers = [page.number for page in pages if page.is_picture]
    if not numbers:
        return None
    many = f"{len(numbers)} of {len(pages)} pages hold" if len(pages) > 1 else "the page holds"
    return f"{many} no text but pictures ({_named(numbers)}); the parser 'local' with do_ocr: true has them read"


def lost_pages(numbers: Sequence[int], pages: Sequence[PageText]) -> str | None:
    """What is told of pages with these numbers, of which nothing could be read; None where there are none."""
    if not numbers:
        return None
    return f"{len(numbers)} of {len(pages)} pages are damaged and were left out ({_named(numbers)}); {GET_AGAIN}"


def _named(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:MOST_PAGES_NAMED])) + (", …" if len(numbers) > MOST_PAGES_NAMED else "")


def unreadable_pdf(exc: pdfium.UnreadablePDFError) -> ParseFailedError:
    if exc.needs_password:
        return ParseFailedError(f"the PDF is protected by a password; {UNLOCK}")
    return unreadable(".pdf", reader="PDFium", detail=exc)


def pages_within(count: int, page_range: tuple[int, int] | None) -> range:
    first, last = page_range or (1, count)
    return range(first, min(last, count) + 1)


def text_length(pages: Iterable[PageText]) -> int:
    """How many letters and digits the pages have, to be compared with `documents.text_length`."""
    return sum(count_alphanumeric(text) for page in pages for text in page.paragraphs)


def paragraphs_of(text: str) -> list[str]:
    """Lines put together again, as far as they tell by themselves where a paragraph ends.

    Where a line ended with a hyphen, a mark is left (`line_ends`).
    """
    lines = [line.strip() for line in with_marks(one_kind_of_lines(text)).split("\n")]
    longest = max(map(len, lines), default=0)
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line:
            paragraphs[-1].append(line)
        if not line or (_SENTENCE_END.search(line) and len(line) < longest * SHORT):
            paragraphs.append([])
    return [" ".join(lines) for lines in paragraphs if lines]
