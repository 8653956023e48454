"""Pictures: they can be opened, and are not larger than anyone could look at."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError
from soliplex.ingester.lib.validation.facts import Facts, tidy

MOST_PIXELS: Final = 200_000_000
"""A page of A0 at 300 dots an inch has 140 million."""
READABLE: Final = frozenset({"image/png", "image/jpeg", "image/tiff", "image/gif", "image/bmp", "image/webp"})


def check_image(path: Path) -> Facts:
    """Width, height and frames. Pixels are decoded, since nothing else shows that none is missing."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  only for these

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our own bound stands; Pillow's warns of less
            with Image.open(path) as image:
                _bound(image.width, image.height)
                image.load()
                frames = getattr(image, "n_frames", 1)
                return tidy({"width": image.width, "height": image.height, "page_count": frames})
    except UnidentifiedImageError as exc:
        raise InvalidDocumentError(Defect.DAMAGED, "the picture is damaged: it cannot be recognised") from exc
    except Image.DecompressionBombError as exc:
        raise _bomb() from exc
    # Pillow's decoders raise whatever they trip over; a cut file is an OSError that says so.
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError) as exc:
        defect = Defect.TRUNCATED if "truncated" in str(exc) else Defect.DAMAGED
        raise InvalidDocumentError(defect, f"the picture is {defect}: {exc}") from exc


def _bound(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise _bomb()


def _bomb() -> InvalidDocumentError:
    return InvalidDocumentError(
        Defect.BOMB, f"the picture is refused: it has more than {MOST_PIXELS // 1_000_000} million pixels"
    )
