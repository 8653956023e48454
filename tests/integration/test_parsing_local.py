"""The local parser on documents of many kinds. docling is loaded once for all of them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pypdfium2
import pytest
from PIL import Image, ImageDraw, ImageFont

from soliplex.ingester.lib.parsing import (
    Parsed,
    ParseFailedError,
    ParseOptions,
    UnsupportedFormatError,
    parse_blocking,
    parser_named,
)
from soliplex.ingester.lib.parsing.local import LocalParser, local_parser
from tests.support.files import WORD, docx, drawn_pdf, marked_pdf, pdf, tagged_table_pdf, zipped
from tests.support.soffice import FakeOffice

BODY = "\n".join(f"This is sentence {number} of a page that is long enough to be a paragraph." for number in range(12))

TEX = b"\\documentclass{article}\\begin{document}\\section{Title}Text\\end{document}"

type Parse = Callable[..., Parsed]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    def run(content: bytes, mime_type: str, **options: Any) -> Parsed:
        path = tmp_path / "3f2a"
        path.write_bytes(content)
        parser = parser_named("local")
        assert isinstance(parser, LocalParser)
        return parser.parse_blocking(path, mime_type=mime_type, options=ParseOptions.read(options))

    return run


def labels(parsed: Parsed) -> dict[str, str]:
    return {item["text"]: item["label"] for item in parsed.document["texts"]}


def joined(*pdfs: bytes) -> bytes:
    """The pages of all of them."""
    whole = pypdfium2.PdfDocument.new()
    for each in pdfs:
        whole.import_pages(pypdfium2.PdfDocument(each))
    content = io.BytesIO()
    whole.save(content)
    return content.getvalue()


def scanned(text: str, degrees: int = 0) -> bytes:
    """A page that is a picture of text, turned by so many degrees."""
    image = Image.new("L", (1240, 600), 255)
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(image).text((80, 120), text, fill=0, font=font, spacing=30)
    content = io.BytesIO()
    image.rotate(degrees, expand=True).save(content, "PDF", resolution=150)
    return content.getvalue()


def test_a_pdf_has_text_pages_and_provenance(parse: Parse) -> None:
    parsed = parse(pdf(f"Chapter One\n\n{BODY}", f"Chapter Two\n\n{BODY}", sizes=(24,)), "application/pdf")
    assert parsed.pages == 2
    assert "This is sentence 11 of a page" in parsed.markdown
    assert {place["page_no"] for item in parsed.document["texts"] for place in item["prov"]} == {1, 2}
    assert parsed.document["schema_name"] == "DoclingDocument"


MARKED = f"How boats are hired\nPay at the desk.\n\n{BODY}\nReturning them\nBefore dusk.\n{BODY}"


def headings(parsed: Parsed) -> list[str]:
    return re.findall(r"^#.*", parsed.markdown, re.MULTILINE)


def test_entries_of_an_outline_are_headings_whatever_they_look_like(parse: Parse) -> None:
    outline = ("1. How boats are hired", "Returning them", "Not on this page")
    parsed = parse(marked_pdf(MARKED, outline=outline), "application/pdf")
    assert headings(parsed) == ["## How boats are hired", "## Returning them"]
    assert all(text in parsed.markdown for text in ("\n\nPay at the desk.", "\n\nBefore dusk."))
    assert headings(parse(marked_pdf(MARKED), "application/pdf")) == []


def test_tagged_headings_are_headings_of_their_level(parse: Parse) -> None:
    tags = {"How boats are hired": "H1", "Returning them": "H3"}
    parsed = parse(marked_pdf(MARKED, tags=tags), "application/pdf")
    assert headings(parsed) == ["## How boats are hired", "#### Returning them"]


def ruled(rows: int, *texts: str) -> bytes:
    """A page that is framed, and on it a table of two columns between ruling lines."""
    edges = [
        f"{left} {top} {across} {down} re f"
        for left, top, across, down in (
            *((100, 600 - 30 * row, 301, 1) for row in range(rows + 1)),
            *((left, 600 - 30 * rows, 1, 30 * rows) for left in (100, 250, 400)),
            *((20, top, 572, 1) for top in (20, 770)),
            *((left, 20, 1, 750) for left in (20, 592)),
        )
    ]
    places = ((110 + 150 * (number % 2), 580 - 30 * (number // 2)) for number in range(len(texts)))
    words = [f"BT /F1 11 Tf {x} {y} Td ({text}) Tj ET" for (x, y), text in zip(places, texts, strict=True)]
    return drawn_pdf("\n".join([*edges, *words]))


def test_ruling_lines_tell_of_a_table_that_the_model_has_not_seen(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from soliplex.ingester.lib.parsing.local.regions import RegionDetector

    monkeypatch.setattr(RegionDetector, "find", lambda *_: [])
    parsed = parse(ruled(3, "Boat", "Price", "Heron", "12", "Kestrel", "30"), "application/pdf")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in parsed.markdown.splitlines() if "|" in row]
    assert [row for row in cells if not row[0].startswith("-")] == [
        ["Boat", "Price"],
        ["Heron", "12"],
        ["Kestrel", "30"],
    ]


def test_tagged_cells_are_the_cells_of_a_table(parse: Parse) -> None:
    content = tagged_table_pdf(("Who", "What"), ("Ada\nMoore", "May hire\nboats"), ("Bo", "Pays\nBo"))
    rows = [row for row in parse(content, "application/pdf").markdown.splitlines() if row.startswith("|")]
    cells = [[" ".join(cell.split()) for cell in row.strip("|").split("|")] for row in rows]
    assert [cells[0], *cells[2:]] == [["Who", "What"], ["Ada Moore", "May hire boats"], ["Bo", "Pays Bo"]]


def test_a_grid_with_few_words_is_no_table(parse: Parse) -> None:
    parsed = parse(ruled(6, "a chart of something", "", "", "5"), "application/pdf")
    assert "|" not in parsed.markdown


def test_cells_of_scripts_that_run_leftwards_are_read_leftwards() -> None:
    from soliplex.ingester.lib.parsing.local.page_tables import Word, _read_leftwards, _runs_left

    row = [("1403", 0), ("/", 30), ("09", 40), ("\u05e2\u05d5\u05dc\u05dd", 60), ("\u05e9\u05dc\u05d5\u05dd", 100)]
    words = [Word(text, left, 0, left + 25, 10) for text, left in row]
    assert _runs_left(words)
    read = [word.text for word in _read_leftwards(words)]
    assert read == ["\u05e9\u05dc\u05d5\u05dd", "\u05e2\u05d5\u05dc\u05dd", "1403", "/", "09"]
    assert not _runs_left(words[:3])


def test_what_a_scan_says_in_its_margins_is_text(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    from soliplex.ingester.lib.parsing.local.regions import Region, RegionDetector

    footer = [Region((0, 0, 2000, 2000), "footer", 0.95)]
    monkeypatch.setattr(RegionDetector, "find", lambda *_: footer)
    monkeypatch.setattr("soliplex.ingester.lib.parsing.local.layout.MOST_OF_TEXT", 1.0)
    assert "12 Mill Lane" in parse(scanned("Heron Boats Ltd\n12 Mill Lane"), "application/pdf").markdown


def test_tags_that_call_all_text_headings_tell_nothing(parse: Parse) -> None:
    tags = dict.fromkeys(MARKED.splitlines(), "H1")
    assert headings(parse(marked_pdf(MARKED, tags=tags), "application/pdf")) == []


def test_pages_of_a_range_keep_their_numbers(parse: Parse) -> None:
    parsed = parse(pdf(*(f"Page {number}\n{BODY}" for number in range(1, 6))), "application/pdf", page_range=[2, 3])
    assert sorted(parsed.document["pages"]) == ["2", "3"]
    assert parsed.pages == 2
    assert "Page 2" in parsed.markdown
    assert "Page 4" not in parsed.markdown


def test_a_range_beyond_the_document_is_refused(parse: Parse) -> None:
    with pytest.raises(ParseFailedError, match=r"no pages \(7, 9\)"):
        parse(pdf(BODY), "application/pdf", page_range=[7, 9])


def test_text_is_kept_where_the_layout_loses_it(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_parser, "text_length", lambda _document: 0)
    parsed = parse(pdf(BODY), "application/pdf")
    assert "sentence 11" in parsed.markdown
    assert parsed.warnings == ("the layout was not understood; the text is without structure",)
    assert parsed.document["texts"][0]["prov"][0]["page_no"] == 1


def test_another_reader_of_pdf_may_be_chosen(parse: Parse) -> None:
    parsed = parse(pdf(BODY), "application/pdf", pdf_backend="pypdfium2")
    assert "sentence 11 of a page" in parsed.markdown
    assert not parsed.warnings


def test_pdfium_reads_what_docling_s_own_reader_cannot(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    convert = local_parser._result

    def fail_by_default(path: Path, kind: str, options: ParseOptions) -> Any:
        if options.pdf_backend is None:
            raise ParseFailedError("docling-parse could not load document")
        return convert(path, kind, options)

    monkeypatch.setattr(local_parser, "_result", fail_by_default)
    parsed = parse(pdf(BODY), "application/pdf")
    assert "sentence 11 of a page" in parsed.markdown
    assert not parsed.warnings


def test_a_scanned_page_is_read(parse: Parse) -> None:
    page = scanned("Invoice for the\ndelivery of apples")
    assert "delivery of apples" in " ".join(parse(page, "application/pdf").markdown.split())
    assert "apples" not in parse(page, "application/pdf", ocr_enabled=False).markdown


def test_a_scanned_page_that_is_not_to_be_read_is_told(parse: Parse) -> None:
    parsed = parse(scanned("Nobody asked"), "application/pdf", do_ocr=False)
    assert parsed.markdown == ""
    assert "do_ocr: true" in parsed.warnings[0]


def test_pages_that_are_pictures_are_counted_where_they_are_not_read(parse: Parse) -> None:
    """Also where other pages have text: without a word, half a document would be missing."""
    mixed = joined(pdf(BODY), scanned("Nobody asked"), pdf(BODY))
    parsed = parse(mixed, "application/pdf", do_ocr=False)
    assert "sentence 11" in parsed.markdown
    assert parsed.warnings == (
        "1 of 3 pages hold no text but pictures (2); the parser 'local' with do_ocr: true has them read",
    )
    assert not parse(mixed, "application/pdf").warnings


def test_pages_that_the_file_names_and_does_not_hold_are_told_and_the_others_keep_their_numbers(
    parse: Parse, tmp_path: Path
) -> None:
    """docling's own reader passes over such a page, and would call the second the first."""
    broken = pdf("lost", "Bread needs flour.", "It needs water, too.").replace(b"[3 0 R 5 0 R", b"[99 0 R 5 0 R")
    parsed = parse(broken, "application/pdf")
    assert parsed.markdown.split("\n\n") == ["Bread needs flour.", "It needs water, too."]
    assert [item["prov"][0]["page_no"] for item in parsed.document["texts"]] == [2, 3]
    told = (
        "1 of 3 pages are damaged and were left out (1); get the file again from where it came, and ingest it whole",
    )
    assert parsed.warnings == told
    assert parse_blocking("fast", tmp_path / "3f2a", "application/pdf", ParseOptions()).warnings == told
    assert parse(broken, "application/pdf", page_range=(2, 3)).warnings == ()


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_scan_that_lies_on_its_side_or_head_is_read_upright(parse: Parse, degrees: int) -> None:
    lines = ["Invoice for the delivery", "of seventeen boxes of apples", "to the harbour of Hamburg", "paid in advance"]
    markdown = parse(scanned("\n".join(lines), degrees), "application/pdf").markdown
    assert " ".join(markdown.replace("#", "").split()) == " ".join(lines)


def test_a_page_as_long_as_a_web_page_is_read_in_pieces(parse: Parse) -> None:
    image = Image.new("L", (700, 4_200), 255)
    lines = [f"line {number} of a very long page" for number in range(100, 140)]
    ImageDraw.Draw(image).text((60, 60), "\n".join(lines), fill=0, font=ImageFont.load_default(size=32), spacing=60)
    content = io.BytesIO()
    image.save(content, "PDF", resolution=72)
    found = re.findall(r"line (\d+)", parse(content.getvalue(), "application/pdf").markdown)
    assert found == [line.split()[1] for line in lines]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_picture_is_a_document(parse: Parse, kind: str) -> None:
    image = Image.new("L", (1240, 600), 255)
    ImageDraw.Draw(image).text((80, 120), "Honey from the hive", fill=0, font=ImageFont.load_default(size=64))
    content = io.BytesIO()
    image.save(content, kind)
    parsed = parse(content.getvalue(), f"image/{kind.lower()}")
    assert "Honey from the hive" in parsed.markdown
    assert parsed.pages == 1


def test_a_word_document_has_headings(parse: Parse) -> None:
    parsed = parse(docx("Some text.", heading="Minutes"), WORD)
    assert parsed.title == "Minutes"
    assert labels(parsed) == {"Minutes": "section_header", "Some text.": "text"}


@pytest.mark.parametrize(
    ("content", "mime_type", "expected"),
    [
        (b"# Title\n\nA *word*.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "text/markdown", ("# Title", "|   1 |")),
        ("# Überschrift\n\nText".encode("utf-16"), "text/markdown", ("# Überschrift",)),
        (b"<html><body><h1>Title</h1><p>Text</p></body></html>", "text/html", ("# Title", "Text")),
        (b"name,age\nAda,36\nAlan,41\n", "text/csv", ("| Ada", "41")),
        (b"name\tage\nAda\t36\nAlan\t41\n", "text/tab-separated-values", ("| Ada", "41")),
        (b"= Title\n\n== Section\n\nText\n", "text/asciidoc", ("# Title", "## Section")),
        (TEX, "application/x-tex", ("Title", "Text")),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello there\n", "text/vtt", ("Hello there",)),
        (b"Subject: Greetings\nFrom: ada@example.com\n\nHello there\n", "message/rfc822", ("Greetings", "Hello there")),
        (b"# not a heading\n\nplain_text", "text/plain", ("not a heading", "plain")),
        (b'{"key": "value"}', "application/json", ("```", '{"key": "value"}')),
        (b"<?xml version='1.0'?><menu><dish>Soup</dish></menu>", "application/xml", ("Soup",)),
        (b"\xef\xbb\xbfbom first", "text/plain; charset=utf-8", ("bom first",)),
    ],
)  # fmt: skip
def test_kinds_of_text(parse: Parse, content: bytes, mime_type: str, expected: tuple[str, ...]) -> None:
    markdown = parse(content, mime_type).markdown
    assert [part for part in expected if part not in markdown] == []


def test_a_plain_text_is_no_markdown(parse: Parse) -> None:
    assert labels(parse(b"# not a heading\n\n* nor a list", "text/plain")) == {
        "# not a heading": "paragraph",
        "* nor a list": "paragraph",
    }


def test_a_large_document_of_markup_is_read_as_text(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_parser, "LARGEST_MARKUP", 5)
    parsed = parse(b"# Title\n\nText", "text/markdown")
    assert set(labels(parsed).values()) == {"paragraph"}
    assert parsed.warnings


def test_a_huge_text_is_refused_with_its_size(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT_SIZE_LIMIT", "1MiB")
    with pytest.raises(ParseFailedError, match=r"2\.0 MiB, and TEXT_SIZE_LIMIT allows 1\.0 MiB"):
        parse(b"x" * (2 << 20), "text/plain")


@pytest.mark.parametrize(
    ("content", "mime_type", "advice"),
    [
        (zipped({"a": "b"}), "application/zip", "unpack"),
        (b"ID3", "audio/mpeg", "convert it"),
        (b"\xd0\xcf\x11\xe0", "application/msword", "install LibreOffice"),
    ],
)
def test_what_it_does_not_read_it_says(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, content: bytes, mime_type: str, advice: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnsupportedFormatError, match=advice):
        parse(content, mime_type)


@pytest.mark.parametrize("mime_type", ["application/msword", "application/rtf"])
def test_libreoffice_saves_old_documents_anew(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mime_type: str
) -> None:
    FakeOffice(tmp_path / "office", monkeypatch).saves(docx("An old text.", heading="An old heading"))
    parsed = parse(b"\xd0\xcf\x11\xe0", mime_type)
    assert parsed.markdown == "## An old heading\n\nAn old text."
    assert parsed.document["name"] == "3f2a"


def test_what_libreoffice_cannot_read_is_a_final_failure(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeOffice(tmp_path / "office", monkeypatch).fails()
    with pytest.raises(ParseFailedError, match=r"LibreOffice could not read the Word document.*; open it") as failed:
        parse(b"\xd0\xcf\x11\xe0", "application/msword")
    assert "could not be loaded" in failed.value.__notes__[0]


def test_markup_that_docling_cannot_read_is_read_as_text(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any) -> Any:
        raise ParseFailedError("maximum recursion depth exceeded")

    monkeypatch.setattr(local_parser, "_converted", fail)
    parsed = parse(b"> " * 1000 + b"the bottom", "text/markdown")
    assert "the bottom" in parsed.markdown
    assert "without structure" in parsed.warnings[0]


def test_a_mail_that_docling_cannot_read_is_read_as_text(parse: Parse) -> None:
    nested = b"--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 100
    parsed = parse(b"Subject: Deep\nContent-Type: multipart/mixed; boundary=b\n\n" + nested, "message/rfc822")
    assert "Subject: Deep" in parsed.markdown


def test_a_table_of_too_many_cells_is_read_as_text(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_parser, "MOST_CELLS", 3)
    parsed = parse(b"a,b\n1,2\n", "text/csv")
    assert parsed.document["tables"] == []
    assert parsed.warnings == ("the text is without structure: the document is large",)


def test_a_document_that_docling_cannot_read_gives_its_text_or_fails_for_good(parse: Parse) -> None:
    parsed = parse(zipped({"word/document.xml": "<w:p>cut off half"}), WORD)
    assert (parsed.markdown, len(parsed.warnings)) == ("cut off half", 1)
    with pytest.raises(ParseFailedError, match="could not read the Word document"):
        parse(zipped({"word/document.xml": "<w:p><w:r/>"}), WORD)


def test_converters_are_kept() -> None:
    from soliplex.ingester.lib.parsing.local.converters import converter

    assert converter(ocr=True, force_ocr=False, tables=True) is converter(ocr=True, force_ocr=False, tables=True)


def words_at(rows: Mapping[int, Mapping[int, str]]) -> list[Any]:
    from soliplex.ingester.lib.parsing.local.table_grids import Word

    return [
        Word(text, left, top, left + 6 * len(text), top + 10)
        for top, columns in rows.items()
        for left, text in columns.items()
    ]


def texts(grid: list[list[list[Any]]]) -> list[list[str]]:
    return [[" ".join(word.text for word in cell) for cell in row] for row in grid]


def test_words_in_columns_are_a_table() -> None:
    from soliplex.ingester.lib.parsing.local.table_grids import grid_in

    rows = {
        0: {0: "Fruit", 100: "Spring", 200: "Autumn"},
        15: {0: "Red", 20: "apples", 100: "120", 210: "80"},
        31: {0: "Pears", 210: "95"},
    }
    assert texts(grid_in(words_at(rows), ())) == [
        ["Fruit", "Spring", "Autumn"],
        ["Red apples", "120", "80"],
        ["Pears", "", "95"],
    ]


def test_a_row_across_all_columns_does_not_join_them() -> None:
    from soliplex.ingester.lib.parsing.local.table_grids import grid_in

    rows: dict[int, dict[int, str]] = {0: {0: "x" * 40}}
    rows |= {15 * number: {0: "name", 150: "value"} for number in range(1, 12)}
    grid = texts(grid_in(words_at(rows), ()))
    assert grid[1] == ["name", "value"]
    assert "x" * 40 in grid[0]


def test_no_words_are_no_table() -> None:
    from soliplex.ingester.lib.parsing.local.table_grids import grid_in

    assert grid_in([], ()) == []


BODY_FONT, HEAVY_FONT = "/ABC+Serif", "/ABC+Serif-Bold"


def line(text: str, top: float, *, font: str = BODY_FONT, size: float = 10, left: float = 50) -> Any:
    from docling_core.types.doc.base import BoundingBox

    from soliplex.ingester.lib.parsing.local.lines import Line, Style

    box = BoundingBox(l=left, t=top, r=left + 5 * len(text), b=top + size)
    return Line(text, box, Style(font, size))


def cluster(label: str, *lines: Any) -> Any:
    from docling_core.types.doc.labels import DocItemLabel

    from soliplex.ingester.lib.parsing.local.lines import _cluster

    return _cluster(DocItemLabel(label), lines)


def labelled(clusters: list[Any], lines: list[Any]) -> list[tuple[str, str]]:
    return [
        (each.label.value, " / ".join(line.text for line in lines if line.is_inside(each.bbox))) for each in clusters
    ]


def test_a_heavy_line_above_a_paragraph_is_its_heading() -> None:
    from soliplex.ingester.lib.parsing.local.lines import with_headings

    lines = [line("A heading", 100, font=HEAVY_FONT), *(line("text that goes on and on", 100 + 12 * n) for n in (1, 2))]
    found = with_headings([cluster("text", *lines)], lines)
    assert labelled(found, lines) == [
        ("section_header", "A heading"),
        ("text", "text that goes on and on / text that goes on and on"),
    ]


@pytest.mark.parametrize(
    ("text", "font", "size"),
    [
        ("small print", HEAVY_FONT, 7),
        ("A heavy sentence that ends.", HEAVY_FONT, 10),
        ("123", HEAVY_FONT, 10),
        ("a long line " * 12, HEAVY_FONT, 10),
        ("plain beginning", BODY_FONT, 10),
    ],
)
def test_not_every_first_line_is_a_heading(text: str, font: str, size: float) -> None:
    from soliplex.ingester.lib.parsing.local.lines import with_headings

    first = line(text, 100, font=font, size=size)
    lines = [first, *(line("text that goes on and on and on", 100 + 12 * n) for n in range(1, 9))]
    assert [label for label, _ in labelled(with_headings([cluster("text", *lines)], lines), lines)] == ["text"]


def test_heavy_texts_beside_each_other_are_heads_of_columns() -> None:
    from soliplex.ingester.lib.parsing.local.lines import without_heads_of_columns

    heads = [line("Term", 100, font=HEAVY_FONT), line("Its meaning", 100, font=HEAVY_FONT, left=200)]
    alone = line("A heading", 60, font=HEAVY_FONT)
    lines = [alone, *heads, *(line("text that goes on and on", 100 + 12 * n, left=200) for n in (1, 2, 3))]
    clusters = [cluster("section_header", alone), *(cluster("section_header", head) for head in heads)]
    found = without_heads_of_columns([*clusters, cluster("text", *lines[3:])], lines)
    assert [each.label.value for each in found] == ["section_header", "text", "text", "text"]


def test_a_short_text_that_looks_like_a_heading_of_its_page_is_one() -> None:
    from soliplex.ingester.lib.parsing.local.lines import with_headings

    slanted = "/ABC+Serif-Italic"
    lines = [
        line("Boots", 60, font=slanted),
        line("Laces", 100, font=slanted),
        line("Laced up, and off.", 140, font=slanted),
    ]
    text = [line("text that goes on and on", 160 + 12 * n) for n in range(4)]
    known, like, sentence = lines
    clusters = [
        cluster("section_header", known),
        cluster("text", like),
        cluster("text", sentence),
        cluster("text", *text),
    ]
    labels_found = [each.label.value for each in with_headings(clusters, [*lines, *text])]
    assert labels_found == ["section_header", "section_header", "text", "text"]


def test_heavy_type_is_not_what_other_text_is_measured_by() -> None:
    from soliplex.ingester.lib.parsing.local.lines import body_style

    heavy = [line("text of a form that is heavy", 12.0 * n, font=HEAVY_FONT) for n in range(6)]
    light = [line("what is filled in is not", 12.0 * n, left=300) for n in range(4)]
    for lines, font in (([*heavy, *light], BODY_FONT), ([*heavy, light[0]], HEAVY_FONT)):
        style = body_style([], lines)
        assert style is not None
        assert style.font == font


def test_one_raised_letter_does_not_make_a_line_larger() -> None:
    from soliplex.ingester.lib.parsing.local.lines import _with_usual_size

    words = [line("text", 102, left=50), line("L A TEX", 100, size=13, left=90), line("text", 102, left=140)]
    assert _with_usual_size(line("text LATEX with more text", 100, size=13), words).style.size == 10


def test_a_paragraph_is_no_heading_whatever_the_model_says() -> None:
    from soliplex.ingester.lib.parsing.local.lines import with_headings

    lines = [line("text that goes on and on", 100 + 12 * n) for n in range(4)]
    found = with_headings([cluster("section_header", *lines[:2]), cluster("text", *lines[2:])], lines)
    assert [each.label.value for each in found] == ["text", "text"]


def test_what_is_large_at_the_top_of_a_page_is_a_heading() -> None:
    from soliplex.ingester.lib.parsing.local.lines import with_headings

    chapter, running, text = line("Chapter 3", 20, size=20), line("Chapter 3", 20), line("text that goes on", 80)
    for first, expected in ((chapter, "section_header"), (running, "page_header")):
        found = with_headings([cluster("page_header", first), cluster("text", text)], [first, text])
        assert found[0].label.value == expected


def test_a_narrow_table_is_no_column_of_running_text() -> None:
    from docling_core.types.doc.base import Size

    from soliplex.ingester.lib.parsing.local.layout import _is_column

    paper = Size(width=600, height=800)
    shifts = [line(text, top, left=left) for top in (0, 12, 24) for text, left in (("Monday", 50), ("7:00", 250))]
    running = [line("x" * 40, top) for top in (0, 12, 24, 36)]
    assert not _is_column(cluster("text", *shifts), shifts, paper)
    assert _is_column(cluster("text", *running), running, paper)


@pytest.mark.parametrize(
    ("text", "label"), [("SCOPE", "section_header"), ("2.1 Scope", "section_header"), ("Scope", "text")]
)
def test_a_heavy_line_that_the_model_left_out_is_a_heading_if_it_is_marked_as_one(text: str, label: str) -> None:
    from docling_core.types.doc.base import Size

    from soliplex.ingester.lib.parsing.local.lines import left_out

    body = [line("x" * 60, 240), line("x" * 60, 252), line("x" * 60, 264)]
    heading = line(text, 220, font=HEAVY_FONT)
    (found,) = left_out([cluster("text", *body)], [heading, *body], Size(width=600, height=800))
    assert found.label.value == label


def test_lines_that_the_model_left_out_become_paragraphs() -> None:
    from docling_core.types.doc.base import Size

    from soliplex.ingester.lib.parsing.local.lines import left_out

    seen = [line("what the model saw", 12.0 * n) for n in range(10, 30)]
    orphans = [
        line("Larger than the rest", 400, size=16),
        line("a paragraph of", 450),
        line("two lines", 462),
        line("\u2022 an item", 500),
        line("\u2022 another", 512),
        line("in another column", 450, left=300),
        line("page 7", 780),
    ]
    found = left_out([cluster("text", *seen)], [*seen, *orphans], Size(width=600, height=800))
    assert sorted(labelled(found, orphans)) == sorted(
        [
            ("section_header", "Larger than the rest"),
            ("text", "a paragraph of / two lines"),
            ("list_item", "\u2022 an item"),
            ("list_item", "\u2022 another"),
            ("text", "in another column"),
            ("page_footer", "page 7"),
        ]
    )
