"""Pictures: they can be opened, and are not larger than anyone could look at."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError, is_system_trouble
from soliplex.ingester.lib.validation.facts import Facts, tidy
from soliplex.ingester.lib.validation.remedies import GET_AGAIN

MOST_PIXELS: Final = 200_000_000
"""Most pixels of a picture: a page of A0 at 300 dots an inch has 140 million."""
READABLE: Final = frozenset(
    {
        *("image/png", "image/jpeg", "image/tiff", "image/gif", "image/bmp", "image/webp", "image/avif", "image/jpx"),
        *("image/x-portable-bitmap", "image/x-portable-graymap", "image/x-portable-pixmap"),
    }
)


def allow_pixels() -> None:
    """Let Pillow, whoever calls it, open pictures of up to MOST_PIXELS.

    Pillow refuses pictures of more than twice its own bound, which is too low for large plans.
    """
    from PIL import Image  # noqa: PLC0415  only for these

    Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2


def check_image(path: Path) -> Facts:
    """Give width, height and number of frames. The pixels are decoded: nothing else shows that none is missing."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  only for these

    allow_pixels()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our own bound stands; Pillow's warns of less
            with Image.open(path) as image:
                _bound(image.width, image.height)
                image.load()
                frames = getattr(image, "n_frames", 1)
                return tidy({"width": image.width, "height": image.height, "page_count": frames})
    except UnidentifiedImageError as exc:
        raise InvalidDocumentError(
            Defect.DAMAGED, "the picture is damaged: it cannot be recognised", GET_AGAIN
        ) from exc
    except Image.DecompressionBombError as exc:
        raise _bomb() from exc
    # Pillow's decoders raise whatever they trip over; a cut file is an OSError that says so.
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError) as exc:
        if is_system_trouble(exc):
            raise
        raise _damaged(is_cut_off="truncated" in str(exc)) from exc


def _damaged(*, is_cut_off: bool) -> InvalidDocumentError:
    if is_cut_off:
        return InvalidDocumentError(Defect.TRUNCATED, "the picture is truncated: its end is missing", GET_AGAIN)
    return InvalidDocumentError(Defect.DAMAGED, "the picture is damaged: not all of it can be decoded", GET_AGAIN)


def _bound(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise _bomb()


def _bomb() -> InvalidDocumentError:
    return InvalidDocumentError(
        Defect.BOMB,
        f"the picture is refused: it has more than {MOST_PIXELS // 1_000_000} million pixels",
        "scale it down, or cut it into pieces, and ingest those",
    )
