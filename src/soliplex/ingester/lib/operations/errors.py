"""The errors of documents; the whole tree is drawn in `lib/errors.py`."""

from __future__ import annotations

from soliplex.ingester.lib.errors import ConflictError, NotFoundError


class DocumentURINotFoundError(NotFoundError):
    """No document lives at this URI of this source."""

    def __init__(self, uri: str, source: str) -> None:
        super().__init__("document URI", uri)
        self.args = (f"document URI {uri!r} of source {source!r} does not exist",)
        self.uri = uri
        self.source = source


class BeingRemovedError(ConflictError):
    """The bytes of this document are being removed at this moment: what is kept now might go with them."""

    def __init__(self, doc_hash: str) -> None:
        super().__init__(f"document {doc_hash} is being removed from storage: send it again in a moment")
        self.doc_hash = doc_hash
