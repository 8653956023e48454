"""PDFium, which may be used by one thread at a time.

It is C++ reading what strangers wrote: it can crash and it can hang. What uses it belongs in a process of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soliplex.ingester.lib.errors import IngesterError

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

LOCK: Final = threading.RLock()
"""Held by whoever is inside PDFium, also through other libraries: it keeps state that all its documents share."""
_ERROR_PASSWORD: Final = 4
_ENCRYPTION: Final = b"/Encrypt"
_BLOCK: Final = 1 << 20


class UnreadablePDFError(IngesterError):
    """PDFium cannot open the file; `needs_password` tells whether a password would help."""

    def __init__(self, detail: str, *, needs_password: bool) -> None:
        super().__init__(f"the PDF cannot be opened: {detail}")
        self.needs_password = needs_password


@contextmanager
def opened(path: Path) -> Generator[PdfDocument]:
    """The document, while the lock is held."""
    import pypdfium2  # noqa: PLC0415  loads a library of its own

    with LOCK:
        try:
            document = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as exc:
            raise UnreadablePDFError(str(exc), needs_password=_is_locked(exc, path)) from exc
        try:
            yield document
        finally:
            document.close()


def _is_locked(error: Any, path: Path) -> bool:
    # PDFium sets no error for a document without pages, so the code may be that of an earlier document.
    return getattr(error, "err_code", None) == _ERROR_PASSWORD and _mentions_encryption(path)


def _mentions_encryption(path: Path) -> bool:
    tail = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if _ENCRYPTION in tail + block:
                return True
            tail = block[-len(_ENCRYPTION) :]
    return False
