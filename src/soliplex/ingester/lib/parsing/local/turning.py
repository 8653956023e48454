"""Scanned pages that lie on their side or on their head.

The detector of lines tells whether lines run across the page or along it. Which end is up, reading tells: a few lines
are read as they are and on their head, and the recogniser is surer of what is text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

LOOKED_AT: Final = 1_000
"""Pixels of the longer side in which lines are looked for: that there is one is seen in few."""
LINES: Final = 12
"""The longest are looked at."""
READ: Final = 4
FEWEST: Final = 3
MOST_LINES: Final = 2 / 3
SURER: Final = 0.1
"""A page is turned if its lines are read with so much more confidence then, between 0 and 1."""
_UPRIGHT: Final = 1.5
"""A line is so many times as long as it is high."""


def turn_of(image: Image, reader: Any) -> int:
    """Degrees by which the picture must be turned, against the clock, to be read: 0, 90, 180 or 270."""
    lines = _longest_lines(image, reader)
    along = [line for line in lines if line[3] - line[1] > _UPRIGHT * (line[2] - line[0])]
    across = [line for line in lines if line[2] - line[0] > _UPRIGHT * (line[3] - line[1])]
    is_on_side = len(along) > len(across)
    chosen = along if is_on_side else across
    if len(chosen) < FEWEST or len(chosen) < MOST_LINES * len(lines):
        return 0
    pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]
    texts = [_line(pixels, box, is_on_side=is_on_side) for box in chosen[:READ]]
    gain = sum(_confidence(line[::-1, ::-1], reader) - _confidence(line, reader) for line in texts) / len(texts)
    # A page on its side is turned one way or the other; one that stands, only for a reason.
    is_on_head = gain > (0 if is_on_side else SURER)
    return (90 if is_on_side else 0) + (180 if is_on_head else 0)


def _longest_lines(image: Image, reader: Any) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of the longest lines, in pixels of the picture."""
    small = image.convert("RGB")
    small.thumbnail((LOOKED_AT, LOOKED_AT))
    found = reader(np.asarray(small)[:, :, ::-1], use_det=True, use_cls=False, use_rec=False)
    if found.boxes is None:
        return []
    share = image.width / small.width
    boxes = [_around(np.asarray(box) * share) for box in found.boxes]
    return sorted(boxes, key=lambda box: min(box[0] - box[2], box[1] - box[3]))[:LINES]


def _around(corners: NDArray[Any]) -> tuple[int, int, int, int]:
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return max(0, int(left)), max(0, int(top)), int(right) + 1, int(bottom) + 1


def _line(pixels: NDArray[Any], box: Sequence[int], *, is_on_side: bool) -> NDArray[Any]:
    left, top, right, bottom = box
    line = pixels[top:bottom, left:right]
    # Against the clock, as the picture is turned: what runs downwards stands upright then.
    return np.rot90(line) if is_on_side else line


def _confidence(line: NDArray[Any], reader: Any) -> float:
    """How sure the recogniser is of a line; not at all where it reads nothing."""
    found = reader(np.ascontiguousarray(line), use_det=False, use_cls=False, use_rec=True)
    return float(found.scores[0]) if found.scores else 0.0
