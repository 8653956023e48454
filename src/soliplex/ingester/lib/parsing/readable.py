"""Which kinds a parser reads, without loading it. `tests/unit/test_parsing.py` holds it to what the parsers do."""

from __future__ import annotations

from soliplex.ingester.lib.mime import UNKNOWN
from soliplex.ingester.lib.parsing.errors import UnsupportedFormatError
from soliplex.ingester.lib.parsing.formats import (
    IMAGES,
    LEGACY,
    MAIL,
    OTHER_IMAGES,
    STRUCTURED,
    extension_for,
    is_text,
    media_type,
)
from soliplex.ingester.lib.parsing.local import legacy
from soliplex.ingester.lib.parsing.office_text import OFFICE


def why_unread(parser: str, mime_type: str) -> str | None:
    """Why the parser does not read documents of this kind; None if it does."""
    kind = media_type(mime_type)
    if kind == UNKNOWN:
        return "of no known kind: neither text, nor with the signature of a known format"
    if parser == "local" and kind in LEGACY:
        try:
            legacy.command_for(kind)
        except UnsupportedFormatError as error:
            return str(error)
        return None
    if is_text(kind) or _reads(parser, kind):
        return None
    return f"no parser reads {kind}" if not _reads("local", kind) else f"the parser {parser!r} does not read {kind}"


def _reads(parser: str, kind: str) -> bool:
    if parser == "fast":
        return kind in {"application/pdf", MAIL} or extension_for(kind) in OFFICE
    if kind in OTHER_IMAGES:
        return parser == "local"
    return kind in STRUCTURED or kind in IMAGES or kind in LEGACY
