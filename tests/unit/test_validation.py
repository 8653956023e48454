"""Documents are judged by their content: taken with their facts, or refused with a reason that a person understands."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from pathlib import Path
from typing import Protocol

import pytest
from PIL import Image

from soliplex.ingester.lib.validation import Defect, InvalidDocumentError, Validated, validate
from soliplex.ingester.lib.validation.archives import Bounds, checked_archive
from soliplex.ingester.lib.validation.facts import pdf_date, tidy
from soliplex.ingester.lib.wf.errors import PermanentError
from tests.support.files import WORD, compound_file, docx, open_document, pdf, zipped

LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha">{}]><l>&z;</l>'


class Judge(Protocol):
    async def __call__(self, content: bytes, name: str = "", mime_type: str | None = None) -> Validated: ...


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    async def run(content: bytes, name: str = "", mime_type: str | None = None) -> Validated:
        path = tmp_path / "content"
        path.write_bytes(content)
        return await validate(path, name=name, mime_type=mime_type)

    return run


def picture(kind: str, size: tuple[int, int] = (40, 30)) -> bytes:
    content = io.BytesIO()
    Image.effect_noise(size, 50).save(content, kind)
    return content.getvalue()


async def refusal(judge: Judge, content: bytes, name: str = "") -> InvalidDocumentError:
    with pytest.raises(InvalidDocumentError) as refused:
        await judge(content, name)
    return refused.value


async def test_a_pdf_tells_its_pages_and_what_it_is(judge: Judge) -> None:
    found = await judge(pdf("one", "two", "three", title="A study"), "study.pdf")
    assert found.mime_type == "application/pdf"
    assert found.facts == {
        "page_count": 3,
        "title": "A study",
        "author": "Ada",
        "created": "2024-01-31T12:00:00+00:00",
    }


async def test_a_word_document_tells_its_title(judge: Judge) -> None:
    found = await judge(docx("text", title="Minutes"), "minutes.docx")
    assert (found.mime_type, found.facts) == (WORD, {"title": "Minutes", "author": "Ada"})


async def test_an_open_document_tells_its_title(judge: Judge) -> None:
    assert (await judge(open_document(), "a.odt")).facts == {"title": "Title"}


async def test_a_message_tells_subject_sender_and_date(judge: Judge) -> None:
    mail = (
        b"From: Ada <ada@example.com>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
        b"Date: 1 Jan 2024 10:00:00 +0100\r\n\r\nHi"
    )
    found = await judge(mail, "a.eml")
    assert found.facts == {
        "title": "Grüße",
        "author": "Ada <ada@example.com>",
        "created": "2024-01-01T10:00:00+01:00",
        "encoding": "utf-8",
    }


async def test_a_picture_tells_its_size(judge: Judge) -> None:
    assert (await judge(picture("PNG"))).facts == {"width": 40, "height": 30, "page_count": 1}


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("naïve".encode(), "utf-8"),
        ("naïve".encode("utf-8-sig"), "utf-8-sig"),
        ("naïve".encode("utf-16"), "utf-16"),
        ("naïve".encode("utf-32"), "utf-32"),
        ("naïve text without a mark".encode("utf-16-le"), "utf-16-le"),
        ("naïve text without a mark".encode("utf-16-be"), "utf-16-be"),
        ("Дождь шёл всю ночь, и к утру дорога стала похожа на реку. ".encode("cp1251") * 5, "cp1251"),
        (b"ok " * 500_000 + "ß".encode(), "utf-8"),
    ],
)
async def test_a_text_tells_its_encoding(judge: Judge, content: bytes, encoding: str) -> None:
    assert (await judge(content, "a.txt", "text/plain")).facts == {"encoding": encoding}


async def test_an_old_text_is_decoded_in_one_way_or_another(judge: Judge) -> None:
    found = await judge("Der Bär übte Geigenspiel, während draußen Schnee fiel.".encode("cp1252") * 5, "a.txt")
    assert "ä".encode(found.facts["encoding"]) == b"\xe4"


async def test_what_a_document_is_counts_and_not_what_it_is_called(judge: Judge) -> None:
    found = await judge(pdf("one"), "report.docx", WORD)
    assert found.mime_type == "application/pdf"
    assert found.facts["declared_mime_type"] == WORD


async def test_nothing_is_said_of_a_declared_type_that_is_right(judge: Judge) -> None:
    assert "declared_mime_type" not in (await judge(b"a,b", "a.csv", "text/csv; charset=utf-8")).facts


async def test_a_refusal_is_final(judge: Judge) -> None:
    assert isinstance(await refusal(judge, b""), PermanentError)


ENCRYPTED_WORD = compound_file({"WordDocument": struct.pack("<5HH", 0xA5EC, 0, 0, 0, 0, 0x0100)})
ENCRYPTED_EXCEL = compound_file({"Workbook": struct.pack("<HH4xHH2x", 0x0809, 4, 0x002F, 2)})
ENCRYPTED_POWERPOINT = compound_file({"PowerPoint Document": b"", "Current User": struct.pack("<12xI", 0xF3D1C4DF)})
LOCKED_ZIP = bytearray(zipped({"a.txt": "text"}))
LOCKED_ZIP[6] |= 1
LOCKED_ZIP[LOCKED_ZIP.find(b"PK\x01\x02") + 8] |= 1


@pytest.mark.parametrize(
    ("content", "name", "defect"),
    [
        (b"", "a.pdf", Defect.EMPTY),
        (pdf("text", encrypted=True), "a.pdf", Defect.ENCRYPTED),
        (pdf("text")[:60], "a.pdf", Defect.TRUNCATED),
        (b"%PDF-1.7\nnothing\n%%EOF\n", "a.pdf", Defect.DAMAGED),
        (pdf(), "a.pdf", Defect.DAMAGED),
        (docx("text")[:-40], "a.docx", Defect.TRUNCATED),
        (docx("text").replace(b"PK\x03\x04", b"PK\x03\x05")[:4] + docx("text")[4:], "a.docx", Defect.UNKNOWN),
        (zipped({"readme.txt": "text"}), "a.docx", Defect.DAMAGED),
        (open_document(manifest="<m><encryption-data/></m>"), "a.odt", Defect.ENCRYPTED),
        (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}), "a.odt", Defect.DAMAGED),
        (zipped({"mimetype": "application/epub+zip"}), "a.epub", Defect.DAMAGED),
        (
            zipped({"mimetype": "application/epub+zip", "META-INF/encryption.xml": "<x>xmlenc#aes128-cbc</x>"}),
            "a.epub",
            Defect.ENCRYPTED,
        ),
        (bytes(LOCKED_ZIP), "a.zip", Defect.ENCRYPTED),
        (ENCRYPTED_WORD, "a.doc", Defect.ENCRYPTED),
        (ENCRYPTED_EXCEL, "a.xls", Defect.ENCRYPTED),
        (ENCRYPTED_POWERPOINT, "a.ppt", Defect.ENCRYPTED),
        (compound_file({"EncryptedPackage": b""}), "a.docx", Defect.ENCRYPTED),
        (compound_file({"WordDocument": b""})[:600], "a.doc", Defect.DAMAGED),
        (picture("PNG")[:-600], "a.png", Defect.TRUNCATED),
        (picture("PNG")[:20], "a.png", Defect.DAMAGED),
        (b"\x00\x01\x02\x03" * 100, "a.bin", Defect.UNKNOWN),
        (bytes(random.Random(7).choices(range(128, 256), k=4_000)), "a.raw", Defect.UNKNOWN),  # Greek, to a guess
        (b"P6\n64 64\n255\n" + bytes(random.Random(7).choices(range(128, 256), k=900)), "a.ppm", Defect.TRUNCATED),
        (b'<?xml version="1.0"?><a><b>text', "a.xml", Defect.TRUNCATED),
    ],
)
async def test_what_cannot_be_read_is_refused(judge: Judge, content: bytes, name: str, defect: Defect) -> None:
    assert (await refusal(judge, content, name)).defect is defect


async def test_an_old_word_document_is_taken(judge: Judge) -> None:
    assert (await judge(compound_file({"WordDocument": b"\xec\xa5"}), "a.doc")).mime_type == "application/msword"


async def test_reasons_say_what_to_do(judge: Judge) -> None:
    assert str(await refusal(judge, pdf("text", encrypted=True))) == (
        "the PDF is protected by a password; remove the protection and ingest it again"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
async def test_a_part_of_an_office_document_that_declares_entities_is_a_bomb(judge: Judge, encoding: str) -> None:
    bomb = docx("text", more={"word/footnotes.xml": LAUGHS.encode(encoding)})
    refused = await refusal(judge, bomb, "a.docx")
    assert refused.defect is Defect.BOMB
    assert "word/footnotes.xml" in str(refused)


async def test_a_declaration_that_lies_across_two_blocks_is_seen(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soliplex.ingester.lib.validation.office.BLOCK", 5)
    assert (await refusal(judge, docx("text", more={"a.xml": LAUGHS}), "a.docx")).defect is Defect.BOMB


async def test_xml_whose_entities_multiply_is_a_bomb(judge: Judge) -> None:
    entities = "".join(f'<!ENTITY {new} "{f"&{old};" * 40}">' for old, new in zip("abcdefg", "bcdefgz", strict=True))
    assert (await refusal(judge, LAUGHS.format(entities).encode(), "a.xml")).defect is Defect.BOMB


async def test_xml_that_would_read_a_file_is_refused(judge: Judge) -> None:
    refused = await refusal(judge, b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', "a.xml")
    assert "file:///etc/passwd" in str(refused)


async def test_xml_with_the_grammar_of_a_journal_is_taken(judge: Judge) -> None:
    article = (
        b'<!DOCTYPE article PUBLIC "-//NLM" "JATS.dtd" [<!NOTATION gif SYSTEM "gif">'
        b'<!ENTITY f1 SYSTEM "f1.gif" NDATA gif>]><article>a&nbsp;b</article>'
    )
    assert (await judge(article, "a.xml")).facts == {"xml_root": "article"}


async def test_xml_that_is_not_well_formed_is_text(judge: Judge) -> None:
    found = await judge(b"<?xml version='1.0'?><a><b>text</a>", "a.xml")
    assert found.mime_type == "text/plain"
    assert found.facts == {"xml_error": "mismatched tag in line 1"}


async def test_an_archive_that_would_fill_the_memory_is_a_bomb(judge: Judge) -> None:
    bomb = docx("text", more={"word/media/image.bmp": bytes(64 << 20)})
    assert len(bomb) < 100_000
    refused = await refusal(judge, bomb, "a.docx")
    assert (refused.defect, "200 times" in str(refused)) == (Defect.BOMB, True)


async def test_archives_within_archives_are_bounded(judge: Judge) -> None:
    nested = zipped({"a.txt": "text"})
    for _ in range(3):
        nested = zipped({"a.zip": nested})
    assert (await judge(nested, "a.zip")).facts == {"file_count": 1}
    refused = await refusal(judge, zipped({"a.zip": nested}), "a.zip")
    assert (refused.defect, "3 deep" in str(refused)) == (Defect.BOMB, True)


async def test_what_is_inside_a_nested_archive_counts(judge: Judge) -> None:
    bomb = zipped({"zeros": bytes(64 << 20)})
    assert (await refusal(judge, zipped({"a.zip": bomb}, zipfile.ZIP_STORED), "a.zip")).defect is Defect.BOMB


@pytest.mark.parametrize("bounds", [Bounds(members=2), Bounds(unpacked=10), Bounds(ratio=1, ratio_counts_from=0)])
def test_each_bound_of_an_archive_holds(tmp_path: Path, bounds: Bounds) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(dict.fromkeys("abc", "text " * 6)))
    with pytest.raises(InvalidDocumentError, match="bomb"), checked_archive(path, bounds):
        pass


async def test_members_that_share_their_bytes_are_a_bomb(judge: Judge) -> None:
    content = bytearray(zipped({"a": "text" * 1000, "b": "text" * 1000}))
    second = content.rfind(b"PK\x01\x02")
    content[second + 42 : second + 46] = bytes(4)  # the second member begins where the first does
    assert (await refusal(judge, bytes(content), "a.zip")).defect in {Defect.BOMB, Defect.DAMAGED}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D:20240131235959+01'30'", "2024-01-31T23:59:59+01:30"),
        ("D:2024", "2024-01-01T00:00:00+00:00"),
        ("20240131", "2024-01-31T00:00:00+00:00"),
        ("D:20249999", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_of_pdf(text: str, expected: str | None) -> None:
    assert pdf_date(text) == expected


def test_facts_are_tidied() -> None:
    assert tidy({"title": " a\x00\n b ", "author": "", "subject": None, "page_count": 0}) == {
        "title": "a b",
        "page_count": 0,
    }
    assert tidy({"title": "Untitled", "author": "(anonymous)", "subject": "unspecified", "creator": "Draw"}) == {
        "creator": "Draw"
    }
    assert len(tidy({"title": "x" * 10**6})["title"]) == 2000


async def test_a_picture_is_refused_from_the_number_of_pixels_that_is_told(judge: Judge) -> None:
    def bilevel(width: int, height: int) -> bytes:
        content = io.BytesIO()
        Image.new("1", (width, height), 1).save(content, "PNG")
        return content.getvalue()

    # Pillow by itself refuses from 179 million on.
    assert (await judge(bilevel(20_000, 10_000), "plan.png")).facts["width"] == 20_000
    refused = await refusal(judge, bilevel(20_000, 10_001), "plan.png")
    assert str(refused).startswith("the picture is refused: it has more than 200 million pixels; scale it down")
