"""Parsing by whichever server does it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from soliplex.ingester.lib import scratch
from soliplex.ingester.lib.parsing.errors import ParserGaveUpError, ParserUnavailableError, UnsupportedFormatError
from soliplex.ingester.lib.parsing.formats import (
    IMAGES,
    LEGACY,
    MARKUP,
    SOURCE,
    STRUCTURED,
    extension_for,
    is_text,
    media_type,
)
from soliplex.ingester.lib.parsing.office_text import is_large_sheet, office_paragraphs
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.packages import as_docling_knows
from soliplex.ingester.lib.parsing.plain_documents import of_paragraphs, title_of, to_parsed
from soliplex.ingester.lib.parsing.plain_text import plain_document, read_bounded, read_page
from soliplex.ingester.lib.parsing.results import Parsed
from soliplex.ingester.lib.parsing.serve.serve_tasks import CONNECT_SECONDS, SILENCE_SECONDS, Progress, convert
from soliplex.ingester.lib.parsing.serve.servers import Servers, ServerTrouble, TaskFailed
from soliplex.ingester.lib.parsing.sheet_text import MOST_CELLS
from soliplex.ingester.lib.validation.remedies import CONVERT

WITHOUT_STRUCTURE: Final = "the text is without structure: the document is large"
_log = logging.getLogger(__name__)


class DoclingServeParser:
    """Sends documents to docling-serve. Texts without a structure that docling knows are read here."""

    name = "docling-serve"

    def __init__(self, urls: Sequence[str], *, timeout: float, servers: Servers | None = None) -> None:
        self._servers = servers or Servers(urls)
        self._timeout = timeout

    async def parse(self, path: Path, *, mime_type: str, options: ParseOptions) -> Parsed:
        kind = media_type(mime_type)
        if kind in STRUCTURED or kind in IMAGES or kind in LEGACY:
            if await asyncio.to_thread(is_large_sheet, path, extension_for(kind), MOST_CELLS):
                return await asyncio.to_thread(_parse_rows_here, path, kind)
            async with _as_docling_knows(path, kind) as known:
                return await self._parse(known, kind, options)
        if kind in MARKUP or kind == "application/xml":
            async with _as_utf8(path, kind) as copy:
                return await self._parse(copy, kind, options)
        if is_text(kind):
            return await asyncio.to_thread(_parse_here, path, kind)
        raise UnsupportedFormatError(self.name, kind, CONVERT)

    async def _parse(self, path: Path, kind: str, options: ParseOptions) -> Parsed:
        progress = Progress()
        try:
            async with asyncio.timeout(self._timeout):
                return _parsed(await self._converted(path, f"document{extension_for(kind)}", options, progress))
        except TimeoutError as exc:
            # A server that answers and does not finish has trouble with this document; a silent one, with all.
            kind_of_error = ParserGaveUpError if progress.is_worked_on else ParserUnavailableError
            raise kind_of_error(
                f"docling-serve did not finish the document within {self._timeout:g} s; "
                "raise DOCLING_HTTP_TIMEOUT, or split long documents"
            ) from exc

    async def _converted(self, path: Path, name: str, options: ParseOptions, progress: Progress) -> dict[str, Any]:
        """Ask one server after another; the last word is that of `choose`, when none is left."""
        tried: list[str] = []
        trouble: ServerTrouble | None = None
        timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        async with httpx.AsyncClient(timeout=timeout, trust_env=False) as client:
            while True:
                try:
                    server = self._servers.choose(but_not=tried)
                except ParserUnavailableError as exc:
                    raise _told(exc, trouble) from trouble
                tried.append(server.url)
                try:
                    with self._servers.using(server):
                        return await convert(client, server.url, path, name, options, progress)
                except ServerTrouble as exc:
                    _log.warning("docling-serve failed: %s", exc)
                    trouble = exc


def _told(exc: ParserUnavailableError, trouble: ServerTrouble | None) -> ParserUnavailableError:
    match trouble:
        case None:
            return exc
        case TaskFailed():
            return ParserGaveUpError(f"docling-serve could not read the document ({trouble})")
        case _:
            return ParserUnavailableError(f"{exc} ({trouble})")


@asynccontextmanager
async def _as_docling_knows(path: Path, kind: str) -> AsyncGenerator[Path]:
    """As `as_docling_knows`, in a thread: a copy may have to be packed anew."""
    package = as_docling_knows(path, kind)
    known = await asyncio.to_thread(package.__enter__)
    try:
        yield known
    finally:
        await asyncio.to_thread(package.__exit__, None, None, None)


@asynccontextmanager
async def _as_utf8(path: Path, kind: str) -> AsyncGenerator[Path]:
    """The text in UTF-8, which docling takes every text for."""
    text = await asyncio.to_thread(read_page, path, kind)
    with tempfile.NamedTemporaryFile(prefix="parse-", dir=scratch.own_folder()) as copy:
        copy.write(text.encode())
        copy.flush()
        yield Path(copy.name)


def _parse_here(path: Path, kind: str) -> Parsed:
    return to_parsed(plain_document(path.stem, read_bounded(path), is_source=kind in SOURCE))


def _parse_rows_here(path: Path, kind: str) -> Parsed:
    """Read here, row by row, a workbook of which no server could make a document in its time or memory."""
    paragraphs = office_paragraphs(path, extension_for(kind))
    return to_parsed(of_paragraphs(path.stem, paragraphs), warnings=(WITHOUT_STRUCTURE,))


def _parsed(document: dict[str, Any]) -> Parsed:
    content: dict[str, Any] = document["json_content"]
    return Parsed(
        markdown=document.get("md_content") or "",
        document=content,
        pages=len(content.get("pages") or ()) or None,
        title=title_of(content),
    )
