"""docling's ways to put lines together to texts, and texts to a document; but for hyphens at the ends of lines.

docling drops each of these. Here it leaves a mark, and the whole document tells which were part of a word. Lines that
run from right to left are brought into their order first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, override

from docling.datamodel.document import ConversionResult
from docling.models.stages.page_assemble.page_assemble_model import PageAssembleModel
from docling.models.stages.reading_order.readingorder_model import ReadingOrderModel
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.items.table.table_data import TableCell
from docling_core.types.doc.items.text import TextItem

from soliplex.ingester.lib.parsing.line_ends import DIVIDED, mended, with_mark
from soliplex.ingester.lib.parsing.right_to_left import as_read


class LinesToTexts(PageAssembleModel):
    """Puts the lines of a paragraph together."""

    @override
    def sanitize_text(self, lines: list[str]) -> str:
        read = [as_read(line) for line in lines]
        marked = [*(with_mark(line, after) for line, after in pairwise(read)), *read[-1:]]
        return super().sanitize_text(marked).replace(f"{DIVIDED} ", DIVIDED)


class TextsToDocument(ReadingOrderModel):
    """Puts texts into their order, those together that a column or a page cuts, and settles the hyphens."""

    @override
    def _merge_elements(self, element: Any, merged_elem: Any, new_item: Any, page_height: float) -> None:
        marked = with_mark(new_item.text, merged_elem.text.lstrip()[:1])
        if marked.endswith(DIVIDED) and merged_elem.text.lstrip()[:1].islower():
            # docling drops one mark, as it does where a soft hyphen ends the text: the other stays.
            new_item.text, new_item.orig = marked + DIVIDED, marked + DIVIDED
        super()._merge_elements(element, merged_elem, new_item, page_height)

    @override
    def __call__(self, conv_res: ConversionResult, *, time_budget_s: float | None = None) -> DoclingDocument:
        document = super().__call__(conv_res, time_budget_s=time_budget_s)
        mend(document)
        return document


def mend(document: DoclingDocument) -> None:
    """Take the marks out of all texts and cells of the document."""
    holders = list(_holders(document))
    for holder, text in zip(holders, mended([holder.text for holder in holders]), strict=True):
        if text != holder.text:
            _put(holder, text)


def _holders(document: DoclingDocument) -> Iterator[TextItem | TableCell]:
    yield from document.texts
    for table in document.tables:
        yield from table.data.table_cells


def _put(holder: TextItem | TableCell, text: str) -> None:
    if isinstance(holder, TextItem):
        holder.orig = text
        for place in holder.prov:
            first, last = place.charspan
            place.charspan = _moved(first, holder.text, text), _moved(last, holder.text, text)
    holder.text = text


def _moved(place: int, before: str, after: str) -> int:
    """Where a place of the text is, now that some of the marks before it are gone."""
    gone = 0
    for at, letter in enumerate(before[:place]):
        if letter == DIVIDED and after[at - gone : at - gone + 1] not in {"-", DIVIDED}:
            gone += 1
    return place - gone
