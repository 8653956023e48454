"""Documents that only LibreOffice reads: Word, Excel and PowerPoint of before 2007, and RTF."""

from __future__ import annotations

import shutil

from soliplex.ingester.lib.parsing.errors import UnsupportedFormatError

_COMMANDS = ("soffice", "libreoffice")


def require_libreoffice(mime_type: str) -> None:
    """docling calls LibreOffice by itself, and says little where it is missing."""
    if not any(map(shutil.which, _COMMANDS)):
        raise UnsupportedFormatError(
            "local",
            mime_type,
            "install LibreOffice, so that `soffice` is found, or save the document in a format of today",
        )
