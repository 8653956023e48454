"""Writing documents into a RAG database: many at once, each in the place of what the database held of it.

A document's id in the database follows from the hash of its content. What a table holds of some documents is replaced
in one commit, whatever it was: nothing, the same, or the half that a killed process left. So a write that was cut short
is put right by writing once more. What is searched is the table of chunks: no search finds the old and the new chunks
of a document together, or neither. The rows that say whose chunks these are come before, and go after:

    metas ─▶ documents ─▶ items ─▶ chunks, old ones out and new ones in ─▶ items, documents, metas of what is gone

All of it stands behind the fence of the writer (`fencing`). What is written here, the stock `haiku-rag` command reads.

Rows become record batches of Arrow, some at a time, while Lance writes them. Of a giant, chunks and items come from
files: then no more of it is in memory than one record batch, and the text itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import pickle
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import batched, chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from soliplex.ingester.lib.docling_markdown import markdown_of
from soliplex.ingester.lib.rag.creation import complete
from soliplex.ingester.lib.rag.database_files import files_of
from soliplex.ingester.lib.rag.fencing import Fence, FencedTable, FencedTables, among, put_up_fences
from soliplex.ingester.lib.rag.indexes import tend_indexes
from soliplex.ingester.lib.rag.lance_words import lance_in_words
from soliplex.ingester.lib.rag.metadata import Placement, name_at, placed, places_of
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity, RagUnusableError, imported, open_store
from soliplex.ingester.lib.wf.errors import PermanentError

DOC_HASH: Final = "doc_hash"
"""The key in the metadata of a RAG document under which the hash of its content stands."""
CHUNK_ID: Final = "chunk_id"
"""The key in the metadata of a chunk under which its id stands as the artifact has it. The row's own id is another,
since the same passage may stand in several documents."""
ROWS_AT_ONCE: Final = 2_000
"""Rows that are made into a record batch together: about 10 MiB of chunks."""
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
    document: dict[str, Any] | Rendered
    """The document as docling's JSON, or the rows that were made of it already."""
    chunks: Iterable[RagChunk]
    """The chunks, which may be iterated over more than once."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        return rag_id(self.doc_hash)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The rows of a document, without its chunks and without what says where it lives."""

    row: dict[str, Any]
    """Its row in the table of documents."""
    items: Iterable[dict[str, Any]]
    """Its rows in the table of items."""


class RowsInFile:
    """Rows that are in a file, read from it anew each time they are iterated over."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._path.open("rb") as file, contextlib.suppress(EOFError):
            while True:
                yield from pickle.load(file)  # noqa: S301  `render_into` wrote it


type Places = Mapping[str, Sequence[Placement]]
"""By the hash of a document: where it lives, the place that came last first."""


@lru_cache(maxsize=4096)
def rag_id(doc_hash: str) -> str:
    """The id in a RAG database of the document with this content."""
    return str(uuid5(_IDS, doc_hash))


def rag_chunk_id(document_id: str, chunk_id: str) -> str:
    """The id in a RAG database of a chunk of this document."""
    return str(uuid5(_IDS, f"{document_id} {chunk_id}"))


async def write_documents(
    db_path: str | Path,
    identity: EmbeddingIdentity,
    documents: Sequence[NewRagDocument],
    *,
    fence: Fence,
    gone: Sequence[str] = (),
    moved: Places | None = None,
) -> None:
    """Write the documents, and delete those whose hashes are in `gone`. The caller holds the lock of the database.

    Of those in `moved`, which stay, the database may still say that they live where one of the new documents lives now.
    """
    if not documents and not gone:
        return
    async with _open_to_write(db_path, identity, fence) as store:
        tables = await put_up_fences(store, fence)
        rows = await asyncio.to_thread(_Rows, documents)
        leaving = [each for each in map(rag_id, gone) if each not in rows.ids]
        metas = [*rows.metas, *await _moved_rows(tables.metas, moved or {})]
        await tables.metas.replace("id", [row["id"] for row in metas], _batches(tables.metas, [metas]))
        await tables.documents.replace("id", rows.ids, _batches(tables.documents, [rows.documents]))
        await tables.items.replace("document_id", rows.ids, _batches(tables.items, rows.items))
        chunks = _chunk_batches(tables.chunks, rows.chunks)
        await tables.chunks.replace("document_id", [*rows.ids, *leaving], chunks)
        await _forget(tables, leaving)
        await _ensure_indexes(store)
        await tend_indexes(store)


class Others(NamedTuple):
    """What became of contents that stood before at places where other contents live now."""

    gone: Sequence[str] = ()
    """Hashes of documents that live nowhere any more."""
    moved: Places = MappingProxyType({})
    """Where documents live that live elsewhere than the database says, by hash."""


async def place_documents(
    db_path: str | Path,
    places: Places,
    others: Callable[[Collection[str]], Awaitable[Others]],
    *,
    fence: Fence,
) -> int:
    """Let the database say where these documents live now; gives how many rows that changed.

    What it does not hold is passed over: a store will see where that lives. Of those that it does hold, `others` tells
    what stood before at their places. Chunks and texts are not touched, unless a content is gone; and where all is said
    already, nothing is written. The caller holds the lock of the database.
    """
    by_id = {rag_id(doc_hash): doc_hash for doc_hash in places}
    async with open_store(db_path, None) as store:
        held = await _ids_in(store.document_meta_table, by_id)
        gone, moved = await others({by_id[each] for each in held})
        living = {**moved, **places}
        leaving = await _ids_in(store.document_meta_table, [rag_id(each) for each in gone if each not in places])
        changed = _replaced(await _rows_of(store.document_meta_table, map(rag_id, living)), living)
        if not changed and not leaving:
            return 0
        tables = await put_up_fences(store, fence)
        # Read once more: until the fences stood, a writer that had lost its lock could still change them.
        metas = await _moved_rows(tables.metas, living)
        await tables.metas.replace("id", [row["id"] for row in metas], _batches(tables.metas, [metas]))
        if leaving:
            await tables.chunks.replace("document_id", sorted(leaving))
            await _forget(tables, sorted(leaving))
        return len(metas) + len(leaving)


async def _ids_in(table: Any, ids: Collection[str]) -> set[str]:
    return {row["id"] for row in await _rows_of(table, ids, ["id"])}


async def _rows_of(table: Any, ids: Iterable[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    wanted = sorted(set(ids))
    if not wanted:
        return []
    query = table.query().where(among("id", wanted))
    return await (query.select(list(columns)) if columns else query).to_list()


async def delete_documents(db_path: str | Path, doc_hashes: Sequence[str], *, fence: Fence) -> int:
    """Delete what the database holds of these documents; gives how many it did hold. The caller holds its lock."""
    return await delete_by_ids(db_path, [rag_id(doc_hash) for doc_hash in doc_hashes], fence=fence)


async def delete_by_ids(db_path: str | Path, ids: Sequence[str], *, fence: Fence) -> int:
    """As `delete_documents`, for documents of which only the id in the database is known."""
    async with open_store(db_path, None) as store:
        tables = await put_up_fences(store, fence)
        there = await tables.metas.ids("id", ids)
        await tables.chunks.replace("document_id", ids)
        await _forget(tables, ids)
    return len(there)


@asynccontextmanager
async def _open_to_write(db_path: str | Path, identity: EmbeddingIdentity, fence: Fence) -> AsyncGenerator[Any]:
    """The database, open to write to.

    It is created where there is none, and its creation is completed if it was cut short.
    """
    files, name = files_of(db_path)
    async with AsyncExitStack() as stack:
        stack.enter_context(lance_in_words(db_path))
        if not await files.exists(name):
            await complete(db_path, identity, fence)
        try:
            store = await stack.enter_async_context(open_store(db_path, identity))
        except RagUnusableError:
            await complete(db_path, identity, fence)
            store = await stack.enter_async_context(open_store(db_path, identity))
        yield store


async def _forget(tables: FencedTables, ids: Sequence[str]) -> None:
    """Delete documents whose chunks are gone. Each table is asked by itself: a crash may have left one without."""
    await tables.items.replace("document_id", ids)
    await tables.documents.replace("id", ids)
    await tables.metas.replace("id", ids)


class _Rows:
    """The rows of the tables. Making them takes time: not on the loop."""

    def __init__(self, documents: Sequence[NewRagDocument]) -> None:
        schema = importlib.import_module("haiku.rag.store.schema")
        now = datetime.now(UTC).isoformat()
        by_id = {each.id: each for each in documents}
        self.ids = list(by_id)
        self.metas: list[dict[str, Any]] = []
        self.documents: list[dict[str, Any]] = []
        self.items: list[Iterable[dict[str, Any]]] = []
        self.chunks = [(document_id, each.chunks) for document_id, each in by_id.items()]
        for document_id, each in by_id.items():
            metadata = json.dumps({**each.metadata, DOC_HASH: each.doc_hash})
            said = {"uri": each.uri, "title": each.title, "metadata": metadata, "created_at": now, "updated_at": now}
            made = each.document if isinstance(each.document, Rendered) else rendered(document_id, each.document)
            self.metas.append(dict(schema.DocumentMetaRecord(id=document_id, **said)))
            self.documents.append(made.row)
            self.items.append(made.items)


def rendered(document_id: str, document: dict[str, Any]) -> Rendered:
    """The rows that haiku.rag would make of a document."""
    models = importlib.import_module("haiku.rag.store.models.document")
    items = importlib.import_module("haiku.rag.store.models.document_item")
    schema = importlib.import_module("haiku.rag.store.schema")
    docling = importlib.import_module("docling_core.types.doc")
    parsed = docling.DoclingDocument.model_validate(document)
    made = models.Document(content=markdown_of(parsed))
    made.set_docling(parsed)
    # As its repositories make them, which cannot be imported without the clients of all its embedders.
    stored = ("content", "docling_document", "docling_pages", "docling_version")
    row = schema.DocumentRecord(id=document_id, **{name: getattr(made, name) for name in stored})
    return Rendered(dict(row), [_item_row(schema, each) for each in items.extract_items(document_id, parsed)])


def _item_row(schema: Any, item: Any) -> dict[str, Any]:
    said = item.model_dump()
    return dict(schema.DocumentItemRecord(**{**said, "page_numbers": json.dumps(said["page_numbers"])}))


def render_into(document_id: str, document: Path, into: Path) -> dict[str, Any]:
    """Make the rows of a document whose JSON is in a file: its row is given back, its items go into a file.

    Called in a process of its own, whose memory is limited: a text of 60 MiB becomes gigabytes of docling's objects.
    """
    made = rendered(document_id, json.loads(document.read_bytes()))
    into.parent.mkdir(parents=True, exist_ok=True)
    with into.open("wb") as file:
        for some in batched(made.items, ROWS_AT_ONCE):
            pickle.dump(some, file)
    return made.row


async def _moved_rows(metas: FencedTable, moved: Places) -> list[dict[str, Any]]:
    """The rows of documents that are there and now live elsewhere."""
    found = await metas.rows("id", [rag_id(doc_hash) for doc_hash in moved]) if moved else []
    return _replaced(found, moved)


def _replaced(rows: Iterable[dict[str, Any]], moved: Places) -> list[dict[str, Any]]:
    """The rows whose places are not those of their documents any more, with the places of today."""
    places = {rag_id(doc_hash): list(each) for doc_hash, each in moved.items()}
    said = ((row, json.loads(row["metadata"])) for row in rows)
    return [
        _moved(row, metadata, places[row["id"]])
        for row, metadata in said
        if (row["uri"], places_of(row["uri"], metadata)) != (places[row["id"]][0].uri, places[row["id"]])
    ]


def _moved(row: dict[str, Any], metadata: dict[str, Any], places: Sequence[Placement]) -> dict[str, Any]:
    uri, title = places[0].uri, row["title"]
    if uri and row["uri"] and title == name_at(row["uri"]):
        title = name_at(uri)  # the document has no title but where it lives
    return {**row, "uri": uri, "title": title, "metadata": json.dumps(placed(metadata, places))}


type _Batches = Callable[[], Iterator[Any]]


def _batches(table: FencedTable, sources: Sequence[Iterable[dict[str, Any]]]) -> _Batches | None:
    """The rows as Arrow has them, some at a time."""
    from pyarrow import RecordBatch  # noqa: PLC0415  LanceDB has imported it

    schema = table.schema

    def made() -> Iterator[Any]:
        for some in batched(chain.from_iterable(sources), ROWS_AT_ONCE):
            yield RecordBatch.from_pylist(list(some), schema=schema)

    return made if _has_any(sources) else None


def _chunk_batches(table: FencedTable, documents: Sequence[tuple[str, Iterable[RagChunk]]]) -> _Batches | None:
    """The chunks of the documents as rows, some at a time. Their vectors never become objects of Python again."""
    schema = table.schema

    def made() -> Iterator[Any]:
        for document_id, chunks in documents:
            for some in batched(chunks, ROWS_AT_ONCE):
                yield _chunk_batch(schema, document_id, some)

    return made if _has_any([chunks for _, chunks in documents]) else None


def _has_any(sources: Sequence[Iterable[object]]) -> bool:
    return any(True for source in sources for _ in source)


def _chunk_batch(schema: Any, document_id: str, chunks: Sequence[RagChunk]) -> Any:
    import numpy as np  # noqa: PLC0415
    from pyarrow import FixedSizeListArray, RecordBatch, array  # noqa: PLC0415

    vectors = np.asarray([chunk.embedding for chunk in chunks], dtype=np.float32)
    dim = schema.field("vector").type.list_size
    if vectors.shape != (len(chunks), dim) or not np.isfinite(vectors).all():
        raise PermanentError(f"the vectors of a document are not {dim} finite numbers each; embed it again")
    columns: dict[str, Any] = {
        "id": [rag_chunk_id(document_id, chunk.id) for chunk in chunks],
        "document_id": [document_id] * len(chunks),
        "content": [chunk.content for chunk in chunks],
        "content_fts": ["\n".join([*(chunk.metadata.get("headings") or []), chunk.content]) for chunk in chunks],
        "metadata": [json.dumps({**chunk.metadata, CHUNK_ID: chunk.id}) for chunk in chunks],
        "order": [chunk.order for chunk in chunks],
    }
    arrays = {name: array(values, schema.field(name).type) for name, values in columns.items()}
    arrays["vector"] = FixedSizeListArray.from_arrays(vectors.ravel(), dim).cast(schema.field("vector").type)
    return RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


async def _ensure_indexes(store: Any) -> None:
    schema = await imported("haiku.rag.store.schema")
    await schema.ensure_indexes(store.chunks_table, "chunks")
