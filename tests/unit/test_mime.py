"""The type of a document, told from its bytes."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Protocol

import pytest

from soliplex.ingester.lib.mime import UNKNOWN, detect_mime_type
from soliplex.ingester.lib.mime.detection import extension_of

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
OFFICE_TYPES = '<Types><Override PartName="/main.xml" ContentType="{}.main+xml"/></Types>'


class Detect(Protocol):
    def __call__(self, content: bytes, name: str = "", declared: str | None = None) -> str: ...


def zipped(**members: str | bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def compound(*streams: str, sectors_before: int = 0) -> bytes:
    """An OLE file whose directory holds these names, behind some other sectors."""
    directory = 1 + sectors_before
    table = [0xFFFFFFFD, *[0xFFFFFFFE] * sectors_before, 0xFFFFFFFE]
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    struct.pack_into("<H", header, 30, 9)
    struct.pack_into("<I", header, 48, directory)
    struct.pack_into("<109I", header, 76, 0, *[0xFFFFFFFF] * 108)
    entries = b""
    for name in ("Root Entry", *streams):
        entries += name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<H", 2 * len(name) + 2) + bytes(62)
    allocation = struct.pack(f"<{len(table)}I", *table).ljust(512, b"\xff")
    return bytes(header) + allocation + bytes(512 * sectors_before) + entries.ljust(512, b"\0")


@pytest.fixture
def detect(tmp_path: Path) -> Detect:
    def run(content: bytes, name: str = "", declared: str | None = None) -> str:
        path = tmp_path / "content"
        path.write_bytes(content)
        found = detect_mime_type(path, name, declared=declared)
        assert detect_mime_type(path, name, declared=declared, head=content[:5000]) == found
        return found

    return run


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (b"\xef\xbb\xbf\n  %PDF-1.4 after some junk", "application/pdf"),
        (b"{\\rtf1\\ansi hello}", "application/rtf"),
        (b"%!PS-Adobe-3.0", "application/postscript"),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "application/gzip"),
        (b"<!DOCTYPE html><title>x</title>", "text/html"),
        (b"  <!-- a -->\n<HTML lang=en>", "text/html"),
        (b'<?xml version="1.0"?><article><front/></article>', "application/xml"),
        (b'<?xml version="1.0"?>\n<!-- x --><svg:svg xmlns:svg="..."/>', "image/svg+xml"),
        (b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"/>', "application/xhtml+xml"),
        (b'{"a": 1}', "application/json"),
        (b"[1, 2]", "application/json"),
        (b"[a note] to myself", "text/plain"),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\nhello", "text/vtt"),
        (b"% comment\n\\documentclass{article}", "application/x-tex"),
        (b"From: a@b.c\r\nTo: d@e.f\r\nSubject: x\r\n\r\nhello", "message/rfc822"),
        (b"Dear: all\nNote: this is a letter\n", "text/plain"),
        (b"BM is how this text begins", "text/plain"),
        ("größer".encode("latin-1") + b" than plain ASCII, and old", "text/plain"),
        ("häß".encode("utf-16"), "text/plain"),
        ("日本語のテキスト".encode() * 700, "text/plain"),
        (b"", "text/plain"),
        (bytes(range(256)) * 4, UNKNOWN),
    ],
)
def test_content_tells_its_type(detect: Detect, content: bytes, expected: str) -> None:
    assert detect(content) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("read.md", b"# Title\n", "text/markdown"),
        ("READ.MD", b"<html>in Markdown</html>", "text/markdown"),
        ("https://host/a/table.csv?version=2", b"a,b\n1,2\n", "text/csv"),
        ("data.json", b"not quite", "application/json"),
        ("page.html", b"<p>a fragment</p>", "text/html"),
        ("fake.pdf", b"just text", "text/plain"),
        ("fake.md", b"%PDF-1.7", "application/pdf"),
        ("fake.docx", b"PK\x03\x04 and then nothing", "application/zip"),
        ("book.adoc", b"= Title\n", "text/asciidoc"),
        ("unknown.bin", bytes(range(256)), UNKNOWN),
        ("table.parquet", b"PAR1\x00\x01\x02\x03", "application/vnd.apache.parquet"),
    ],
)
def test_a_name_decides_among_kinds_of_text_only(detect: Detect, name: str, content: bytes, expected: str) -> None:
    assert detect(content, name) == expected


@pytest.mark.parametrize(
    ("declared", "content", "expected"),
    [
        ("text/markdown; charset=utf-8", b"# Title", "text/markdown"),
        ("application/pdf", b"text", "text/plain"),
        ("application/pdf", bytes(range(256)), UNKNOWN),
        ("text/plain", bytes(range(256)), UNKNOWN),
        ("application/x-own-format", bytes(range(256)), "application/x-own-format"),
        ("no type at all", bytes(range(256)), UNKNOWN),
        ("text/html\r\nX-Evil: 1", b"text", "text/plain"),
        ("image/svg+xml", b"text", "text/plain"),
    ],
)
def test_what_the_sender_says_counts_last(detect: Detect, declared: str, content: bytes, expected: str) -> None:
    assert detect(content, declared=declared) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"[Content_Types].xml": OFFICE_TYPES.format(WORD), "word/document.xml": "x"}, WORD),
        (
            {"[Content_Types].xml": OFFICE_TYPES.format("application/vnd.ms-word.document.macroEnabled")},
            "application/vnd.ms-word.document.macroEnabled.12",
        ),
        (
            {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": "x"},
            "application/vnd.oasis.opendocument.text",
        ),
        ({"mimetype": "application/epub+zip\n"}, "application/epub+zip"),
        ({"mimetype": "text/html; evil"}, "application/zip"),
        ({"a.txt": "x"}, "application/zip"),
    ],
)
def test_a_zip_is_looked_into(detect: Detect, members: dict[str, str], expected: str) -> None:
    assert detect(zipped(**members)) == expected
    # The list of types may stand anywhere in the archive.
    assert detect(zipped(**{"a" * 6000: b"x" * 100_000, **members})) == expected


@pytest.mark.parametrize("cut", [30, 60, 100, 200])
def test_a_damaged_zip_is_a_zip(detect: Detect, cut: int) -> None:
    whole = zipped(**{"[Content_Types].xml": OFFICE_TYPES.format(WORD)})
    assert detect(whole[:cut]) == "application/zip"
    assert detect(whole[:cut] + b"\xff" * 30 + whole[cut + 30 :]) in {"application/zip", WORD}


def test_a_member_packed_without_a_bound_is_not_unpacked(detect: Detect) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("[Content_Types].xml", OFFICE_TYPES.format(WORD))
    assert detect(content.getvalue()) == "application/zip"


def test_a_zip_that_claims_a_huge_directory_is_not_read(detect: Detect) -> None:
    whole = bytearray(zipped(**{"[Content_Types].xml": OFFICE_TYPES.format(WORD)}))
    struct.pack_into("<I", whole, len(whole) - 10, 1 << 30)
    assert detect(bytes(whole)) == "application/zip"


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        (["WordDocument"], "application/msword"),
        (["Workbook"], "application/vnd.ms-excel"),
        (["PowerPoint Document"], "application/vnd.ms-powerpoint"),
        (["__properties_version1.0"], "application/vnd.ms-outlook"),
        (["EncryptedPackage"], "application/x-encrypted-office"),
        (["Something"], "application/x-ole-storage"),
    ],
)
def test_an_ole_file_is_looked_into(detect: Detect, streams: list[str], expected: str) -> None:
    assert detect(compound(*streams)) == expected
    assert detect(compound(*streams, sectors_before=20)) == expected


@pytest.mark.parametrize("size", [8, 100, 512, 600])
def test_a_cut_ole_file_is_one_all_the_same(detect: Detect, size: int) -> None:
    assert detect(compound("WordDocument")[:size]) == "application/x-ole-storage"


def test_an_ole_file_whose_chain_is_a_circle_ends(detect: Detect) -> None:
    content = bytearray(compound("Something"))
    struct.pack_into("<I", content, 512 + 4, 1)  # the directory follows itself
    assert detect(bytes(content)) == "application/x-ole-storage"


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.MD", ".md"),
        ("s3://b/x.pdf#1", ".pdf"),
        ("C:\\x\\y.txt", ".txt"),
        ("http://[bad/x.html", ".html"),
        ("%2e%2e/a%2ecsv", ".csv"),
        ("", ""),
        (".gitignore", ""),
    ],
)
def test_the_extension_of_a_name(name: str, extension: str) -> None:
    assert extension_of(name) == extension
