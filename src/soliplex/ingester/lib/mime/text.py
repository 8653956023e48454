"""Kinds of text: told by how they begin, and where many kinds begin alike, by their name."""

from __future__ import annotations

import codecs
import re
from typing import Final

from soliplex.ingester.lib.text_encoding import wide_encoding

PLAIN: Final = "text/plain"

BY_EXTENSION: Final = {
    ".adoc": "text/asciidoc",
    ".asciidoc": "text/asciidoc",
    ".bib": "application/x-bibtex",
    ".css": "text/css",
    ".csv": "text/csv",
    ".dbk": "text/x-docbook",
    ".docbook": "text/x-docbook",
    ".eml": "message/rfc822",
    ".htm": "text/html",
    ".html": "text/html",
    ".ipynb": "application/x-ipynb+json",
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".latex": "application/x-tex",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".mdx": "text/markdown",
    ".mjs": "text/javascript",
    ".nxml": "application/xml",
    ".opml": "text/x-opml",
    ".org": "text/x-org",
    ".py": "text/x-python",
    ".qmd": "text/markdown",
    ".rmd": "text/markdown",
    ".rst": "text/x-rst",
    ".srt": "application/x-subrip",
    ".svg": "image/svg+xml",
    ".tex": "application/x-tex",
    ".toml": "application/toml",
    ".tsv": "text/tab-separated-values",
    ".typ": "text/x-typst",
    ".vtt": "text/vtt",
    ".xhtml": "application/xhtml+xml",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}

_XML_EXTENSIONS: Final = frozenset({".dbk", ".docbook", ".nxml", ".opml", ".xml"})
"""Under these names, a file is XML though it does not begin by saying so."""
_MARKUP: Final = frozenset({".html", ".htm", ".xhtml", ".xml", ".nxml", ".svg"})
# Each comment ends where it first can: else a text of thirty comments could be read in a thousand million ways.
_HTML: Final = re.compile(r"\s*(?:<!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_XML: Final = re.compile(r"\s*<\?xml\b")
_XML_ROOT: Final = re.compile(r"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")
_JSON: Final = re.compile(r'\s*(?:\{\s*(?:"|\})|\[\s*(?:["\[{\]]|-?\d|true|false|null))')
_MAIL: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*:[ \t].*\n(?:[ \t].*\n)*){2,}")
_MAIL_HEADERS: Final = re.compile(
    r"^(?:from|to|subject|date|message-id|received|mime-version):", re.IGNORECASE | re.MULTILINE
)
_BY_BEGINNING: Final = (
    (re.compile(r"WEBVTT(?:\s|$)"), "text/vtt"),
    (re.compile(r"\s*(?:%.*\n\s*)*\\documentclass\b"), "application/x-tex"),
)
_XML_KINDS: Final = {"svg": "image/svg+xml", "html": "application/xhtml+xml", "opml": "text/x-opml"}
_DOCBOOK: Final = re.compile(r"docbook\.org/ns/docbook|DTD DocBook", re.IGNORECASE)
_DOCBOOK_ROOTS: Final = frozenset(
    {"appendix", "article", "book", "chapter", "part", "preface", "refentry", "sect1", "section", "set"}
)
_DOCBOOK_TEXT: Final = re.compile(r"<(?:sim)?para[\s>]")
"""What other kinds of XML with such a root do not have: articles of journals write `<p>`."""
_HIGH: Final = bytes(range(128, 256))
MOST_HIGH: Final = 0.3
_CONTROLS: Final = bytes(sorted(frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b")))


def decode(head: bytes) -> str | None:
    """The beginning of a text; None if it is none. Its last character may be cut in two."""
    if encoding := wide_encoding(head):
        return _decoded(head, encoding)
    if len(head.translate(None, _CONTROLS)) < len(head):
        return None
    text = _decoded(head, "utf-8")
    return text if text is not None else _as_western(head)


def type_of_text(text: str, *, extension: str, declared: str | None) -> str:
    """The kind of a text. A name counts more than what its sender says, and less than what it shows itself to be."""
    if found := _by_content(text, extension):
        return found
    named = BY_EXTENSION.get(extension)
    if named and extension not in _MARKUP:
        return named
    return declared if declared and declared in _DECLARABLE else named or PLAIN


_DECLARABLE: Final = frozenset(BY_EXTENSION.values()) - {"image/svg+xml"}


def _by_content(text: str, extension: str) -> str | None:
    if _XML.match(text) or (extension in _XML_EXTENSIONS and text.lstrip("\ufeff \t\r\n").startswith("<")):
        return _kind_of_xml(text, extension)
    # Markdown may begin with HTML, and so may a template of anything.
    if _HTML.match(text) and BY_EXTENSION.get(extension, "text/html") in {"text/html", "application/xhtml+xml"}:
        return "text/html"
    if extension not in BY_EXTENSION:
        return _unnamed(text)
    return None


def _kind_of_xml(text: str, extension: str) -> str:
    root = _XML_ROOT.search(text)
    name = root[1].lower() if root else ""
    found = _XML_KINDS.get(name)
    is_named = bool(_DOCBOOK.search(text)) or BY_EXTENSION.get(extension) == "text/x-docbook"
    if found is None and (is_named or (name in _DOCBOOK_ROOTS and _DOCBOOK_TEXT.search(text))):
        return "text/x-docbook"
    return found or "application/xml"


def _unnamed(text: str) -> str | None:
    for beginning, kind in _BY_BEGINNING:
        if beginning.match(text):
            return kind
    if _JSON.match(text):
        return "application/json"
    mail = _MAIL.match(text)
    # Two of a mail's own headers: one may stand in any text.
    return "message/rfc822" if mail and len(_MAIL_HEADERS.findall(mail[0])) > 1 else None


def _decoded(head: bytes, encoding: str) -> str | None:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _as_western(head: bytes) -> str | None:
    """Old text files, in one byte a character. Binary data has as many bytes above 127 as below; text does not."""
    high = len(head) - len(head.translate(None, _HIGH))
    return head.decode("cp1252", "replace") if high < len(head) * MOST_HIGH else None
