"""The errors of documents; the whole tree is drawn in `lib/errors.py`."""

from __future__ import annotations

from soliplex.ingester.lib.errors import ConflictError, NotFoundError


class BeingRemovedError(ConflictError):
    """The bytes of this document are being removed at this moment: what is kept now might go with them."""

    def __init__(self, doc_hash: str) -> None:
        super().__init__(f"document {doc_hash} is being removed from storage: send it again in a moment")
        self.doc_hash = doc_hash


class VersionNotFoundError(NotFoundError):
    """The URI never had such a version."""

    def __init__(self, uri: str, version: int, newest: int) -> None:
        super().__init__("version", version)
        versions = "only version 1" if newest == 1 else f"versions 1 to {newest}"
        self.args = (f"version {version} of {uri!r} does not exist: it has had {versions}",)
        self.uri = uri
        self.version = version
        self.newest = newest


class VersionGoneError(ConflictError):
    """The version was there once, but not enough of it is stored any more for what was asked."""

    def __init__(self, uri: str, version: int, reason: str) -> None:
        super().__init__(f"version {version} of {uri!r} is no longer stored: {reason}")
        self.uri = uri
        self.version = version


class NotParsedError(ConflictError):
    """A version of which there is no text can neither be read nor be compared with another."""

    def __init__(self, uri: str, version: int, reason: str) -> None:
        super().__init__(f"version {version} of {uri!r} has no text: {reason}")
        self.uri = uri
        self.version = version
