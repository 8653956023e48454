"""The pages of a document as pictures. What draws them reads what strangers wrote: so it does that apart."""

from __future__ import annotations

from typing import Final

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.operations.apart import run_apart
from soliplex.ingester.lib.operations.documents import document_info
from soliplex.ingester.lib.storage import get_artifacts

_DRAWN: Final = "soliplex.ingester.lib.parsing.page_pictures.picture_of_page"


async def picture_of_page(doc_hash: str, number: int) -> bytes:
    """A page as PNG, counted from one."""
    found = await document_info(doc_hash)
    async with get_artifacts().document_file(doc_hash) as path:
        page = {"path": path, "mime_type": found.document.mime_type, "number": number}
        picture = await run_apart(f"drawing page {number} of {doc_hash}", _DRAWN, page)
    if not isinstance(picture, bytes):
        raise NotFoundError("picture of page", number)
    return picture
