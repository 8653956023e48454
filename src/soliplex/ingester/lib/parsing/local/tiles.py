"""Pictures of pages in sizes that models can read: how large a page is drawn, and where it is cut.

OCR shrinks what is longer than two thousand pixels, and the layout model squeezes every page to the shape of A4. Of a
plan of a square metre, or of a web page that was printed on one sheet, nothing legible would be left. Such pages are
cut where nothing is printed, between two lines, and the pieces are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS: Final = 16_000_000
"""Of a picture that is made of a page to read it: a page of A4 at 400 dots an inch."""
LONGEST_UNCUT: Final = 3_100
"""Pixels. A page of A4 at three pixels a point is shorter, and read as well when OCR shrinks it to two thirds."""
TILE: Final = 2_000
"""Pixels of a side that OCR does not shrink."""
NEAR: Final = 0.3
"""Share of a tile's side within which the emptiest place is looked for."""
LONG: Final = 2.0
"""So many times as high as wide, a page is looked at piece by piece."""
A4: Final = 1.41

type Pixels = NDArray[np.uint8]
type Rectangle = tuple[int, int, int, int]


def bounded_scale(width: float, height: float, wanted: float, most: int = MOST_PIXELS) -> float:
    """Pixels a point, as many as are wanted, or fewer where the page would have too many."""
    area = width * height
    return wanted if area <= 0 else min(wanted, (most / area) ** 0.5)


def reading_tiles(image: Image) -> list[Rectangle]:
    """Left, top, right and bottom of the pieces that are read: the whole where it is not too long."""
    width, height = image.size
    if max(width, height) <= LONGEST_UNCUT:
        return [(0, 0, width, height)]
    pixels = np.asarray(image.convert("L"))
    return [
        (left, top, right, bottom)
        for top, bottom in _pieces(_busy(pixels, axis=1), TILE)
        for left, right in _pieces(_busy(pixels[top:bottom], axis=0), TILE)
    ]


def looking_slices(image: Image) -> list[tuple[int, int]]:
    """Top and bottom of the pieces of a long page, each about as high as a page is wide; one for a usual page."""
    width, height = image.size
    if height <= width * LONG:
        return [(0, height)]
    return _pieces(_busy(np.asarray(image.convert("L")), axis=1), max(1, int(width * A4)))


def _busy(pixels: Pixels, *, axis: int) -> NDArray[Any]:
    """How much the pixels of each row, or of each column, differ from their neighbours: of an empty one not at all."""
    return np.abs(np.diff(pixels.astype(np.int16), axis=axis)).sum(axis=axis, dtype=np.int64)


def _pieces(busy: NDArray[Any], length: int) -> list[tuple[int, int]]:
    """Cut a side into pieces that are no longer than that, each time at the emptiest place near the end of a piece."""
    cuts = [0]
    while len(busy) - cuts[-1] > length:
        last = cuts[-1] + length
        first = last - max(1, int(length * NEAR))
        cuts.append(first + _middle_of_emptiest(busy[first:last]))
    return list(zip(cuts, [*cuts[1:], len(busy)], strict=True))


def _middle_of_emptiest(busy: NDArray[Any]) -> int:
    """The middle of the last run of places where least is printed: as far as can be from the lines beside it."""
    places: Sequence[int] = np.flatnonzero(busy == busy.min()).tolist()
    first = last = places[-1]
    for place in reversed(places):
        if first - place > 1:
            break
        first = place
    return (first + last) // 2 + 1 if first < last else last
