"""What can go wrong when a document is parsed. All but the last stay wrong, however often they are tried."""

from __future__ import annotations

from enum import StrEnum

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.wf.errors import PermanentError


class UnsupportedFormatError(PermanentError):
    """The parser does not read this kind of document; says which could, or what would help."""

    def __init__(self, parser: str, mime_type: str, advice: str = "") -> None:
        super().__init__(f"the parser {parser!r} does not read {mime_type}" + (f"; {advice}" if advice else ""))
        self.parser = parser
        self.mime_type = mime_type


class ParseFailedError(PermanentError):
    """The parser gave up on this document."""


class Harm(StrEnum):
    """What a document did to the process that read it, as a verb of which the document is the subject."""

    CRASHED = "crashed"
    STALLED = "stalled"
    FILLED = "filled"
    """Its memory."""


class HarmfulDocumentError(ParseFailedError):
    """Reading the document ended the process that did it; the document stays as it is, and so would the end."""

    def __init__(self, harm: Harm, reason: str) -> None:
        super().__init__(reason)
        self.harm = harm


class ParserMissingError(PermanentError):
    """The parser is not installed; names what to install."""


class ParserUnavailableError(IngesterError):
    """No server parses documents now; later one may."""


class ParserGaveUpError(ParserUnavailableError):
    """The servers work, and yet this document came to nothing on them. It may be the document's fault."""
