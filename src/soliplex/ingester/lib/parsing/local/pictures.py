"""Pictures of more pixels than it takes to read them.

The models make several copies of a picture in memory, one of them enlarged. A plan of a square metre, scanned as a page
is, has sixteen times the pixels of a page; at a fraction of them its text is read as well.

Kinds that docling does not know, Pillow reads: a copy in one that it knows goes on.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.validation.image import allow_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS_READ: Final = 16_000_000
"""A page of A4 at 400 dots an inch has 15 million. OCR makes nine of each, several times."""
SCALED_DOWN: Final = "the picture was scaled down to be read; very small print in it may be missing"


@contextmanager
def within_bounds(path: Path, *, is_known: bool = True) -> Generator[tuple[Path, bool]]:
    """The picture, or a copy of it as TIFF; and whether that has fewer pixels. One of a kind not known is copied."""
    from PIL import Image as Pillow  # noqa: PLC0415  only for pictures
    from PIL import ImageSequence  # noqa: PLC0415

    allow_pixels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, on pictures that are large
        with Pillow.open(path) as image:
            share = MOST_PIXELS_READ / max(1, image.width * image.height)
            is_scaled = share < 1
            if is_known and not is_scaled:
                yield path, False
                return
            size = (int(image.width * share**0.5), int(image.height * share**0.5)) if is_scaled else image.size
            frames = [_scaled(frame, size) for frame in ImageSequence.Iterator(image)]
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        copy = Path(folder) / path.name
        frames[0].save(copy, "TIFF", save_all=True, append_images=frames[1:])
        yield copy, is_scaled


def _scaled(frame: Image, size: tuple[int, int]) -> Image:
    frame.draft("RGB", size)  # what a JPEG can leave out, it never unpacks
    scaled = frame.convert("RGB") if frame.mode not in {"L", "RGB"} else frame.copy()
    scaled.thumbnail(size)
    return scaled
