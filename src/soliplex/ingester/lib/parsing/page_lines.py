"""Where on a page PDFium sees text: lines with their places, for pages that something is missing of."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from soliplex.ingester.lib.parsing.right_to_left import HAS_LEFTWARDS, in_reading_order

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

WIDE_GAP: Final = 2.0
"""A gap of so many times a letter's height begins another column or cell."""
MOST_LETTERS: Final = 200_000


class Box(NamedTuple):
    """A rectangle on a page, in points from the bottom left."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def around(self, other: Box) -> Box:
        return Box(
            min(self.left, other.left),
            min(self.bottom, other.bottom),
            max(self.right, other.right),
            max(self.top, other.top),
        )

    def holds(self, other: Box) -> bool:
        """Whether the middle of the other lies in this one."""
        x, y = (other.left + other.right) / 2, (other.bottom + other.top) / 2
        return self.left <= x <= self.right and self.bottom <= y <= self.top

    def is_beside(self, other: Box) -> bool:
        """Whether a line down the page could cross both."""
        return min(self.right, other.right) > max(self.left, other.left)


class Line(NamedTuple):
    """Letters that stand beside each other."""

    text: str
    box: Box


def lines_of(page: PdfPage) -> list[Line]:
    """The lines of a page in the order of PDFium's text. Those outside the page's bounds are left out."""
    bounds, rotation = Box(*page.get_bbox()), page.get_rotation()
    return [Line(line.text, as_shown(line.box, bounds, rotation)) for line in _lines(page, bounds)]


def as_shown(box: Box, bounds: Box, rotation: int) -> Box:
    """The place on the page as it is looked at: turned, and counted from the corner of what is shown."""
    width, height = bounds.right - bounds.left, bounds.top - bounds.bottom
    left, right = box.left - bounds.left, box.right - bounds.left
    bottom, top = box.bottom - bounds.bottom, box.top - bounds.bottom
    match rotation:
        case 90:
            return Box(bottom, width - right, top, width - left)
        case 180:
            return Box(width - right, height - top, width - left, height - bottom)
        case 270:
            return Box(height - top, left, height - bottom, right)
        case _:
            return Box(left, bottom, right, top)


def _lines(page: PdfPage, bounds: Box) -> list[Line]:
    found: list[Line] = []
    text, box = "", None
    for letter, place in _letters(page):
        if letter in "\r\n" or (box is not None and place is not None and _is_far(box, place)):
            found += _line(text, box, bounds)
            text, box = "", None
        if letter not in "\r\n":
            text += letter
        if place is not None:
            box = place if box is None else box.around(place)
    return [*found, *_line(text, box, bounds)]


def _line(text: str, box: Box | None, bounds: Box) -> Iterator[Line]:
    if box is not None and text.strip() and bounds.holds(box):
        yield Line(text.strip(), box)


def _is_far(before: Box, place: Box) -> bool:
    height = max(before.top - before.bottom, place.top - place.bottom, 4.0)
    # Upright text has a box that is high and narrow, and its letters come above each other: that is no gap.
    gap = max(place.left - before.right, before.left - place.right)
    return gap > WIDE_GAP * height


def text_of(page: PdfPage) -> str:
    """The text within the page's bounds."""
    text: str = page.get_textpage().get_text_bounded()
    if len(text) > MOST_LETTERS or not HAS_LEFTWARDS.search(text):
        return text
    bounds = Box(*page.get_bbox())
    return "".join(letter for letter, place in _letters(page) if place is None or bounds.holds(place))


def _letters(page: PdfPage) -> Iterator[tuple[str, Box | None]]:
    return in_reading_order(_letters_as_found(page))


def _letters_as_found(page: PdfPage) -> Iterator[tuple[str, Box | None]]:
    import pypdfium2.raw as pdfium  # noqa: PLC0415  loads a library of its own

    text = page.get_textpage()
    handle: Any = text.raw
    edges = [ctypes.c_double() for _ in range(4)]
    left, right, bottom, top = edges
    for number in range(min(text.count_chars(), MOST_LETTERS)):
        code = pdfium.FPDFText_GetUnicode(handle, number)
        letter = chr(code) if 0 < code <= 0x10FFFF else ""  # noqa: PLR2004  the last of Unicode
        if not letter or letter.isspace() or letter == "\x02":
            yield letter, None
            continue
        has_place = pdfium.FPDFText_GetCharBox(handle, number, *map(ctypes.byref, (left, right, bottom, top)))
        yield letter, Box(left.value, bottom.value, right.value, top.value) if has_place else None
