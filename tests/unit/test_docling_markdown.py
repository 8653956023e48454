"""Markdown as docling writes it, also of texts that were made to keep docling busy."""

from __future__ import annotations

import re

from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.labels import DocItemLabel
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.docling_markdown import escape_underscores, markdown_of

PICTURE = re.compile(r"!\[.*?\]\(.*?\)")
"""As docling looks for them."""


def as_docling_does(text: str) -> str:
    kept, others = PICTURE.findall(text), PICTURE.split(text)
    escaped = [re.sub(r"(?<!\\)_", r"\\_", other) for other in others]
    return "".join(part for pair in zip(escaped, [*kept, ""], strict=True) for part in pair)


@given(st.text(alphabet="![]()_\\\na", max_size=40))
def test_what_is_escaped_is_what_docling_escapes(text: str) -> None:
    assert escape_underscores(text) == as_docling_does(text)


def test_a_text_that_begins_pictures_and_ends_none_is_written() -> None:
    """docling's own search would take a day for it, during which no thread of the process goes on."""
    document = DoclingDocument(name="endless")
    text = "![a_b](" * 30_000
    document.add_text(label=DocItemLabel.PARAGRAPH, text=text)
    assert markdown_of(document) == text.replace("_", r"\_")
