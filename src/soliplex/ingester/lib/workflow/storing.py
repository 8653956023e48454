"""The store step: embedded chunks of many documents go into their RAG database in one commit.

All steps of a call were claimed under the lock of one database (see `resource_key`), so they have the same target. One
whose `resource_key` is not that of its target takes the lock here: nothing is written without it.

A document of many chunks has a call of its own. Its chunks are read from their file while they are written, and its
other rows are made in another process: the worker holds some rows of each, whatever the size of the document.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.embedding import EmbedOptions
from soliplex.ingester.lib.models import ArtifactType, HistoryAction, ResourceLockKind, WorkflowStepType
from soliplex.ingester.lib.operations import record_histories
from soliplex.ingester.lib.operations.placing import others_at_places, places_of_contents
from soliplex.ingester.lib.operations.step_parameters import data_dir_of
from soliplex.ingester.lib.rag import RagLock, hold_rag_lock, problem_of_rag_name, rag_path, rag_resource_key
from soliplex.ingester.lib.rag.metadata import Placement, index_metadata, name_at, placed
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity
from soliplex.ingester.lib.rag.writing import (
    NewRagDocument,
    RagChunk,
    Rendered,
    RowsInFile,
    rag_id,
    write_documents,
)
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.storage.threads import in_thread
from soliplex.ingester.lib.vectors import identity_of
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.handlers import StepContext, Weights, batch_handler
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.workflow.arrays import items_of, read_short
from soliplex.ingester.lib.workflow.step_artifacts import decoded, each_alone, required, the_step, write_json
from soliplex.ingester.lib.workflow.weighing import chunks_of

MOST_IN_A_COMMIT: Final = 500
CHUNKS_IN_A_COMMIT: Final = 8_000
"""Most chunks of several documents in one commit: about 200 MiB of objects."""
LONG: Final = 16 << 20
"""Bytes of embedded chunks from which they stay in their file until they are written."""
LARGE: Final = 4 << 20
"""Bytes of a parsed document from which another process makes its rows. Here it would become forty times as much."""
_RENDER: Final = "soliplex.ingester.lib.rag.writing.render_into"
NOTHING_TO_INDEX: Final = {"nothing_to_index": True, "reason": "no text was found in it: no search can find it"}
"""What a step says beside its result whose document holds nothing, such as a photograph or a file of blanks."""
REPLACED: Final = {"skipped": True, "reason": "another version has taken its place: it lives at no URI any more"}
"""What a step says whose document was overtaken by a newer version: stored after that, it would stand beside it for
ever."""


@batch_handler(
    limit=MOST_IN_A_COMMIT, wants={"doc", "places", "earlier"}, weights=Weights(chunks_of, most=CHUNKS_IN_A_COMMIT)
)
async def save_to_rag(batch: list[StepContext], processes: ProcessPool) -> list[Any]:
    """Store the documents. One that cannot be read fails alone; a commit that fails fails all its documents."""
    if not get_settings().do_rag:
        return [{"skipped": True, "reason": "DO_RAG is false"} for _ in batch]
    async with AsyncExitStack() as files:
        return await _save(batch, _Means(processes, files))


@dataclass(frozen=True, slots=True)
class _Means:
    """What a call has at its disposal."""

    processes: ProcessPool
    files: AsyncExitStack
    """Files that are needed until all is written."""


async def _save(batch: Sequence[StepContext], means: _Means) -> list[Any]:
    loaded = await each_alone(partial(_load, means=means), batch)
    ready = [each for each in loaded if isinstance(each, _Loaded)]
    failed: dict[_Loaded, Any] = {}
    for target, identity in dict.fromkeys((each.target, each.identity) for each in ready):
        mine = [each for each in ready if (each.target, each.identity) == (target, identity)]
        try:
            failed |= await _commit(target, identity, mine)
        except PermanentError as refusal:  # of these, such as vectors of a model that is not the database's
            failed |= dict.fromkeys(mine, refusal)
    stored = [each for each in ready if not each.is_replaced and each not in failed]
    # How many chunks of a giant there are is known only now.
    failed |= await _failures(_note, [each for each in stored if isinstance(each.document.chunks, StoredChunks)])
    await record_histories(
        {each.document.doc_hash: each.result() for each in stored if each not in failed}, HistoryAction.INGESTED
    )
    return [failed.get(each) or each.result() if isinstance(each, _Loaded) else each for each in loaded]


async def _commit(target: str, identity: EmbeddingIdentity, documents: Sequence[_Loaded]) -> dict[_Loaded, Any]:
    """Write the documents into their database; gives the errors of those that could not be noted, by document."""
    async with _lock_of(target, documents[0].step.step) as lock:
        living = await _placed(documents)
        # Before the commit: whoever deletes a document finds by its note which databases may hold it.
        failed = await _failures(_note, living)
        living = [each for each in living if each not in failed]
        gone, moved = await others_at_places([each.document.doc_hash for each in living])
        new = [each.document for each in living]
        await write_documents(target, identity, new, fence=lock, gone=gone, moved=moved)
    return failed


async def _failures(action: Callable[[_Loaded], Awaitable[None]], documents: Sequence[_Loaded]) -> dict[_Loaded, Any]:
    """Do the work for each document; gives the errors, by document."""
    results = await each_alone(action, documents)
    return {each: failure for each, failure in zip(documents, results, strict=True) if failure is not None}


async def _placed(documents: Sequence[_Loaded]) -> list[_Loaded]:
    """The documents that still live somewhere, with all their places as they are under the lock.

    A place that comes or goes after this look is told to the database by whoever changed it, when the lock is free.
    """
    places = await places_of_contents(each.document.doc_hash for each in documents)
    for each in documents:
        each.place(places.get(each.document.doc_hash, ()))
    return [each for each in documents if not each.is_replaced]


@asynccontextmanager
async def _lock_of(target: str, step: ClaimedStep) -> AsyncGenerator[RagLock]:
    """The lock under which the step was claimed, or one that is taken now."""
    key = rag_resource_key(target)
    if step.resource_key == key:
        yield RagLock(key, step.lease)
        return
    async with hold_rag_lock(target, holder_kind=ResourceLockKind.WORKER, meta={"step_id": step.id}) as lock:
        yield lock


def _target(data_dir: str) -> str:
    if problem := problem_of_rag_name(data_dir):
        raise InvalidStepOptionError("store.data_dir", problem)
    return rag_path(data_dir)


class _Loaded:
    """A document on its way into the database."""

    def __init__(self, step: StepContext, identity: EmbeddingIdentity, document: NewRagDocument) -> None:
        self.step = step
        self.target = _target(data_dir_of(step["step_params"]))
        self.identity = identity
        self.document = document
        self.is_replaced = False
        """Whether the document lives nowhere any more."""

    def place(self, places: Sequence[Placement]) -> None:
        """Let the document live at these places, the one that came last first."""
        if not places or places[0].uri is None:
            self.is_replaced = True
            return
        uri, title = places[0].uri, self.document.title
        if title == name_at(self.document.uri):
            title = name_at(uri)
        metadata = placed(self.document.metadata, places)
        self.document = replace(self.document, uri=uri, title=title, metadata=metadata)

    def result(self) -> dict[str, Any]:
        if self.is_replaced:
            return REPLACED
        chunks = self.document.chunks
        count = chunks.count if isinstance(chunks, StoredChunks) else sum(1 for _ in chunks)
        told = {"rag_document_id": self.document.id, "chunks": count}
        return told if count else told | NOTHING_TO_INDEX


class StoredChunks:
    """The chunks of a giant, read from their file anew each time they are iterated over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0
        """How many there were when they were last iterated over to the end."""

    def __iter__(self) -> Iterator[RagChunk]:
        count = 0
        for some in items_of(self._path):
            for chunk in _wanted(some):
                yield _rag_chunk(chunk, count)
                count += 1
        self.count = count

    def first(self) -> list[dict[str, Any]]:
        """The first chunks, from which a title may come."""
        return next(filter(None, items_of(self._path)), [])


async def _load(step: StepContext, means: _Means) -> _Loaded | dict[str, Any]:
    doc_hash = step["doc_hash"]
    required(step["doc"], doc_hash)
    if not step["places"]:
        return REPLACED
    embedded = the_step(step["earlier"], WorkflowStepType.EMBED)
    parsed = the_step(step["earlier"], WorkflowStepType.PARSE)
    chunks = await read_short(doc_hash, ArtifactType.EMBEDDINGS, embedded.config_id, most=LONG)
    if chunks is None:
        file = get_artifacts().artifact_file(doc_hash, ArtifactType.EMBEDDINGS, embedded.config_id)
        chunks = StoredChunks(await means.files.enter_async_context(file))
    document = await _parsed(doc_hash, parsed.config_id, means)
    identity = await identity_of(EmbedOptions.read(embedded.params))
    return _Loaded(step, identity, await asyncio.to_thread(_document, step, chunks, document))


async def _parsed(doc_hash: str, config_id: int, means: _Means) -> dict[str, Any] | Rendered:
    """The parsed document; of a large one, the rows that another process made of it."""
    artifacts = get_artifacts()
    content = await artifacts.read_short(doc_hash, ArtifactType.PARSED_JSON, config_id, most=LARGE)
    if content is not None:
        return await decoded(content)
    into = artifacts.spool.new_path()
    means.files.push_async_callback(in_thread, into.unlink, missing_ok=True)
    async with artifacts.artifact_file(doc_hash, ArtifactType.PARSED_JSON, config_id) as path:
        arguments = {"document_id": rag_id(doc_hash), "document": path, "into": into}
        row = cast("dict[str, Any]", await means.processes.run(_RENDER, arguments))
    return Rendered(row, RowsInFile(into))


def _document(
    step: StepContext,
    chunks: Sequence[dict[str, Any]] | StoredChunks,
    parsed: dict[str, Any] | Rendered,
) -> NewRagDocument:
    """Blocks for a moment where the chunks are in a file: its beginning is read."""
    places, document = step["places"], step["doc"]
    uri = places[0].uri if places else document.hash
    # Under the lock, `place` puts what is so at that moment in the place of `source` and `batch_id`.
    known = {"source": None, "batch_id": None, "mime_type": document.mime_type}
    return NewRagDocument(
        doc_hash=document.hash,
        uri=uri,
        title=title_of(document.doc_meta, chunks.first() if isinstance(chunks, StoredChunks) else chunks, uri),
        document=parsed,
        chunks=chunks
        if isinstance(chunks, StoredChunks)
        else [_rag_chunk(chunk, order) for order, chunk in enumerate(_wanted(chunks))],
        metadata=index_metadata(known, document.doc_meta),
    )


def _rag_chunk(chunk: dict[str, Any], order: int) -> RagChunk:
    return RagChunk(
        id=chunk["id"],
        content=chunk["content"],
        order=order,
        embedding=chunk["embedding"],
        metadata=chunk["metadata"],
    )


def _wanted(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chunks that hold no stop phrase."""
    phrases = [phrase.lower() for phrase in get_settings().stop_phrases]
    return [chunk for chunk in chunks if not any(phrase in chunk["content"].lower() for phrase in phrases)]


def title_of(meta: dict[str, Any], chunks: Sequence[dict[str, Any]], uri: str) -> str:
    """The title in the metadata, else the heading that the first chunks stand below, else the name of the file."""
    given = str(meta.get("title") or "").strip()
    headings = (heading for chunk in chunks[:3] for heading in chunk["metadata"].get("headings") or [])
    return given or next(headings, "") or name_at(uri)


async def _note(stored: _Loaded) -> None:
    doc_hash, result = stored.document.doc_hash, stored.result()
    config_id = stored.step["run_step"].step_config_id
    noted = {**result, "database": stored.target}
    await write_json(doc_hash, ArtifactType.RAG, config_id, noted, is_short=True)
