"""Whether RAG databases and stored bytes hold what the database says they hold: no more, no less, nothing twice.

    await disagreements("/data/lancedb/library")     what is wrong with a RAG database, a sentence for each thing
    await compare("/data/lancedb/library")           the same by kind, with the numbers of documents
    await stored_documents("/data/lancedb/library")  the documents that it should hold
    await compare_blobs()                            rows without bytes, bytes without rows, artifacts that are missing

All of them only read. They are meant for a moment at which nothing runs; what is still on its way (a run that has not
ended well, a removal that is written down, content that was uploaded and not processed since) is held against nobody.
LanceDB is read without haiku.rag, which might repair what it opens.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.operations.made import kinds_of
from soliplex.ingester.lib.rag import rag_resource_key
from soliplex.ingester.lib.rag.folder import rag_folder
from soliplex.ingester.lib.rag.opening import is_remote
from soliplex.ingester.lib.rag.writing import rag_id
from soliplex.ingester.lib.storage import Integrity, StrayKind, find_strays, get_artifacts
from soliplex.ingester.lib.workflow.step_artifacts import SKIPPED, read_json
from tests.support.engine import rows_of

_IDS: Final = UUID("5a1d5f0e-6c0b-4b0e-9f5a-3c1f2b7a9d10")
"""Not imported: ids must stay what they were when existing databases were written."""
_COLUMNS: Final = {
    "documents": ["id"],
    "document_meta": ["id", "uri", "metadata"],
    "document_items": ["document_id", "position"],
    "chunks": ["id", "document_id", "order", "content"],
}


class Kind(StrEnum):
    """In which way a store disagrees."""

    LOST = "lost"
    """It should be there, and nothing of it is."""
    HALF = "half-stored"
    """A part of it is there."""
    DOUBLED = "doubled"
    """Something of it is there twice."""
    STALE = "stale"
    """It is there and should not be."""
    DIFFERENT = "different"
    """It is there, but not as it was stored or uploaded."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.what}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a store holds beside what it should."""

    where: str
    expected: int
    found: int
    findings: list[Finding] = field(default_factory=list[Finding])

    def counts(self) -> Counter[Kind]:
        return Counter(finding.kind for finding in self.findings)


async def disagreements(db_path: str | Path) -> list[str]:
    """What is wrong with a RAG database, a sentence for each thing; none where all is as the database says."""
    return [str(finding) for finding in (await compare(db_path)).findings]


async def compare(db_path: str | Path) -> Comparison:
    """Hold a RAG database beside the database."""
    name, key = str(db_path).rpartition("/")[2], rag_resource_key(db_path)
    expected = await _expected(key)
    try:
        tables = await _read_tables(db_path)
    except _UnreadableError as exc:
        lost = [Finding(Kind.LOST, name, f"{doc_hash}: {exc}") for doc_hash in expected]
        return Comparison(name, len(expected), 0, lost)
    findings, untold = list(_doubled(tables)), await _untold(key)
    for doc_hash, stored in expected.items():
        findings += await _wrong(tables, doc_hash, stored)
        if doc_hash not in untold:
            findings += [(Kind.DIFFERENT, what) for what in _misplaced(tables, doc_hash, stored)]
    findings += await _stale(tables, key, expected)
    return Comparison(name, len(expected), len(tables.ids()), [Finding(kind, name, what) for kind, what in findings])


async def compare_blobs() -> Comparison:
    """Hold the stored bytes beside the database."""
    hashes = [doc_hash for (doc_hash,) in await rows_of("SELECT hash FROM document ORDER BY hash")]
    states = await get_artifacts().verify(hashes)
    findings = [(_OF_INTEGRITY[state], doc_hash) for doc_hash, state in states.items() if state is not Integrity.OK]
    findings += [(Kind.LOST, what) async for what in _missing_artifacts()]
    # What was stored this second is old enough where nothing runs.
    at_once = find_strays(get_artifacts(), older_than=timedelta(0), now=utcnow() + timedelta(minutes=1))
    findings += [(Kind.STALE, f"{stray.key} has no row") async for stray in at_once if stray.kind is StrayKind.BLOB]
    there = sum(state is not Integrity.MISSING for state in states.values())
    return Comparison("blobs", len(hashes), there, [Finding(kind, "blobs", what) for kind, what in findings])


async def stored_documents(db_path: str | Path) -> set[str]:
    """The hashes of all documents that this RAG database should hold."""
    return set(await _expected(rag_resource_key(db_path)))


type _Wrong = tuple[Kind, str]

_OF_INTEGRITY: Final = {Integrity.MISSING: Kind.LOST, Integrity.DAMAGED: Kind.DIFFERENT}


class _Stored(NamedTuple):
    """What the database says of a document that a RAG database should hold."""

    embed_config: int
    parse_config: int
    places: frozenset[tuple[str, str, int | None]]
    """URI, source and batch of each."""


_NEWEST: Final = """
    SELECT r.doc_id AS doc_id, max(r.id) AS run_id FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
     WHERE s.step_type = 'store' AND s.resource_key = :key AND s.parent_step_id IS NULL GROUP BY r.doc_id"""
_PLACES: Final = f"""
    SELECT n.doc_id, u.uri, u.source, u.batch_id, s.status, CAST(s.output AS text),
           (SELECT max(e.step_config_id) FROM runstep e WHERE e.workflow_run_id = n.run_id AND e.step_type = 'embed'),
           (SELECT max(p.step_config_id) FROM runstep p WHERE p.workflow_run_id = n.run_id AND p.step_type = 'parse'),
           CASE WHEN r.created_date >= (SELECT max(h.process_date) FROM documenturihistory h
                 WHERE h.doc_uri_id = u.id AND h.version = u.version AND h.action IN ('created', 'updated'))
                THEN 1 ELSE 0 END
      FROM ({_NEWEST}) n JOIN workflowrun r ON r.id = n.run_id JOIN documenturi u ON u.doc_hash = n.doc_id
      JOIN runstep s ON s.workflow_run_id = n.run_id AND s.step_type = 'store' AND s.resource_key = :key
     WHERE u.source <> 'segmenter'"""
"""The URI of a segmentation job is no place of its content."""


async def _expected(key: str) -> dict[str, _Stored]:
    """By their hash, the documents that live at a URI, and that their newest run since they came there has stored."""
    places: defaultdict[str, set[tuple[str, str, int | None]]] = defaultdict(set)
    configs: dict[str, tuple[int, int]] = {}
    for doc_hash, *place, status, output, embed_config, parse_config, is_since in await rows_of(_PLACES, key=key):
        uri, source, batch_id = place
        places[doc_hash].add((uri, source, batch_id))
        if status == "COMPLETED" and is_since and not _is_skipped(output):
            configs[doc_hash] = embed_config, parse_config
    return {doc_hash: _Stored(*configs[doc_hash], frozenset(places[doc_hash])) for doc_hash in sorted(configs)}


def _is_skipped(output: str | None) -> bool:
    made = json.loads(output) if output else None
    return isinstance(made, dict) and bool(made.get("skipped"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


class _UnreadableError(Exception):
    """There is no such database, or one of its tables is missing."""


class _Tables(NamedTuple):
    """The rows of the tables, by the id of their document."""

    documents: dict[str, list[Any]]
    document_meta: dict[str, list[Any]]
    document_items: dict[str, list[Any]]
    chunks: dict[str, list[Any]]

    def ids(self) -> set[str]:
        return {each for table in self for each in table}

    def holding(self, document_id: str) -> list[str]:
        """The tables that hold something of a document."""
        return [name for name, table in zip(self._fields, self, strict=True) if document_id in table]


async def _read_tables(db_path: str | Path) -> _Tables:
    lancedb: Any = importlib.import_module("lancedb")
    options = rag_folder().storage_options if is_remote(db_path) else None
    if options is None and not Path(db_path).is_dir():  # noqa: ASYNC240  a test may stand still for it
        raise _UnreadableError(f"there is no database {db_path}")
    connection = await lancedb.connect_async(str(db_path), storage_options=options)
    tables = {name: _grouped(await _rows(connection, name, columns)) for name, columns in _COLUMNS.items()}
    return _Tables(**tables)


async def _rows(connection: Any, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    try:
        opened = await connection.open_table(table)
        return await opened.query().select(list(columns)).to_list()
    except (ValueError, RuntimeError, OSError) as exc:  # whatever Lance says of a table that it cannot read
        raise _UnreadableError(f"its table {table} cannot be read: {str(exc).splitlines()[0]}") from exc


def _grouped(rows: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    grouped: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row["document_id"] if "document_id" in row else row["id"]].append(row)
    return dict(grouped)


_KEYS: Final = {
    "documents": ("id",),
    "document_meta": ("id",),
    "document_items": ("document_id", "position"),
    "chunks": ("document_id", "order"),
}


def _doubled(tables: _Tables) -> Iterator[_Wrong]:
    for name, table in zip(tables._fields, tables, strict=True):
        for document_id, rows in table.items():
            counted = Counter(tuple(row[column] for column in _KEYS[name]) for row in rows)
            for key in (key for key, count in counted.items() if count > 1):
                yield Kind.DOUBLED, f"{name} has {counted[key]} rows {_with_names(_KEYS[name], key)} of {document_id}"
    chunks = Counter(row["id"] for rows in tables.chunks.values() for row in rows)
    yield from ((Kind.DOUBLED, f"chunks has {n} rows of the id {each}") for each, n in chunks.items() if n > 1)


def _with_names(columns: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(f"{column} {value}" for column, value in zip(columns, values, strict=True))


async def _wrong(tables: _Tables, doc_hash: str, stored: _Stored) -> list[_Wrong]:
    """What is wrong with a document that should be there."""
    document_id = rag_id(doc_hash)
    holding = tables.holding(document_id)
    if not holding:
        return [(Kind.LOST, f"{doc_hash} is in no table")]
    try:
        chunks = await _chunks_of(doc_hash, stored.embed_config)
        items = await _items_of(doc_hash, stored.parse_config)
    except NotFoundError as exc:
        return [(Kind.LOST, f"{doc_hash}: {exc}")]
    needed = ["documents", "document_meta", *["document_items"] * bool(items), *["chunks"] * bool(chunks)]
    wrong = [(Kind.HALF, f"{doc_hash} is not in {table}") for table in needed if table not in holding]
    found = {(row["order"], row["id"], row["content"]) for row in tables.chunks.get(document_id, ())}
    if "chunks" in holding and (missing := chunks - found):
        wrong.append((Kind.HALF, f"{doc_hash} lacks {len(missing)} of its {len(chunks)} chunks"))
    if others := found - chunks:
        wrong.append((Kind.DIFFERENT, f"{doc_hash} has {len(others)} chunks that its embeddings do not have"))
    positions = len({row["position"] for row in tables.document_items.get(document_id, ())})
    if "document_items" in holding and positions != items:
        kind = Kind.HALF if positions < items else Kind.DIFFERENT
        wrong.append((kind, f"{doc_hash} has {positions} items, and was parsed into {items}"))
    said = (json.loads(row["metadata"]).get("doc_hash") for row in tables.document_meta.get(document_id, ()))
    return wrong + [(Kind.DIFFERENT, f"{doc_hash} is said to be {each}") for each in said if each != doc_hash]


def _misplaced(tables: _Tables, doc_hash: str, stored: _Stored) -> Iterator[str]:
    """Whether it is said to live where it does, at each of its places: URI, source and batch."""
    for row in tables.document_meta.get(rag_id(doc_hash), ()):
        metadata = json.loads(row["metadata"])
        first = (row["uri"], metadata.get("source"), metadata.get("batch_id"))
        said: frozenset[Any] = frozenset(tuple(place) for place in metadata.get("places", [first]))
        if first not in said or said != stored.places:
            lives = ", ".join(map(str, sorted(stored.places, key=str)))
            yield f"{doc_hash} is said to live at {row['uri']} ({sorted(said, key=str)}), and lives at {lives}"


async def _untold(key: str) -> set[str]:
    """Documents of which it is written down that the RAG database has still to be told where they live.

    Nobody is told of a place whose newest content is not stored yet: what it had before is cited there until then.
    """
    waiting = await rows_of("SELECT doc_hash FROM documentremoval WHERE target IN (:key, 'places')", key=key)
    overtaken = await rows_of(
        """SELECT DISTINCT h.hash FROM documenturihistory h JOIN documenturi u ON u.id = h.doc_uri_id
            WHERE h.hash <> u.doc_hash AND NOT EXISTS (
                  SELECT 1 FROM workflowrun r JOIN runstep s ON s.workflow_run_id = r.id
                   WHERE r.doc_id = u.doc_hash AND s.resource_key = :key AND s.status = 'COMPLETED')""",
        key=key,
    )
    return {doc_hash for (doc_hash,) in (*waiting, *overtaken)}


async def _chunks_of(doc_hash: str, config_id: int) -> set[tuple[int, str, str]]:
    """Order, id and content of the chunks that were to be stored."""
    phrases = [phrase.lower() for phrase in get_settings().stop_phrases]
    embedded = await read_json(doc_hash, ArtifactType.EMBEDDINGS, config_id)
    wanted = [chunk for chunk in embedded if not any(phrase in chunk["content"].lower() for phrase in phrases)]
    return {
        (order, str(uuid5(_IDS, f"{rag_id(doc_hash)} {chunk['id']}")), chunk["content"])
        for order, chunk in enumerate(wanted)
    }


async def _items_of(doc_hash: str, config_id: int) -> int:
    """The number of items that the document was parsed into."""
    items = importlib.import_module("haiku.rag.store.models.document_item")
    docling = importlib.import_module("docling_core.types.doc")
    parsed = await read_json(doc_hash, ArtifactType.PARSED_JSON, config_id)
    return len(items.extract_items(rag_id(doc_hash), docling.DoclingDocument.model_validate(parsed)))


async def _stale(tables: _Tables, key: str, expected: Iterable[str]) -> list[_Wrong]:
    """What is there of documents that should not be."""
    known = {rag_id(doc_hash): doc_hash for (doc_hash,) in await rows_of("SELECT hash FROM document")}
    allowed = {rag_id(doc_hash) for doc_hash in [*expected, *await _excused(key, set(expected))]}
    return [
        (Kind.STALE, f"{known.get(each, each)}, {_why_not(known.get(each))}, is in {', '.join(tables.holding(each))}")
        for each in sorted(tables.ids() - allowed)
    ]


def _why_not(doc_hash: str | None) -> str:
    return "which has no row" if doc_hash is None else "which is not to be found here"


async def _excused(key: str, expected: set[str]) -> set[str]:
    """Documents that may be there as well: the content of a version stays until that of the next one is stored."""
    history = await rows_of(
        """SELECT DISTINCT h.hash, u.doc_hash FROM documenturihistory h JOIN documenturi u ON u.id = h.doc_uri_id
             JOIN workflowrun r ON r.doc_id = h.hash
             JOIN runstep s ON s.workflow_run_id = r.id AND s.resource_key = :key""",
        key=key,
    )
    being_removed = await rows_of("SELECT doc_hash FROM documentremoval WHERE target = :key", key=key)
    waiting = {doc_hash for doc_hash, present in history if present not in expected}
    return waiting | {doc_hash for (doc_hash,) in being_removed}


async def _missing_artifacts() -> AsyncIterator[str]:
    """What steps have completed and nobody can read any more."""
    artifacts = get_artifacts()
    rows = await rows_of(
        """SELECT DISTINCT r.doc_id, s.step_type, s.step_config_id, CAST(s.output AS text)
             FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id JOIN document d ON d.hash = r.doc_id
            WHERE s.status = 'COMPLETED' AND s.step_type IN ('parse', 'chunk', 'embed', 'store')
              AND s.parent_step_id IS NULL ORDER BY 1, 2"""
    )
    for doc_hash, step_type, config_id, output in rows:
        if _is_skipped(output) and json.loads(output) != SKIPPED:
            continue
        for kind in kinds_of(step_type):
            if not await artifacts.has(doc_hash, kind, config_id):
                yield f"{doc_hash} has a completed {step_type} step, and no {kind}"
