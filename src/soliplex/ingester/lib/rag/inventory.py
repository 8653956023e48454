"""What RAG databases there are, and what is in them. Reads only: no lock is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.rag.database_files import all_databases
from soliplex.ingester.lib.rag.filters import as_sql
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.opening import haiku_config, imported, location, open_rag
from soliplex.ingester.lib.rag.upkeep import is_absent

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


@dataclass(frozen=True, slots=True)
class RagDatabase:
    """A database below LANCEDB_DIR, and how much room it takes."""

    name: str
    path: str
    size_bytes: int
    size_human: str


@dataclass(frozen=True, slots=True)
class RagTable:
    """A table of a RAG database."""

    count: int = 0
    size_bytes: int = 0
    size_human: str = "0 B"
    versions: int = 0


@dataclass(frozen=True, slots=True)
class RagInfo:
    """What a RAG database holds, and what wrote it."""

    path: str
    versions: dict[str, str]
    embeddings: dict[str, Any]
    vector_index: dict[str, Any]
    documents: RagTable
    chunks: RagTable
    tables: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class RagDocument:
    """A document as it is stored for search, without its text."""

    id: str | None
    uri: str | None
    title: str | None
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RagDocuments:
    """Some documents of a database, and how many fit the filter in all."""

    path: str
    document_count: int
    documents: Sequence[RagDocument]


def human_size(size: float) -> str:
    unit = 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


async def list_databases() -> list[RagDatabase]:
    """The databases below LANCEDB_DIR, by name."""
    files = all_databases()
    sizes = {name: await files.size(name) for name in await files.names()}
    return [RagDatabase(name, rag_path(name), size, human_size(size)) for name, size in sizes.items()]


async def existing_path(name: str) -> str:
    """Where the database of this name lives; raises where there is none."""
    path = rag_path(name)
    if await is_absent(path):
        raise NotFoundError("RAG database", name)
    return path


async def database_info(name: str) -> RagInfo:
    path = await existing_path(name)
    reading = await imported("haiku.rag.store.info")
    info = await reading.gather_database_info(location(path), await haiku_config(path))
    if not info.exists:
        raise NotFoundError("RAG database", name)
    tables = {table.name: table for table in info.tables if table.exists}
    return RagInfo(
        path=path,
        versions={
            "lancedb": info.packages.get("lancedb", "unknown"),
            "haiku_rag": info.packages.get("haiku_rag", "unknown"),
            "stored_version": info.stored_version,
        },
        embeddings={
            "provider": info.embeddings.provider,
            "model": info.embeddings.name,
            "vector_dim": info.embeddings.vector_dim,
        },
        vector_index=info.vector_index.model_dump(),
        documents=_table(tables.get("documents")),
        chunks=_table(tables.get("chunks")),
        tables=sorted(tables),
    )


async def list_documents(name: str, *, limit: int, offset: int = 0, where: str | None = None) -> RagDocuments:
    """Documents of a database, as its own order has them; `where` is a filter of `filters`."""
    path = await existing_path(name)
    condition = as_sql(where) if where else None
    async with open_rag(path, None, read_only=True) as client:
        count = await client.count_documents(filter=condition)
        found = await client.list_documents(limit=limit, offset=offset, filter=condition)
    return RagDocuments(path, count, [_document(each) for each in found])


def _table(table: Any) -> RagTable:
    if table is None:
        return RagTable()
    return RagTable(table.num_rows, table.total_bytes, human_size(table.total_bytes), table.num_versions)


def _document(found: Any) -> RagDocument:
    return RagDocument(found.id, found.uri, found.title, found.metadata, found.created_at, found.updated_at)
