"""Why a document is refused."""

from __future__ import annotations

from enum import StrEnum

from soliplex.ingester.lib.wf.errors import PermanentError


class Defect(StrEnum):
    """What is wrong with a document, for programs; the error's text is for people."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    DAMAGED = "damaged"
    ENCRYPTED = "encrypted"
    BOMB = "bomb"
    """An archive that is small, and made to fill the memory of whoever unpacks it."""
    UNKNOWN = "unknown"


class InvalidDocumentError(PermanentError):
    """A document that cannot be read, however often it is tried. The text says why, and what a person can do."""

    def __init__(self, defect: Defect, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.defect = defect
        self.problem = problem
        self.remedy = remedy


def is_system_trouble(exc: Exception) -> bool:
    """Whether an error of a library is this machine's and not the document's: no memory, no disk, no such file.

    What the system refuses has a number. A library that raises OSError for a file that it cannot make out gives none.
    """
    return isinstance(exc, MemoryError) or (isinstance(exc, OSError) and exc.errno is not None)
