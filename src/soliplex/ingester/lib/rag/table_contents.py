"""What the tables of a RAG database hold of each document, and whether that is whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from soliplex.ingester.lib.rag.metadata import Placement, places_of
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.writing import DOC_HASH


@dataclass(frozen=True, slots=True)
class RagContents:
    """By the ids of documents, as the database has them, how many rows each table holds."""

    hashes: Mapping[str, str | None]
    """The hash of the content, by id, of documents with metadata. None: somebody else has put the document there."""
    places: Mapping[str, frozenset[Placement]]
    """Where the documents are said to live, by id, of documents with metadata."""
    metas: Counter[str]
    documents: Counter[str]
    items: frozenset[str]
    chunks: Counter[str]
    doubled: frozenset[str]
    """Documents of which a chunk is there twice."""

    @property
    def ids(self) -> set[str]:
        return {*self.metas, *self.documents, *self.items, *self.chunks}

    def is_whole(self, document_id: str, chunks: int | None = None) -> bool:
        """Whether all tables hold the document, once; with so many chunks, if that is known."""
        return (
            self.metas[document_id] == self.documents[document_id] == 1
            and document_id not in self.doubled
            and chunks in {None, self.chunks[document_id]}
        )


async def contents_of(db_path: str | Path) -> RagContents:
    """Read the keys of all tables. The caller holds the lock: between two commits of a writer, tables differ."""
    async with open_rag(db_path, None, read_only=True) as rag:
        metas = await _columns(rag.store.document_meta_table, "id", "uri", "metadata")
        documents = await _columns(rag.store.documents_table, "id")
        items = await _columns(rag.store.document_items_table, "document_id")
        chunks = await _columns(rag.store.chunks_table, "document_id", "order")
    said = [(row, _metadata(row)) for row in metas.to_pylist()]
    counted = chunks.group_by("document_id").aggregate([("order", "count"), ("order", "count_distinct")]).to_pylist()
    return RagContents(
        hashes={row["id"]: metadata.get(DOC_HASH) for row, metadata in said},
        places={row["id"]: frozenset(places_of(row["uri"], metadata)) for row, metadata in said},
        metas=Counter(metas.column("id").to_pylist()),
        documents=Counter(documents.column("id").to_pylist()),
        items=frozenset(items.column("document_id").unique().to_pylist()),
        chunks=Counter({row["document_id"]: row["order_count"] for row in counted}),
        doubled=frozenset(row["document_id"] for row in counted if row["order_count"] != row["order_count_distinct"]),
    )


async def _columns(table: Any, *names: str) -> Any:
    return await table.query().select(list(names)).to_arrow()


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    try:
        said = json.loads(row["metadata"])
    except ValueError:
        return {}
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}
