"""What can go wrong when a document is parsed.

Where a `PermanentError` is raised, trying again as it is cannot help. Of the others, `ParserUnavailableError` passes
when a server is back, and `ParserGaveUpError`, a kind of it, may be the document's own fault.
"""

from __future__ import annotations

from enum import StrEnum

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.validation.remedies import GET_AGAIN, advice_for
from soliplex.ingester.lib.wf.errors import PermanentError


class UnsupportedFormatError(PermanentError):
    """The parser does not read this kind of document; says which could, or what would help."""

    def __init__(self, parser: str, mime_type: str, advice: str = "") -> None:
        super().__init__(f"the parser {parser!r} does not read {mime_type}" + (f"; {advice}" if advice else ""))
        self.parser = parser
        self.mime_type = mime_type


class ParseFailedError(PermanentError):
    """The parser gave up on this document. The text is for whoever sent it: what is wrong, and what to do.

    `detail` is what a library said; it stands in the traceback, for whoever looks for the fault in a program.
    """

    def __init__(self, reason: str, *, detail: object = "") -> None:
        super().__init__(reason)
        if detail:
            self.add_note(f"in the reader's words: {detail}")


def unreadable(extension: str, *, reader: str = "the parser", detail: object = "") -> ParseFailedError:
    """A document that a reader could not read, and what a person can do about it, by the kind that it is of."""
    noun, remedy = advice_for(extension)
    problem = f"{reader} could not read the {noun}: it is damaged, or not made as its format demands"
    return ParseFailedError(f"{problem}; {remedy}", detail=detail)


def damaged(what: str, cause: BaseException) -> ParseFailedError:
    """A document of which something is evidently missing or wrong."""
    return ParseFailedError(f"the document is damaged: {what}; {GET_AGAIN}", detail=repr(cause))


def too_much_text(size: int, limit: int) -> ParseFailedError:
    problem = f"the text has {_mebibytes(size)}, and TEXT_SIZE_LIMIT allows {_mebibytes(limit)}"
    return ParseFailedError(f"{problem}; split it into several files, or raise the limit")


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


class Harm(StrEnum):
    """What a document did to the process that read it, as a verb: `the document … the reader`."""

    CRASHED = "crashed"
    STALLED = "stalled"
    FILLED = "filled"
    """The document filled the memory of the process."""


class HarmfulDocumentError(ParseFailedError):
    """Reading the document ended the process that did it; the document stays as it is, and so would the end."""

    def __init__(self, harm: Harm, reason: str) -> None:
        super().__init__(reason)
        self.harm = harm


class OutOfTimeError(HarmfulDocumentError):
    """Reading the document took longer than its step may."""

    def __init__(self, seconds: float) -> None:
        problem = f"the document was not read within the time of its step, {seconds:g} seconds"
        advice = "raise STEP_TIMEOUT_SECONDS or the step's `timeout`, or split the document"
        super().__init__(Harm.STALLED, f"{problem}; {advice}")
        self.seconds = seconds


class ParserMissingError(PermanentError):
    """The parser is not installed; names what to install."""


class ParserUnavailableError(IngesterError):
    """No server parses documents at the moment; one may do so later."""


class ParserGaveUpError(ParserUnavailableError):
    """Processes and servers work, and yet this document came to nothing on them. It may be the document's fault."""
