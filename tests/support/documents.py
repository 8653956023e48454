"""Uploading, and looking at what is stored, as the tests of documents do it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import Any

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.operations.recording import Uploaded
from soliplex.ingester.lib.operations.uploading import NewDocument

SOURCE = "files"


def hash_of(content: bytes) -> str:
    return f"sha256-{sha256(content).hexdigest()}"


async def pieces(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


async def upload(
    uri: str, content: bytes, batch_id: int, *, source: str = SOURCE, meta: dict[str, Any] | None = None
) -> Uploaded:
    new = NewDocument(uri=uri, source=source, batch_id=batch_id, mime_type="text/plain", meta=meta or {})
    return await documents.upload_document(pieces(content), new)


async def new_batch(name: str = "Tuesday", source: str = SOURCE) -> int:
    return await documents.create_batch(source, name)


async def uploaded(batch_id: int, *uris: str) -> Sequence[Uploaded]:
    """Upload a document of its own for each URI."""
    return [await upload(uri, f"content of {uri}".encode(), batch_id) for uri in uris]
