"""What is in the text layer of a PDF reaches Markdown and chunks, whatever the layout model takes it for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.documents import exports
from soliplex.ingester.lib.chunking import chunk
from soliplex.ingester.lib.parsing import Parsed, ParseOptions, parser_named
from soliplex.ingester.lib.parsing.fast import FastParser
from soliplex.ingester.lib.parsing.local import LocalParser, local_parser
from tests.support.files import pdf

EXPORTS = Path(exports.__file__).parent
BODY = "\n".join(f"This is sentence {number} of a page that is long enough to be a paragraph." for number in range(12))


def parse(path: Path, **options: Any) -> Parsed:
    parser = parser_named("local")
    assert isinstance(parser, LocalParser)
    return parser.parse_blocking(path, mime_type="application/pdf", options=ParseOptions.read(options))


def chunked(parsed: Parsed) -> str:
    found = chunk(parsed.document, parsed.markdown)
    return " ".join(" ".join([*each.metadata.headings, each.content]) for each in found)


def relabel(monkeypatch: pytest.MonkeyPatch, **labels: str) -> None:
    """Make the layout model mistake one kind of region for another, as it does with other pages."""
    from docling_core.types.doc.labels import DocItemLabel

    from soliplex.ingester.lib.parsing.local import layout

    mistaken = {**layout._LABELS, **{name: DocItemLabel(label) for name, label in labels.items()}}
    monkeypatch.setattr(layout, "_LABELS", mistaken)
    monkeypatch.setattr(layout, "MOST_OF_TEXT", 1.0)
    monkeypatch.setattr(layout, "TEXT_IN_FIGURE", 1000)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("slides_with_points", "What comes next"),
        ("letter_with_header_and_footer", "14 March 2024"),
        ("certificate", "Guild of founders, seal 118, Bergen"),
        ("headers_that_change", "Docket Cottrell: hearing adjourned"),
        ("sheet_of_texts", "Page 1"),
        ("invoice", "IBAN SE45 5000 0000 0583 9825 7466"),
        ("footnotes", "Compare the survey of 1841, sheet nineteen"),
        ("rotated_margin_note", "Plan of the yard"),
    ],
)
def test_what_stands_in_a_margin_is_kept(name: str, words: str) -> None:
    parsed = parse(EXPORTS / f"{name}.pdf")
    assert words in " ".join(parsed.markdown.split())
    assert words in " ".join(chunked(parsed).split())
    assert parsed.coverage is not None
    assert parsed.coverage.missing == 0


def test_a_header_that_repeats_stands_there_once_and_is_not_missing() -> None:
    parsed = parse(EXPORTS / "report_of_many_pages.pdf")
    assert parsed.markdown.count("Annual report of the harbour office") == 1
    assert parsed.markdown.count("Page") == 1
    assert parsed.coverage is not None
    assert (parsed.coverage.missing, parsed.coverage.repeated) == (0, 40)


def test_a_first_paragraph_taken_for_a_header_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    relabel(monkeypatch, text="page_header")
    parsed = parse(EXPORTS / "one_lone_paragraph.pdf")
    text = (EXPORTS / "one_lone_paragraph.txt").read_text("utf-8").strip()
    assert text in parsed.markdown
    assert text in chunked(parsed)
    assert {item["content_layer"] for item in parsed.document["texts"]} == {"body"}


def test_a_small_table_taken_for_a_picture_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    relabel(monkeypatch, text="picture", table="picture")
    parsed = parse(EXPORTS / "small_table_alone.pdf")
    assert "| Quinces | 7 | 31 |" in " ".join(parsed.markdown.split())
    assert "| Quinces | 7 | 31 |" in chunked(parsed)
    assert parsed.document["pictures"] == []


def test_text_inside_a_picture_is_text_below_it_and_cites_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    relabel(monkeypatch, text="picture")
    parsed = parse(EXPORTS / "one_lone_paragraph.pdf")
    text = (EXPORTS / "one_lone_paragraph.txt").read_text("utf-8").strip()
    assert text in " ".join(parsed.markdown.split())
    found = [each for each in chunk(parsed.document, parsed.markdown) if text in " ".join(each.content.split())]
    assert [each.metadata.page_numbers for each in found] == [[1]]
    shown = [item for item in parsed.document["texts"] if item["parent"]["$ref"] == "#/body"]
    assert shown[0]["prov"][0]["bbox"] == parsed.document["pictures"][0]["prov"][0]["bbox"]


def test_letters_that_docling_cannot_read_are_read_by_pdfium(monkeypatch: pytest.MonkeyPatch) -> None:
    convert = local_parser._converted_pdf

    def with_unread_letters(*arguments: Any) -> Any:
        document, is_partial = convert(*arguments)
        for item in document.texts:
            item.text = item.orig = "\ufffd" * len(item.text)
        return document, is_partial

    monkeypatch.setattr(local_parser, "_converted_pdf", with_unread_letters)
    monkeypatch.setattr(local_parser, "FAR_LESS", 0.0)
    parsed = parse(EXPORTS / "headings_and_text.pdf")
    assert "\ufffd" not in parsed.markdown
    assert "## Membership" in parsed.markdown
    assert parsed.coverage is not None
    assert parsed.coverage.missing == 0


def test_lines_that_are_nowhere_are_put_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    convert = local_parser._converted_pdf

    def without_a_section(*arguments: Any) -> Any:
        document: Any
        document, is_partial = convert(*arguments)
        lost = [item for item in document.texts if "Membership" in item.text or "Repairs to the northern" in item.text]
        document.delete_items(node_items=lost[:1])
        return document, is_partial

    monkeypatch.setattr(local_parser, "_converted_pdf", without_a_section)
    parsed = parse(EXPORTS / "headings_and_text.pdf")
    assert parsed.markdown.index("Statutes") < parsed.markdown.index("Membership") < parsed.markdown.index("Dues")
    item = next(item for item in parsed.document["texts"] if item["text"] == "Membership")
    assert item["prov"][0]["page_no"] == 1
    assert item["prov"][0]["bbox"]["t"] - item["prov"][0]["bbox"]["b"] < 30
    assert parsed.coverage is not None
    assert (parsed.coverage.missing, parsed.coverage.restored) == (0, 1)


def test_a_page_that_is_to_be_read_as_a_picture_is_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes(pdf(BODY))
    assert parse(path, force_ocr=True).coverage is None


def test_the_fast_way_tells_its_coverage(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes(pdf(BODY, BODY))
    parsed = FastParser().parse_blocking(path, mime_type="application/pdf", options=ParseOptions())
    assert parsed.coverage is not None
    assert parsed.coverage.share == 1.0
    assert parsed.coverage.words > 200


@pytest.mark.parametrize("parser", [LocalParser(), FastParser()])
def test_a_hyphen_at_the_end_of_a_line_stays_if_the_document_writes_the_word_with_it(
    tmp_path: Path, parser: LocalParser | FastParser
) -> None:
    lines = BODY.split("\n")
    ends = (
        "The measure is well-\nknown and was taken twice for all of the experi-\nments of the years 2019-\n2020 here."
    )
    path = tmp_path / "page"
    path.write_bytes(pdf("\n".join([*lines[:4], "A well-known measure is a good one for most of us here.", ends])))
    parsed = parser.parse_blocking(path, mime_type="application/pdf", options=ParseOptions())
    text = " ".join(parsed.markdown.split())
    assert "is well-known and was taken twice for all of the experiments of the years 2019-2020 here." in text
    assert parsed.coverage is not None
    assert parsed.coverage.missing == 0
