"""Markdown of documentation sites: what is said about a page is not text of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from soliplex.ingester.lib.markdown_source import LONGEST_MATTER, page_text, read_source
from soliplex.ingester.lib.validation.checking import validate_blocking

PAGES: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "Hugo, YAML": (
        (
            "---\ntitle: 'Install: the short way'\ndescription: >-\n  How to\n  install.\ntags: [a, b]\n"
            "date: 2024-05-01\n---\nText.\n"
        ),
        {"title": "Install: the short way", "description": "How to install.", "tags": ["a", "b"], "date": "2024-05-01"},
        "Text.\n",
    ),
    "Hugo, TOML": (
        '+++\ntitle = "Install"\ndate = 2024-05-01T10:00:00Z\n[taxonomies]\ntags = ["a"]\n+++\n\nText.\n',
        {"title": "Install", "date": "2024-05-01T10:00:00+00:00", "tags": ["a"]},
        "\nText.\n",
    ),
    "Hugo, JSON": (
        '{\n  "title": "Install",\n  "tags": ["a"]\n}\n\nText.',
        {"title": "Install", "tags": ["a"]},
        "\n\nText.",
    ),
    "Jekyll": (
        '---\nlayout: post\ntitle:  "It\'s out"\ntags: news release\n---\n{:toc}\n\nText.\n{: .note }\n',
        {"title": "It's out", "tags": ["news", "release"]},
        "\nText.\n",
    ),
    "Docusaurus": (
        "---\nid: intro\n---\n\n# Intro to `x` {#intro}\n\n{/* hidden */}\nText.\n",
        {},
        "\n# Intro to `x`\n\nText.\n",
    ),
    "MDN": (
        '---\ntitle: "<br>: The Line Break element"\nslug: Web/HTML\n---\n\nText {{jsxref("Array")}}.\n',
        {"title": "<br>: The Line Break element"},
        '\nText {{jsxref("Array")}}.\n',
    ),
    "MkDocs": (
        "Title: Install\nAuthors: A\n         B\n\nInstall { #install }\n===\n",
        {"title": "Install"},
        "Install\n===\n",
    ),
    "a value that YAML cannot read": (
        "---\ntitle: Errors: what they mean\ntags:\n  - a\n---\nText.",
        {"title": "Errors: what they mean", "front_matter_error": "ScannerError: it is read line by line"},
        "Text.",
    ),
    "none": ("# Title\n\nText.\n", {}, "# Title\n\nText.\n"),
    "lines across the page": ("---\nA sentence.\n\n---\n\nText.\n", {}, "---\nA sentence.\n\n---\n\nText.\n"),
    "no end": ("---\ntitle: x\n\nText.\n", {}, "---\ntitle: x\n\nText.\n"),
}


@pytest.mark.parametrize("page", PAGES)
def test_front_matter_is_told_and_is_no_text(page: str) -> None:
    markdown, facts, text = PAGES[page]
    assert read_source(markdown).facts() == facts
    assert page_text(markdown) == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("a <!-- b --> c", "a  c"),
        ("a\n<!--\nb\n-->\nc", "a\n\nc"),
        ("<!-- no end\n\nText {#not-a-heading}", "<!-- no end\n\nText {#not-a-heading}"),
        ("`<!-- b -->` and \\<!-- c", "`<!-- b -->` and \\<!-- c"),
        ("```html\n<!-- b -->\n# x {#y}\n```\n## A {#a} ##", "```html\n<!-- b -->\n# x {#y}\n```\n## A ##"),
        ('## <a name="a"></a>A', "## A"),
        ("    <!-- code -->", "    <!-- code -->"),
    ],
)
def test_comments_and_anchors_are_no_text_and_code_keeps_them(markdown: str, text: str) -> None:
    assert page_text(markdown) == text


def test_lines_of_dashes_far_apart_are_no_front_matter() -> None:
    markdown = "---\n" + "key: value\n" * (LONGEST_MATTER // 10) + "---\nText."
    assert read_source(markdown).text == markdown


@pytest.mark.parametrize("unit", ["<!--", "{/*", "`", "`a``", "[]{#", "---\n", "# {#a\n", "a: [\n"])
def test_text_made_to_be_slow_is_read_in_a_moment(unit: str) -> None:
    """Where time grew with the square of the length, this would take hours."""
    assert page_text("---\n" + unit * 200_000) != ""


def test_validation_tells_what_a_page_says_about_itself(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes("\ufeff---\r\ntitle: Größe\r\ntags: [a]\r\n---\r\nText.\r\n".encode())
    found = validate_blocking(path, name="page.md", mime_type=None)
    assert (found.mime_type, found.facts["title"], found.facts["tags"]) == ("text/markdown", "Größe", ["a"])
