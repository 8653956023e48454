"""The errors of the storage layer; the whole tree is drawn in `lib/errors.py`."""

from __future__ import annotations

from soliplex.ingester.lib.errors import IngesterError


class StorageError(IngesterError):
    """Base of the storage layer's errors."""


class InvalidKeyError(StorageError):
    """A key that no store accepts: it would leave the store's folder, or hide in it."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key!r} is not a key: write names joined by /, none of them empty or beginning with a dot")
        self.key = key


class DocumentTooLargeError(StorageError):
    """The document holds more bytes than it may."""

    def __init__(self, limit: int, message: str | None = None) -> None:
        super().__init__(message or f"the document is larger than {limit} bytes, the most that is accepted")
        self.limit = limit


class NoRoomError(DocumentTooLargeError):
    """The document is within its limit, but the disk could not hold it."""

    def __init__(self, room: int) -> None:
        super().__init__(room, f"the document does not fit: the disk has room for {room} more bytes; make room on it")


class StoreUnavailableError(StorageError):
    """The store cannot do now what was asked; trying again may help."""

    def __init__(self, store: str, problem: str) -> None:
        super().__init__(f"the {store} store does not work: {problem}")
        self.store = store
        self.problem = problem


class DamagedBlobError(StorageError):
    """What is stored is not what was stored."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} is damaged: {problem}")
        self.key = key
        self.problem = problem
