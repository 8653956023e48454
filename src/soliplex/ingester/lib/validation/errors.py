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
    """Small, and made to fill the memory of whoever unpacks it."""
    UNKNOWN = "unknown"


class InvalidDocumentError(PermanentError):
    """A document that cannot be read, however often it is tried."""

    def __init__(self, defect: Defect, reason: str) -> None:
        super().__init__(reason)
        self.defect = defect
        self.reason = reason
