"""Looking up a chunk by its id.

A chunk has two ids. In the artifact `chunks`, and in a hit as `chunk_id`, it is named after what it says: documents
that hold the same passage below the same headings share it. Its row in a RAG database has an id of its own, made from
that and the document; by it, or by the document's hash with the first, a row is found by index. The first alone is
looked for in all rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.rag.metadata import places_of
from soliplex.ingester.lib.rag.readers import Reader, read
from soliplex.ingester.lib.rag.scopes import like, quoted
from soliplex.ingester.lib.rag.searching import HitPlace, documents_of, hit_places, sources_of
from soliplex.ingester.lib.rag.writing import CHUNK_ID, DOC_HASH, rag_chunk_id, rag_id

MOST_DOCUMENTS: Final = 100
_COLUMNS: Final = ("id", "document_id", "content", "metadata", "order")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOfDocument:
    """Where a chunk stands in one of the documents that hold it."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012  for the OpenAPI document

    rag_chunk_id: str
    """The id of its row in the RAG database."""
    doc_hash: str | None
    title: str | None
    uri: str | None
    """Where the document lives: of its places, the one that came last."""
    source: str | None
    sources: list[str]
    places: list[HitPlace]
    """All places where the document lives."""
    order: int
    """Its number among the chunks of the document, from 0."""
    page_numbers: list[int]
    doc_item_refs: list[str]
    """What it was made of, as JSON pointers into the document's artifact `parsed_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A passage as it is stored for search, and the documents that hold it."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    chunk_id: str
    """The id in the artifact `chunks` of each of these documents, and in hits."""
    content: str
    """The whole text, with its line breaks."""
    headings: list[str]
    documents: list[ChunkOfDocument]
    """The documents that hold the passage, at most 100."""


async def find_chunk(db_path: str | Path, chunk_id: str, doc_hash: str | None = None) -> StoredChunk | None:
    """The chunk with this id, of all documents or of one; None where there is none."""
    return await read(db_path, partial(_find, chunk_id=chunk_id, doc_hash=doc_hash))


async def _find(reader: Reader, *, chunk_id: str, doc_hash: str | None) -> StoredChunk | None:
    rows = await _rows(reader, f"id IN ({quoted(_row_ids(chunk_id, doc_hash))})")
    if not rows and doc_hash is None:
        said = like(f"{json.dumps(CHUNK_ID)}: {json.dumps(chunk_id)}")
        found = await _rows(reader, f"metadata LIKE '%{said}%' ESCAPE '\\'")
        # What looks like it may stand inside of another value.
        rows = [row for row in found if json.loads(row["metadata"]).get(CHUNK_ID) == chunk_id]
    documents = await documents_of(reader, {row["document_id"] for row in rows})
    standing = [_standing(row, documents[row["document_id"]]) for row in rows if row["document_id"] in documents]
    if doc_hash is not None:
        standing = [each for each in standing if each.doc_hash == doc_hash]
    if not standing:
        return None
    about = json.loads(rows[0]["metadata"])
    return StoredChunk(
        chunk_id=about.get(CHUNK_ID) or chunk_id,
        content=rows[0]["content"],
        headings=about.get("headings") or [],
        documents=standing,
    )


def _row_ids(chunk_id: str, doc_hash: str | None) -> list[str]:
    return [chunk_id] if doc_hash is None else [chunk_id, rag_chunk_id(rag_id(doc_hash), chunk_id)]


async def _rows(reader: Reader, condition: str) -> Sequence[Mapping[str, Any]]:
    query = reader.chunks.query().select(list(_COLUMNS)).where(condition).limit(MOST_DOCUMENTS)
    rows: list[dict[str, Any]] = await query.to_list()
    return sorted(rows, key=lambda row: row["id"])


def _standing(row: Mapping[str, Any], document: Mapping[str, Any]) -> ChunkOfDocument:
    stands, about = json.loads(row["metadata"]), json.loads(document["metadata"])
    places = places_of(document["uri"], about)
    return ChunkOfDocument(
        rag_chunk_id=row["id"],
        doc_hash=about.get(DOC_HASH),
        title=document["title"],
        uri=places[0].uri,
        source=places[0].source,
        sources=sources_of(places),
        places=hit_places(places),
        order=row["order"],
        page_numbers=stands.get("page_numbers") or [],
        doc_item_refs=stands.get("doc_item_refs") or [],
    )
