"""The text of markup and of office documents, without their structure: what is between the tags, by paragraphs."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, override
from xml.parsers.expat import ExpatError

from soliplex.ingester.lib.mime.containers import DAMAGED
from soliplex.ingester.lib.parsing.errors import damaged
from soliplex.ingester.lib.parsing.limits import see_size_of_text
from soliplex.ingester.lib.parsing.plain_documents import joined
from soliplex.ingester.lib.parsing.sheet_text import SHEETS, by_number, has_more_cells, rows_of

_SILENT: Final = frozenset({"script", "style", "head", "template", "noscript"})
_BLOCKS: Final = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "br",
            "dd",
            "div",
            "dl",
            "dt",
            "fieldset",
            "figcaption",
            "figure",
        ),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre"),
        *("section", "table", "td", "th", "title", "tr", "ul"),
    }
)
_OFFICE_BLOCKS: Final = frozenset({"p", "h", "row", "si", "c", "br", "tab", "line-break", "table-row", "list-item"})
_PARTS: Final = {
    ".docx": re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml"),
    ".pptx": re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml"),
    ".odt": re.compile(r"content\.xml"),
    ".odp": re.compile(r"content\.xml"),
    ".epub": re.compile(r".*\.x?html?", re.IGNORECASE),
    **SHEETS,
}
OFFICE: Final = frozenset(_PARTS)
ROWS_TOGETHER: Final = 2000
"""Characters of rows that become one paragraph: one for each row of a large sheet would be a million."""


class _TextBetweenTags(HTMLParser):
    """Collects text; a block's begin and end part paragraphs. It takes what is not well-formed, and expands nothing."""

    def __init__(self, blocks: frozenset[str], silent: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self._blocks = blocks
        self._silent = silent
        self._silences = 0
        self._current: list[str] = []
        self.paragraphs: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silences += tag in self._silent
        self._break_at(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._break_at(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        self._silences = max(0, self._silences - (tag in self._silent))
        self._break_at(tag)

    @override
    def handle_data(self, data: str) -> None:
        if not self._silences:
            self._current.append(data)

    @override
    def close(self) -> None:
        super().close()
        self._end_paragraph()

    def _break_at(self, tag: str) -> None:
        if tag.rpartition(":")[2] in self._blocks:
            self._end_paragraph()

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._current).split())
        self._current.clear()
        if text:
            self.paragraphs.append(text)


def html_paragraphs(text: str) -> list[str]:
    return _between_tags("".join(_without(text, "<!--", "-->")), _BLOCKS, _SILENT)


def xml_paragraphs(text: str) -> list[str]:
    """The paragraphs of XML of an unknown kind: each element that holds text of its own is a paragraph."""
    pieces = (" ".join(unescape(piece).split()) for piece in _without(text, "<", ">"))
    return [piece for piece in pieces if piece]


def _without(text: str, opening: str, closing: str) -> Iterator[str]:
    """What stands before, between and after; what is opened and never closed goes to the end.

    No regular expression: it would look for the end again at every opening, for hours where none has one.
    """
    at = 0
    while (start := text.find(opening, at)) >= 0:
        yield text[at:start]
        end = text.find(closing, start + len(opening))
        if end < 0:
            return
        at = end + len(closing)
    yield text[at:]


def office_paragraphs(path: Path, extension: str) -> list[str]:
    """The paragraphs of an archive: of its parts that hold text, in the order of their numbers."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _sheets(archive, extension) if extension in SHEETS else _parts(archive, extension)
    except DAMAGED as exc:
        raise damaged("its archive cannot be unpacked", exc) from exc


def is_large_sheet(path: Path, extension: str, most_cells: int) -> bool:
    """Whether it is a spreadsheet with more cells than that."""
    if extension not in SHEETS:
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return has_more_cells(archive, extension, most_cells)
    except DAMAGED as exc:
        raise damaged("its archive cannot be unpacked", exc) from exc


def _sheets(archive: zipfile.ZipFile, extension: str) -> list[str]:
    try:
        return list(joined(_within_limit(rows_of(archive, extension)), ROWS_TOGETHER))
    except ExpatError:
        return _parts(archive, extension)  # not well-formed: what stands between its tags is text all the same


def _parts(archive: zipfile.ZipFile, extension: str) -> list[str]:
    names = sorted((name for name in archive.namelist() if _PARTS[extension].fullmatch(name)), key=by_number)
    read: Callable[[str], list[str]] = html_paragraphs if extension == ".epub" else _office_xml_paragraphs
    texts = (archive.read(name).decode("utf-8", "replace") for name in names)
    return list(_within_limit(paragraph for text in texts for paragraph in read(text)))


def _within_limit(texts: Iterable[str]) -> Iterator[str]:
    size = 0
    for text in texts:
        size += len(text)
        see_size_of_text(size)
        yield text


def mail_paragraphs(path: Path) -> list[str]:
    try:
        return _mail_paragraphs(message_from_bytes(path.read_bytes(), EmailMessage, policy=default))
    # The standard library trips over some mail that is against the rules, and over parts in parts in parts.
    except (ValueError, LookupError, AttributeError, TypeError, AssertionError, RecursionError) as exc:
        raise damaged("its parts cannot be told apart", exc) from exc


def _mail_paragraphs(message: EmailMessage) -> list[str]:
    body = message.get_body(("plain", "html"))
    headers = [f"{name}: {message[name]}" for name in ("Subject", "From", "To", "Date") if message[name]]
    if body is None:
        return headers
    text = str(body.get_content())
    lines = html_paragraphs(text) if body.get_content_subtype() == "html" else re.split(r"\n\s*\n", text)
    return headers + [line.strip() for line in lines if line.strip()]


def _office_xml_paragraphs(text: str) -> list[str]:
    return _between_tags(text, _OFFICE_BLOCKS, frozenset())


def _between_tags(text: str, blocks: frozenset[str], silent: frozenset[str]) -> list[str]:
    reader = _TextBetweenTags(blocks, silent)
    reader.feed(text)
    reader.close()
    return reader.paragraphs
