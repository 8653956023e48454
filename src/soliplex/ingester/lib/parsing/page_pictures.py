"""Pictures of pages, to be looked at beside what was read from them: of PDFs, and of documents that are a picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing.formats import media_type

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SIDE: Final = 1600
"""Pixels: enough to read small print, and no page draws more than three megabytes of them."""


def picture_of_page(path: Path, mime_type: str, number: int) -> bytes | None:
    """A page as PNG, counted from one; None where there is no such page, or nothing that can be drawn."""
    kind = media_type(mime_type)
    if kind == "application/pdf":
        picture = _of_pdf(path, number)
    elif kind.startswith("image/"):
        picture = _of_picture(path, number)
    else:
        picture = None
    if picture is None:
        return None
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


def _of_pdf(path: Path, number: int) -> Image | None:
    try:
        with pdfium.opened(path) as document:
            if number > len(document):
                return None
            page = document[number - 1]
            return page.render(scale=LONGEST_SIDE / max(*page.get_size(), 1)).to_pil().convert("RGB")
    except pdfium.UnreadablePDFError:
        return None


def _of_picture(path: Path, number: int) -> Image | None:
    from PIL import Image  # noqa: PLC0415  only needed here, in a process of its own

    try:
        with Image.open(path) as opened:
            opened.seek(number - 1)
            opened.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
            return opened.convert("RGB")
    except (OSError, EOFError, ValueError, Image.DecompressionBombError):
        return None
