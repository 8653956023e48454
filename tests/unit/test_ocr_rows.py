"""The order of what OCR finds on a page."""

from __future__ import annotations

from docling_core.types.doc.base import BoundingBox, CoordOrigin
from docling_core.types.doc.page import BoundingRectangle, TextCell

from soliplex.ingester.lib.parsing.local.ocr import in_rows


def piece(text: str, *place: float) -> TextCell:
    box = BoundingBox.from_tuple(place, origin=CoordOrigin.TOPLEFT)
    return TextCell(
        index=0,
        text=text,
        orig=text,
        confidence=1.0,
        from_ocr=True,
        rect=BoundingRectangle.from_bounding_box(box),
    )


def test_pieces_of_a_line_are_read_one_after_the_other_however_high_they_are() -> None:
    found = [
        piece("Invoice of the wombat", 54, 59, 561, 107),
        piece("Total due", 53, 125, 555, 178),
        piece("shop", 561, 40, 686, 120),
        piece("in June", 561, 119, 734, 193),
    ]
    assert [cell.text for cell in in_rows(found)] == ["Invoice of the wombat", "shop", "Total due", "in June"]
