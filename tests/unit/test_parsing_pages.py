"""Long documents in parts, and the parts put together again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from docling_core.types.doc.base import BoundingBox, Size
from docling_core.types.doc.common.reference import ProvenanceItem
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.items.table.table_data import TableCell, TableData
from docling_core.types.doc.labels import DocItemLabel
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.parsing import ParseFailedError, ParseOptions, parse_blocking
from soliplex.ingester.lib.parsing.long_documents import count_pages, merged, page_ranges
from soliplex.ingester.lib.parsing.plain_documents import to_parsed
from tests.support.files import pdf

PDF = "application/pdf"


@given(pages=st.integers(1, 5000), per_part=st.integers(1, 300))
def test_ranges_hold_every_page_once_and_are_of_nearly_equal_length(pages: int, per_part: int) -> None:
    ranges = page_ranges(pages, per_part)
    assert [page for first, last in ranges for page in range(first, last + 1)] == list(range(1, pages + 1))
    lengths = [last - first + 1 for first, last in ranges]
    assert max(lengths) <= per_part
    assert max(lengths) - min(lengths) <= 1
    assert len(ranges) == -(-pages // per_part)


def test_no_pages_are_no_parts() -> None:
    assert page_ranges(0, 10) == []


def test_pages_are_counted_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "sha256-00"
    path.write_bytes(pdf("one", "two"))
    assert count_pages(path, PDF) == 2
    assert count_pages(path, "text/plain") is None
    path.write_bytes(b"%PDF-1.4 broken")
    with pytest.raises(ParseFailedError):
        count_pages(path, PDF)


def page_of(number: int) -> DoclingDocument:
    """A page with a heading, a list, a table with its caption, and a page number in its margin."""
    document = DoclingDocument(name="whole")
    document.add_page(page_no=number, size=Size(width=100, height=100))
    place = ProvenanceItem(page_no=number, bbox=BoundingBox(l=0, t=10, r=10, b=0), charspan=(0, 1))
    document.add_heading(f"Heading {number}", prov=place)
    entries = document.add_list_group()
    for text in ("first", "second"):
        document.add_list_item(f"{text} of {number}", parent=entries, prov=place)
    caption = document.add_text(label=DocItemLabel.CAPTION, text=f"Table {number}", prov=place)
    document.add_table(data=table(f"cell {number}"), caption=caption, prov=place)
    document.add_text(label=DocItemLabel.PAGE_FOOTER, text=str(number), prov=place)
    return document


def table(text: str) -> TableData:
    cell = TableCell(
        text=text, start_row_offset_idx=0, end_row_offset_idx=1, start_col_offset_idx=0, end_col_offset_idx=1
    )
    return TableData(table_cells=[cell], num_rows=1, num_cols=1)


def test_parts_are_put_together_with_their_structure() -> None:
    parts = [to_parsed(page_of(number)) for number in (1, 2, 3)]
    whole = merged(parts)
    document = DoclingDocument.model_validate(whole.document)
    assert document.export_to_markdown() == "\n\n".join(part.markdown for part in parts) == whole.markdown
    assert whole.pages == 3
    assert whole.title == "Heading 1"
    assert sorted(document.pages) == [1, 2, 3]
    for number, each in enumerate(document.tables, start=1):
        assert each.caption_text(document) == f"Table {number}"
        assert each.prov[0].page_no == number
    assert [item.self_ref for item in document.texts] == [f"#/texts/{index}" for index in range(len(document.texts))]


def test_the_parts_stay_as_they_were() -> None:
    parts = [to_parsed(page_of(number)) for number in (1, 2)]
    merged(parts)
    assert [part.document for part in parts] == [page_of(number).export_to_dict() for number in (1, 2)]


def test_a_document_in_parts_is_the_document(tmp_path: Path) -> None:
    path = tmp_path / "sha256-00"
    path.write_bytes(pdf(*(f"Page {number} has this text." for number in range(1, 8))))

    def parsed(page_range: tuple[int, int] | None) -> Any:
        return parse_blocking("fast", path, PDF, ParseOptions(page_range=page_range))

    whole, parts = parsed(None), [parsed(page_range) for page_range in page_ranges(7, 3)]
    assert len(parts) == 3
    assert merged(parts) == whole


def test_one_part_is_the_whole() -> None:
    part = to_parsed(page_of(1))
    assert merged([part]) is part
