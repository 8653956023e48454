"""Rows of documents whose bytes nobody asks for: uploading them all would take longer than all measures."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import sqlalchemy as sa

from benchmarks.databases import settle
from soliplex.ingester.lib.models import Database

SOURCE: Final = "benchmark"


def uri_of(number: int) -> str:
    return f"/folder/{number % 100}/document-{number}.txt"


def hash_of(number: int) -> str:
    return f"sha256-{sha256(str(number).encode()).hexdigest()}"


async def fill_documents(batch_id: int, count: int) -> None:
    """Put so many documents into the batch."""
    rows = [{"hash": hash_of(number), "uri": uri_of(number), "batch": batch_id} for number in range(count)]
    async with Database.engine().begin() as connection:
        await connection.execute(sa.text(_DOCUMENT), rows)
        await connection.execute(sa.text(_DOCUMENT_URI), rows)
    await settle()


_DOCUMENT: Final = """
INSERT INTO document (hash, mime_type, file_size, doc_meta) VALUES (:hash, 'text/plain', 2000, '{}')
"""
_DOCUMENT_URI: Final = f"""
INSERT INTO documenturi (doc_hash, uri, source, version, batch_id) VALUES (:hash, :uri, '{SOURCE}', 1, :batch)
"""
