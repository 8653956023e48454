"""Parsing without its libraries: options, paragraphs, tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.parsing import (
    ParseOptions,
    UnsupportedFormatError,
    chosen_parser_name,
    parse_blocking,
    parser_named,
    parser_names,
)
from soliplex.ingester.lib.parsing.formats import extension_for, is_text, media_type
from soliplex.ingester.lib.parsing.office_text import html_paragraphs, xml_paragraphs
from soliplex.ingester.lib.parsing.parsed_files import ParsedFiles, write_files
from soliplex.ingester.lib.parsing.pdf_text import pages_within, paragraphs_of
from soliplex.ingester.lib.parsing.plain_text import LONGEST_PARAGRAPH, paragraphs, source_parts
from soliplex.ingester.lib.parsing.readable import why_unread
from soliplex.ingester.lib.parsing.results import Parsed
from soliplex.ingester.lib.parsing.serve.serve_tasks import fields_of
from soliplex.ingester.lib.step_options import InvalidStepOptionError


def test_old_parameter_sets_are_understood() -> None:
    options = ParseOptions.read({"format": "markdown", "ocr_enabled": False})
    assert not options.ocr
    assert ParseOptions.read({}).ocr
    assert ParseOptions.read({"do_ocr": False, "force_ocr": True}).ocr


def test_parameters_of_docling_serve_are_understood() -> None:
    options = ParseOptions.read(
        {
            "do_ocr": True,
            "force_ocr": False,
            "ocr_engine": "easyocr",
            "ocr_lang": "en, de",
            "pdf_backend": "dlparse_v4",
            "table_mode": "accurate",
            "do_picture_description": False,
        }
    )
    assert options.ocr_lang == ("en", "de")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ocr": True}, "parse.ocr: there is no such parameter"),
        ({"do_orc": True}, "did you mean 'do_ocr'"),
        ({"do_ocr": True, "ocr_enabled": False}, "mean the same"),
        ({"page_range": [0, 5]}, "parse.page_range: .*counted from 1"),
        ({"page_range": [5, 4]}, "counted from 1"),
        ({"table_mode": "slow"}, "parse.table_mode"),
        ({"parser": "pymupdf"}, "parse.parser"),
    ],
)
def test_a_wrong_parameter_is_named(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidStepOptionError, match=complaint):
        ParseOptions.read(given)


def test_options_become_the_fields_of_a_form() -> None:
    options = ParseOptions.read(
        {
            "ocr_enabled": False,
            "ocr_lang": ["en", "de"],
            "page_range": [3, 7],
            "docling_options": {"images_scale": 2.0, "picture_description_api": {"url": "x"}},
        }
    )
    fields = fields_of(options)
    assert fields["to_formats"] == ["json", "md"]
    assert fields["do_ocr"] == "false"
    assert fields["ocr_lang"] == ["en", "de"]
    assert fields["page_range"] == ["3", "7"]
    assert fields["images_scale"] == "2.0"
    assert fields["picture_description_api"] == '{"url": "x"}'
    assert "ocr_engine" not in fields
    assert not {"parser", "format", "pages_per_part"} & fields.keys()


def test_parsers_are_found_by_name() -> None:
    assert parser_names() == ("local", "docling-serve", "fast")
    assert parser_named("fast").name == "fast"
    with pytest.raises(InvalidStepOptionError, match="did you mean 'local'"):
        parser_named("locale")


def test_docling_serve_parses_where_it_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_parser_name(ParseOptions()) == "local"
    with pytest.raises(ConfigurationError, match="DOCLING_SERVER_URL"):
        parser_named("docling-serve")
    monkeypatch.setenv("DOCLING_SERVER_URL", "http://one:5001/v1/, http://two:5001/v1")
    get_settings.cache_clear()
    assert get_settings().docling_server_url == ("http://one:5001/v1", "http://two:5001/v1")
    assert chosen_parser_name(ParseOptions()) == "docling-serve"
    assert chosen_parser_name(ParseOptions(parser="fast")) == "fast"
    assert parser_named("docling-serve").name == "docling-serve"


def test_lines_of_a_page_become_paragraphs() -> None:
    text = (
        "A line that goes on and is bro-\r\nken at its end, to be read as one.\r\nShort end.\r\n"
        "A new paragraph of some length,\r\n\r\nAfter a gap."
    )
    assert paragraphs_of(text) == [
        "A line that goes on and is bro\u00adken at its end, to be read as one. Short end.",
        "A new paragraph of some length,",
        "After a gap.",
    ]


@pytest.mark.parametrize(
    ("count", "page_range", "expected"),
    [(3, None, [1, 2, 3]), (3, (2, 9), [2, 3]), (3, (5, 9), [])],
)
def test_pages_of_a_range(count: int, page_range: tuple[int, int] | None, expected: list[int]) -> None:
    assert list(pages_within(count, page_range)) == expected


def test_empty_lines_part_paragraphs() -> None:
    assert list(paragraphs("one\nstill one\n\n \t\ntwo\n")) == ["one\nstill one", "two"]


def test_a_text_without_an_empty_line_is_cut_at_lines() -> None:
    text = "\n".join(f"line {number}" for number in range(10_000))
    parts = list(source_parts(text))
    assert max(map(len, parts)) <= LONGEST_PARAGRAPH
    assert "\n".join(parts) == text


def test_a_text_without_any_break_is_cut_anywhere() -> None:
    assert [len(part) for part in paragraphs("x" * (2 * LONGEST_PARAGRAPH + 1))] == [LONGEST_PARAGRAPH] * 2 + [1]


def test_html_without_its_tags() -> None:
    page = (
        "<html><head><title>no</title><style>p{}</style></head><body><h1>A &amp; B</h1><p>one <b>two</b>"
        "<p>three<script>x()</script>"
    )
    assert html_paragraphs(page) == ["A & B", "one two", "three"]


def test_a_comment_that_never_ends_hides_the_rest() -> None:
    assert html_paragraphs("<p>before</p>" + "<!--" * 100_000) == ["before"]


def test_xml_without_its_tags() -> None:
    assert xml_paragraphs("<?xml version='1.0'?><a><b>one &lt; two</b> <c/>three</a>") == ["one < two", "three"]


@pytest.mark.parametrize(
    ("mime_type", "extension", "text"),
    [
        ("application/pdf", ".pdf", False),
        ("text/markdown; charset=utf-8", ".md", True),
        ("application/xml", ".xml", True),
        ("application/json", ".txt", True),
        ("text/x-unheard-of", ".txt", True),
        ("application/msword", ".doc", False),
    ],
)
def test_kinds_have_extensions(mime_type: str, extension: str, text: bool) -> None:
    kind = media_type(mime_type)
    assert (extension_for(kind), is_text(kind)) == (extension, text)


@pytest.mark.parametrize("kind", ["video/mp4", "application/zip", "application/x-executable", "audio/mpeg"])
def test_a_kind_that_is_said_to_be_unread_is_refused_by_the_parsers(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    for parser in ("local", "fast"):
        assert why_unread(parser, kind) == f"no parser reads {kind}"
        with pytest.raises(UnsupportedFormatError):
            parse_blocking(parser, path, kind, ParseOptions())


def test_a_kind_that_another_parser_reads_names_the_one_that_does_not() -> None:
    assert why_unread("fast", "image/png") == "the parser 'fast' does not read image/png"
    assert why_unread("local", "image/png") is why_unread("docling-serve", "image/png") is None
    assert why_unread("docling-serve", "application/msword") is None
    assert "of no known kind" in (why_unread("local", "application/octet-stream") or "")
    for kind in ("text/plain; charset=utf-8", "application/json", "application/pdf"):
        assert why_unread("local", kind) is why_unread("fast", kind) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a wa\u00adter\u00adfall in aban\u00addoned light\u00adhouses", "a waterfall in abandoned lighthouses"),
        ("on 2024\u00ad05\u00ad01, pages 10\u00ad20", "on 2024-05-01, pages 10-20"),
        ("get\u200bElement\u2060By\ufeffId", "getElementById"),
        ("\u0e44\u0e17\u0e22\u200b\u0e01\u0e32", "\u0e44\u0e17\u0e22\u200b\u0e01\u0e32"),
        ("caf\u00e9 \u200b", "caf\u00e9 \u200b"),
    ],
)
def test_words_are_kept_whole_where_only_an_invisible_character_parts_them(text: str, expected: str) -> None:
    parsed = Parsed(markdown=text, document={"texts": [{"text": text}]}, title=text)
    about = write_files(parsed, ParsedFiles(Path("unused"), Path("unused")), in_hand=10_000)
    assert about.contents is not None
    assert about.contents.markdown.decode() == about.title == expected
    assert json.loads(about.contents.document) == {"texts": [{"text": expected}]}
