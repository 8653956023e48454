"""Text files read as bare text: as they are, or what stands between the tags of markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.markdown_source import page_text
from soliplex.ingester.lib.parsing.formats import HTML, MARKDOWN, SOURCE, XML
from soliplex.ingester.lib.parsing.limits import see_size_of_text
from soliplex.ingester.lib.parsing.notations import NOTATIONS, NotationError
from soliplex.ingester.lib.parsing.office_text import html_paragraphs, xml_paragraphs
from soliplex.ingester.lib.parsing.plain_documents import of_paragraphs
from soliplex.ingester.lib.text_encoding import read_text

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument

LONGEST_PARAGRAPH: Final = 20_000
"""Characters of a paragraph. A text without an empty line is cut at the ends of lines, or else anywhere."""
_EMPTY_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


def read_bounded(path: Path) -> str:
    """The text of the file with its line breaks made equal, unless it is too long.

    In memory it becomes ten times as many bytes, and as chunks with their vectors twenty times as many.
    """
    see_size_of_text(path.stat().st_size)
    return read_text(path).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def read_page(path: Path, kind: str) -> str:
    """As `read_bounded`; of Markdown, only what a reader of the page sees."""
    text = read_bounded(path)
    return page_text(text) if kind == MARKDOWN else text


def as_markdown(text: str, kind: str) -> str | None:
    """A text in a notation that no parser knows, as Markdown; None where it is none, or nothing can be made of it."""
    convert = NOTATIONS.get(kind)
    if convert is None:
        return None
    try:
        return convert(text)
    except NotationError:
        return None


def bare_text_document(name: str, text: str, kind: str) -> DoclingDocument:
    """The text of a file of this kind, without any structure but paragraphs."""
    if kind in HTML:
        return of_paragraphs(name, html_paragraphs(text))
    if kind in XML:
        return of_paragraphs(name, xml_paragraphs(text))
    return plain_document(name, text, is_source=kind in SOURCE)


def plain_document(name: str, text: str, *, is_source: bool = False) -> DoclingDocument:
    return of_paragraphs(name, source_parts(text) if is_source else paragraphs(text), is_source=is_source)


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text: what stands between its empty lines."""
    for paragraph in _EMPTY_LINES.split(text):
        yield from _cut(paragraph.strip("\n")) if paragraph.strip() else ()


def source_parts(text: str) -> Iterator[str]:
    """The text of a source file as one part, or as several parts of whole lines where it is long."""
    if text.strip():
        yield from _cut(text.strip("\n"))


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > LONGEST_PARAGRAPH:
        end = text.rfind("\n", start + 1, start + LONGEST_PARAGRAPH)
        end = end if end > start else start + LONGEST_PARAGRAPH
        yield text[start:end].strip("\n")
        start = end
    yield text[start:].strip("\n")
