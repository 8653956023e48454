"""Every kind of document that the documentation lists is read; what cannot be read is refused with advice."""

from __future__ import annotations

import random
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from soliplex.ingester.lib.mime import detect_mime_type
from soliplex.ingester.lib.parsing import Parsed, ParseOptions, parse_blocking
from soliplex.ingester.lib.parsing.formats import STRUCTURED
from soliplex.ingester.lib.parsing.local import local_parser
from soliplex.ingester.lib.parsing.readable import why_unread
from soliplex.ingester.lib.parsing.serve import DoclingServeParser, serve_parser
from soliplex.ingester.lib.validation.checking import validate_blocking
from soliplex.ingester.lib.wf.errors import PermanentError
from tests.support import hostile
from tests.support.docling_serve import FakeDoclingServe
from tests.support.files import docx
from tests.support.kinds import EXTENSIONS, OLD, TEXT, book, open_document, picture, sample, workbook
from tests.support.soffice import FakeOffice

PAGE = Path(__file__).parents[2] / "docs/howto/parsing.md"
PLAIN = {extension: kind for kind, extension in reversed(STRUCTURED.items())}
"""The first kind of each extension."""
PICTURES = {".png", ".jpg", ".tiff", ".gif", ".bmp", ".webp", ".avif", ".jp2", ".ppm"}


def listed() -> Mapping[str, bool]:
    """The extensions in the table of what can be parsed, and whether the fast parser reads them."""
    table = PAGE.read_text().partition("## What can be parsed")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    return {
        extension: row[4].strip() != "no"
        for row in rows
        if row[3].strip() != "no"
        for extension in re.findall(r"`(\.\w+)`", row[2])
    }


def read(parser: str, path: Path, name: str) -> Parsed:
    """As the steps do: validate, then parse what it was found to be."""
    validated = validate_blocking(path, name=name, mime_type=None)
    return parse_blocking(parser, path, validated.mime_type, ParseOptions())


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return tmp_path / "sha256-00ff"


def test_every_listed_kind_has_a_sample() -> None:
    # A message of Outlook takes a program to make one.
    assert sorted(listed()) == sorted({*EXTENSIONS, ".msg"})


@pytest.mark.parametrize("extension", [each for each in EXTENSIONS if each not in OLD])
def test_a_listed_kind_is_not_left_out(stored: Path, extension: str) -> None:
    put(stored, sample(extension))
    kind = detect_mime_type(stored, f"a{extension}")
    assert why_unread("local", kind) is None
    assert (why_unread("fast", kind) is None) is listed()[extension]


@pytest.mark.parametrize("extension", [each for each in EXTENSIONS if each not in PICTURES | {".pdf"}])
def test_a_listed_kind_is_read(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str) -> None:
    put(stored, sample(extension))
    if extension in OLD:
        saved = {".xls": ".xlsx", ".ppt": ".pptx"}.get(extension, ".docx")
        FakeOffice(tmp_path / "office", monkeypatch).saves(sample(saved))
    parsed = read("local", stored, f"a{extension}")
    assert TEXT in parsed.markdown
    assert parsed.warnings == ()
    if listed()[extension]:
        assert TEXT in read("fast", stored, f"a{extension}").markdown


@pytest.mark.parametrize("extension", sorted(PICTURES | {".pdf"}))
def test_a_listed_kind_that_models_look_at_is_read(stored: Path, extension: str) -> None:
    put(stored, sample(extension))
    assert TEXT in " ".join(read("local", stored, f"a{extension}").markdown.split())


@pytest.mark.parametrize(
    "content",
    [
        book(type_at=3),
        book(compression=zipfile.ZIP_DEFLATED),
        book(declared=b"\xef\xbb\xbfapplication/epub+zip\r\n"),
        book(declared=b""),
    ],
    ids=["type last", "type compressed", "type after a mark", "no type"],
)
def test_a_book_packed_by_any_tool_is_read(stored: Path, content: bytes) -> None:
    put(stored, content)
    parsed = read("local", stored, "a.epub")
    assert "# Chapter" in parsed.markdown
    assert TEXT in read("fast", stored, "a.epub").markdown


@pytest.mark.parametrize("extension", [".odt", ".ods", ".odp"])
def test_an_open_document_without_its_type_is_told_by_its_manifest(stored: Path, extension: str) -> None:
    put(stored, open_document(extension, with_type=False))
    parsed = read("local", stored, "unnamed")
    assert TEXT in parsed.markdown
    assert parsed.warnings == ()


@pytest.mark.parametrize(
    ("extension", "plain"), [(".dotm", ".docx"), (".ppsx", ".pptx"), (".ott", ".odt"), (".epub", ".epub")]
)
async def test_docling_serve_gets_what_docling_reads(stored: Path, extension: str, plain: str) -> None:
    put(stored, book(type_at=3) if extension == ".epub" else sample(extension))
    kind = detect_mime_type(stored)
    async with FakeDoclingServe() as server:
        parsed = await DoclingServeParser([server.url], timeout=300).parse(
            stored, mime_type=kind, options=ParseOptions()
        )
    assert TEXT in parsed.markdown
    put(stored, server.received[0])
    assert detect_mime_type(stored) == PLAIN[plain]
    if extension == ".epub":
        assert server.received[0][30:58] == b"mimetypeapplication/epub+zip"


def test_a_workbook_of_many_cells_is_read_row_by_row(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_parser, "MOST_CELLS", 100)
    put(stored, workbook(rows=60))
    parsed = read("local", stored, "a.xlsx")
    assert parsed.markdown.split("\n")[0].strip() == "10 | 11"
    assert "600 | 601" in parsed.markdown
    assert parsed.warnings == ("the text is without structure: the document is large",)


async def test_a_workbook_of_many_cells_is_not_sent_to_a_server(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_parser, "MOST_CELLS", 100)
    put(stored, workbook(rows=60))
    async with FakeDoclingServe() as server:
        parsed = await DoclingServeParser([server.url], timeout=300).parse(
            stored, mime_type=detect_mime_type(stored), options=ParseOptions()
        )
        assert server.submitted == []
    assert "600 | 601" in parsed.markdown


@pytest.mark.slow
def test_a_million_rows_are_read(stored: Path) -> None:
    put(stored, workbook(rows=1_000_000))
    assert "10000000 | 10000001" in read("local", stored, "a.xlsx").markdown


def test_the_cells_of_a_workbook_stand_with_their_strings(stored: Path) -> None:
    put(stored, sample(".xlsx"))
    assert f"{TEXT} | 42" in read("fast", stored, "a.xlsx").markdown


def test_a_picture_of_more_pixels_than_it_takes_is_scaled_down(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soliplex.ingester.lib.parsing.local.pictures.MOST_PIXELS_READ", 200_000)
    put(stored, picture("PNG"))
    parsed = read("local", stored, "a.png")
    assert TEXT in " ".join(parsed.markdown.split())
    assert "scaled down" in parsed.warnings[0]


def test_text_is_taken_where_docling_cannot_read_an_office_document(stored: Path) -> None:
    put(stored, docx("Still here.", more={"word/styles.xml": "<broken"}))
    parsed = read("local", stored, "a.docx")
    assert "Still here." in parsed.markdown
    assert parsed.warnings == ("the text is without structure: docling could not read it",)


INTERNALS = re.compile(
    r"Error\b|Exception|Traceback|PDFium:|out of range|has no attribute|not subscriptable|NoneType|unpack requires"
    r"|codec can't|invalid literal|Bad magic|offset|\boverlap|CRC|0x[0-9a-f]{3}|/tmp/|Backend|object at|\bNone\b"
    r"|not a zip file|File is not|syntax error|mismatched tag|well-formed"
)
"""What libraries say, and nobody who sent a document can do anything with."""
REMEDY = re.compile(
    r"; .*\b(?:ingest|get the file again|save|convert|use one|split|raise|correct|install|unpack|remove|scale)\b"
    r"|can read them"
)


def mutants(content: bytes) -> Iterator[bytes]:
    """The document cut off, with bits turned over, and with a hole in it."""
    chance = random.Random(len(content))
    yield content[: len(content) // 2]
    turned = bytearray(content)
    for _ in range(max(4, len(content) // 500)):
        turned[chance.randrange(len(turned))] ^= 1 << chance.randrange(8)
    yield bytes(turned)
    middle, size = len(content) // 2, max(1, len(content) // 8)
    yield content[:middle] + bytes(size) + content[middle + size :]


HARMFUL = {
    "empty": b"",
    "noise.bin": bytes(range(256)) * 8,
    "cut.png": hostile.png(64, 64, cut=True),
    "vast.png": hostile.png(60_000, 60_000),
    "loop.pdf": hostile.looping_pdf(),
    "locked.pdf": hostile.aes_pdf(),
    "locked.docx": hostile.locked_office(),
    "locked.zip": hostile.locked_zip(),
    "zeros.zip": hostile.zip_of_zeros(40),
    "nested.zip": hostile.nested_zip(6),
    "laughs.docx": hostile.laughing_docx(),
    "laughs.xml": hostile.laughing_xml("article"),
    "a.mp3": b"ID3" + bytes(100),
}
DAMAGED = {
    f"{number}{extension}": content
    for extension in EXTENSIONS
    if extension not in PICTURES - {".png", ".tiff"}
    for number, content in enumerate(mutants(sample(extension)))
}


@pytest.mark.parametrize("name", [*HARMFUL, *DAMAGED])
def test_a_refusal_says_what_a_person_can_do(stored: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")  # without LibreOffice, wherever this runs
    put(stored, (HARMFUL | DAMAGED)[name])
    kind = detect_mime_type(stored, name)
    reasons: list[str] = []
    # A tree of pages that contains itself stalls docling, which in a worker has a process that can be ended.
    for parser in (None, "fast") if name == "loop.pdf" else (None, "fast", "local"):
        try:
            if parser is None:
                validate_blocking(stored, name=name, mime_type=None)
            else:
                parse_blocking(parser, stored, kind, ParseOptions(do_ocr=False))
        except PermanentError as exc:
            reasons.append(str(exc))
    assert [reason for reason in reasons if INTERNALS.search(reason)] == []
    assert [reason for reason in reasons if not REMEDY.search(reason)] == []
