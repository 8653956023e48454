"""What every parser promises, whichever way it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from soliplex.ingester.lib.parsing import ParseOptions, Parser, UnsupportedFormatError, parser_named
from soliplex.ingester.lib.parsing.serve import DoclingServeParser
from soliplex.ingester.lib.wf.errors import PermanentError
from tests.support.docling_serve import FakeDoclingServe
from tests.support.files import WORD, docx, pdf

TEXT = "Parsers read documents and give their text, with the pages that it is on."


@pytest.fixture(params=["fast", "local", "docling-serve"])
async def parser(request: pytest.FixtureRequest) -> AsyncIterator[Parser]:
    if request.param != "docling-serve":
        yield parser_named(request.param)
        return
    async with FakeDoclingServe() as server:
        yield DoclingServeParser([server.url], timeout=30)


class Store(Protocol):
    def __call__(self, content: bytes, name: str = "sha256-00ff") -> Path: ...


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Puts documents where they are stored: without an extension."""

    def put(content: bytes, name: str = "sha256-00ff") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return put


@pytest.mark.parametrize(
    ("content", "mime_type", "pages"),
    [
        (pdf(TEXT, TEXT), "application/pdf", 2),
        (docx(TEXT), WORD, None),
        (f"# Title\n\n{TEXT}".encode(), "text/markdown", None),
        (f"<h1>Title</h1><p>{TEXT}</p>".encode(), "text/html", None),
        (TEXT.encode("utf-16"), "text/plain", None),
        (f'{{"text": "{TEXT}"}}'.encode(), "application/json", None),
    ],
)
async def test_text_and_structure_come_out(
    parser: Parser, store: Store, content: bytes, mime_type: str, pages: int | None
) -> None:
    from docling_core.types.doc.document import DoclingDocument

    stored = store(content)
    parsed = await parser.parse(stored, mime_type=mime_type, options=ParseOptions())
    assert TEXT in " ".join(parsed.markdown.split())
    document = DoclingDocument.model_validate(parsed.document)
    assert TEXT in " ".join(document.export_to_text().split())
    assert parsed.pages == pages
    assert all(place.page_no in document.pages for item in document.texts for place in item.prov if pages)


async def test_a_range_of_pages_keeps_their_numbers(parser: Parser, store: Store) -> None:
    stored = store(pdf("one " + TEXT, "two " + TEXT, "three " + TEXT))
    parsed = await parser.parse(stored, mime_type="application/pdf", options=ParseOptions(page_range=(2, 3)))
    assert sorted(parsed.document["pages"]) == ["2", "3"]
    assert "two Parsers" in parsed.markdown
    assert "one Parsers" not in parsed.markdown


async def test_what_it_does_not_read_is_refused_for_good(parser: Parser, store: Store) -> None:
    stored = store(b"ID3")
    with pytest.raises(UnsupportedFormatError, match=parser.name):
        await parser.parse(stored, mime_type="audio/mpeg", options=ParseOptions())


async def test_a_broken_document_is_a_final_failure(parser: Parser, store: Store) -> None:
    stored = store(b"%PDF-1.4 broken")
    with pytest.raises(PermanentError):
        await parser.parse(stored, mime_type="application/pdf", options=ParseOptions())


async def test_several_documents_at_once(parser: Parser, store: Store) -> None:
    async def one(number: int) -> str:
        path = store(pdf(f"document {number}. {TEXT}"), f"sha256-{number}")
        return (await parser.parse(path, mime_type="application/pdf", options=ParseOptions())).markdown

    markdown = await asyncio.gather(*map(one, range(4)))
    assert all(f"document {number}." in text for number, text in enumerate(markdown))
