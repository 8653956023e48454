"""Writing documents into a RAG database: many in one commit, each in the place of what the database held of it.

A document's id in the database follows from the hash of its content, so writing it again replaces it, and a commit that
a crash cut short is put right by writing it once more. What is searched is the table of chunks, and that changes in one
commit: no search finds the old and the new chunks of a document together, or neither. The rows that say whose chunks
these are come before, and go after. What is written here, the stock `haiku-rag` command can read.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from soliplex.ingester.lib.rag.indexes import tend_indexes
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity, imported, open_rag

DOC_HASH: Final = "doc_hash"
"""The key in the metadata of a RAG document under which the hash of its content stands."""
_IDS: Final = UUID("5a1d5f0e-6c0b-4b0e-9f5a-3c1f2b7a9d10")


@dataclass(frozen=True, slots=True, kw_only=True)
class RagChunk:
    """A piece of a document, with its vector."""

    id: str
    content: str
    order: int
    embedding: Sequence[float]
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """doc_item_refs, headings, labels, page_numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRagDocument:
    """A document as it is to be found by search."""

    doc_hash: str
    uri: str
    title: str | None
    document: dict[str, Any]
    """As docling's JSON."""
    chunks: Sequence[RagChunk]
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        return rag_id(self.doc_hash)


class Placement(NamedTuple):
    """Where a document lives."""

    uri: str
    source: str
    batch_id: int | None


@lru_cache(maxsize=4096)
def rag_id(doc_hash: str) -> str:
    """The id in a RAG database of the document with this content."""
    return str(uuid5(_IDS, doc_hash))


async def write_documents(
    db_path: str | Path,
    identity: EmbeddingIdentity,
    documents: Sequence[NewRagDocument],
    *,
    gone: Sequence[str] = (),
    moved: Mapping[str, Placement] | None = None,
) -> None:
    """Write the documents, and delete those whose hashes are in `gone`, in one commit. The caller holds the lock.

    Of those in `moved`, which stay, the database may still say that they live where one of the new documents lives now.
    """
    if not documents and not gone:
        return
    async with open_rag(db_path, identity, create=True) as rag:
        rows = await asyncio.to_thread(_Rows, rag, documents)
        async with rag.store.write_transaction():
            there = await _existing(rag.store, [*rows.documents, *map(rag_id, gone)])
            leaving = sorted(there - rows.documents.keys())
            await _add(rag.store, rows, [each for each in rows.documents if each not in there])
            await _replace(rag, rows, [each for each in rows.documents if each in there])
            await _move(rag.store, {rag_id(doc_hash): place for doc_hash, place in (moved or {}).items()})
            await _switch_chunks(rag, rows, sorted(there))
            await _delete(rag, leaving)
            await _ensure_indexes(rag.store)
        await tend_indexes(rag.store)


async def delete_documents(db_path: str | Path, doc_hashes: Sequence[str]) -> int:
    """Delete what the database holds of these documents; gives how many it did hold. The caller holds its lock."""
    async with open_rag(db_path, None) as rag:
        there = await _existing(rag.store, [rag_id(doc_hash) for doc_hash in doc_hashes])
        if there:
            async with rag.store.write_transaction():
                await rag.chunk_repository.delete_by_document_ids(sorted(there))
                await _delete(rag, sorted(there))
    return len(there)


class _Rows:
    """The rows of the tables, by the id of their document. Making them takes time: not on the loop."""

    def __init__(self, rag: Any, documents: Sequence[NewRagDocument]) -> None:
        models = importlib.import_module("haiku.rag.store.models.document")
        items = importlib.import_module("haiku.rag.store.models.document_item")
        docling = importlib.import_module("docling_core.types.doc")
        now = datetime.now(UTC).isoformat()
        self.documents: dict[str, Any] = {}
        self.metas: dict[str, Any] = {}
        self.chunks: dict[str, list[Any]] = {}
        self.items: dict[str, list[Any]] = {}
        for each in documents:
            parsed = docling.DoclingDocument.model_validate(each.document)
            document = models.Document(
                content=parsed.export_to_markdown(),
                uri=each.uri,
                title=each.title,
                metadata={**each.metadata, DOC_HASH: each.doc_hash},
            )
            document.set_docling(parsed)
            repository = rag.document_repository
            self.documents[each.id] = repository._to_documents_record(document, each.id)  # noqa: SLF001  as its own `create` does
            self.metas[each.id] = repository._to_meta_record(document, each.id, now, now)  # noqa: SLF001
            self.chunks[each.id] = [_chunk_row(rag.store, each.id, chunk) for chunk in each.chunks]
            self.items[each.id] = [
                rag.document_item_repository._to_record(each.id, item)  # noqa: SLF001
                for item in items.extract_items(each.id, parsed)
            ]

    def of(self, rows: dict[str, list[Any]], ids: Sequence[str]) -> list[Any]:
        return [row for document_id in ids for row in rows[document_id]]


def _chunk_row(store: Any, document_id: str, chunk: RagChunk) -> Any:
    headings = chunk.metadata.get("headings") or []
    return store.ChunkRecord(
        id=str(uuid5(_IDS, f"{document_id} {chunk.id}")),  # the same passage may stand in several documents
        document_id=document_id,
        content=chunk.content,
        content_fts="\n".join([*headings, chunk.content]),
        metadata=json.dumps(chunk.metadata),
        order=chunk.order,
        vector=list(chunk.embedding),
    )


async def _existing(store: Any, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    found = await store.document_meta_table.query().select(["id"]).where(_among("id", ids)).to_list()
    return {row["id"] for row in found}


async def _add(store: Any, rows: _Rows, ids: Sequence[str]) -> None:
    """Insert documents that are not there, all but their chunks."""
    if ids:
        await store.document_meta_table.add([rows.metas[document_id] for document_id in ids])
        await store.documents_table.add([rows.documents[document_id] for document_id in ids])
        await _add_items(store, rows, ids)


async def _replace(rag: Any, rows: _Rows, ids: Sequence[str]) -> None:
    """Put new rows in the place of those of documents that are there, all but their chunks."""
    if not ids:
        return
    for table, records in ((rag.store.documents_table, rows.documents), (rag.store.document_meta_table, rows.metas)):
        merge = table.merge_insert("id").when_matched_update_all().use_index(False)  # noqa: FBT003  its own signature
        await merge.execute([records[document_id] for document_id in ids])
    await rag.document_item_repository.delete_by_document_ids(ids)
    await _add_items(rag.store, rows, ids)


async def _move(store: Any, moved: Mapping[str, Placement]) -> None:
    """Say of documents that are there where they live now."""
    if not moved:
        return
    found = await store.document_meta_table.query().where(_among("id", list(moved))).to_list()
    stale = [_moved(row, moved[row["id"]]) for row in found if row["uri"] != moved[row["id"]].uri]
    if stale:
        merge = store.document_meta_table.merge_insert("id").when_matched_update_all()
        await merge.use_index(False).execute(stale)  # noqa: FBT003  its own signature


def _moved(row: dict[str, Any], place: Placement) -> dict[str, Any]:
    metadata = {**json.loads(row["metadata"]), "source": place.source, "batch_id": place.batch_id}
    return {**row, "uri": place.uri, "metadata": json.dumps(metadata)}


async def _switch_chunks(rag: Any, rows: _Rows, there: Sequence[str]) -> None:
    """Put all new chunks in the place of all that these documents have: in one commit, so that nobody sees a mixture.

    The merge reads the whole table, a second for some hundred thousand chunks. Adding and deleting would read little,
    but in two commits: so it is only done where something is there.
    """
    chunks = rows.of(rows.chunks, list(rows.chunks))
    if not there:
        if chunks:
            await rag.store.chunks_table.add(chunks)
    elif chunks:
        merge = rag.store.chunks_table.merge_insert(["document_id", "order"])
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        await merge.when_not_matched_by_source_delete(_among("document_id", there)).execute(chunks)
    else:
        await rag.chunk_repository.delete_by_document_ids(there)


async def _add_items(store: Any, rows: _Rows, ids: Sequence[str]) -> None:
    if items := rows.of(rows.items, ids):
        await store.document_items_table.add(items)


async def _delete(rag: Any, ids: Sequence[str]) -> None:
    """Delete documents whose chunks are gone. Their metadata goes last: by it, what a crash left is found again."""
    if ids:
        await rag.document_item_repository.delete_by_document_ids(ids)
        await rag.store.documents_table.delete(_among("id", ids))
        await rag.store.document_meta_table.delete(_among("id", ids))


async def _ensure_indexes(store: Any) -> None:
    schema = await imported("haiku.rag.store.schema")
    await schema.ensure_indexes(store.chunks_table, "chunks")


def _among(column: str, ids: Sequence[str]) -> str:
    # Ids are UUIDs made here: nothing in them needs an escape.
    return "{} IN ({})".format(column, ", ".join(f"'{each}'" for each in ids))
