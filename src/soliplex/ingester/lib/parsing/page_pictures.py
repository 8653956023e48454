"""Pictures of pages, to be looked at beside what was read from them: of PDFs, and of documents that are a picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib import pdfium
from soliplex.ingester.lib.parsing.formats import media_type
from soliplex.ingester.lib.validation.errors import is_system_trouble

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SIDE: Final = 1600
"""Pixels: enough to read small print, and no page draws more than three megabytes of them."""


def picture_of_page(path: Path, mime_type: str, number: int) -> bytes | None:
    """A page as PNG, counted from one; None where there is no such page, or nothing that can be drawn."""
    kind = media_type(mime_type)
    try:
        if kind == "application/pdf":
            return _as_png(_of_pdf(path, number))
        if kind.startswith("image/"):
            return _as_png(_of_picture(path, number))
    except Exception as exc:
        if is_system_trouble(exc):
            raise
        # The libraries that draw may raise any error over what strangers wrote: then nothing can be drawn.
    return None


def _as_png(picture: Image | None) -> bytes | None:
    if picture is None:
        return None
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


def _of_pdf(path: Path, number: int) -> Image | None:
    with pdfium.opened(path) as document:
        if number > len(document):
            return None
        page = document[number - 1]
        return page.render(scale=LONGEST_SIDE / max(*page.get_size(), 1)).to_pil().convert("RGB")


def _of_picture(path: Path, number: int) -> Image:
    from PIL import Image  # noqa: PLC0415  only needed here, in a process of its own

    with Image.open(path) as opened:
        opened.seek(number - 1)
        opened.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        return opened.convert("RGB")
