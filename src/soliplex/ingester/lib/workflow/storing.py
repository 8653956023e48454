"""The store step: embedded chunks of many documents go into their RAG database in one commit.

All steps of a call were claimed under the lock of one database (see `resource_key`), so they have the same target. One
whose `resource_key` is not that of its target takes the lock here: nothing is written without it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.embedding import EmbedOptions
from soliplex.ingester.lib.models import ArtifactType, Database, HistoryAction, ResourceLockKind, WorkflowStepType
from soliplex.ingester.lib.operations import record_histories
from soliplex.ingester.lib.rag import RagLock, hold_rag_lock, problem_of_rag_name, rag_path, rag_resource_key
from soliplex.ingester.lib.rag.metadata import index_metadata
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity
from soliplex.ingester.lib.rag.writing import NewRagDocument, Placement, RagChunk, write_documents
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.vectors import identity_of
from soliplex.ingester.lib.wf.handlers import StepContext, batch_handler
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.workflow.artifacts import each_alone, read_json, required, the_step, write_json
from soliplex.ingester.lib.workflow.skipping import skippable
from soliplex.ingester.lib.workflow.sql import SQL

MOST_IN_A_COMMIT: Final = 500
REPLACED: Final = {"skipped": True, "reason": "another version has taken its place: it lives at no URI any more"}
"""What a step says whose document was overtaken. Stored after the newer version, it would stand beside it for ever."""


@skippable
@batch_handler(limit=MOST_IN_A_COMMIT, wants={"doc", "places", "earlier"})
async def save_to_rag(batch: list[StepContext]) -> list[Any]:
    """Store the documents. One that cannot be read fails alone; a commit that fails fails all its documents."""
    if not get_settings().do_rag:
        return [{"skipped": True, "reason": "DO_RAG is false"} for _ in batch]
    loaded = await each_alone(_load, batch)
    ready = [each for each in loaded if isinstance(each, _Loaded)]
    for target, identity in dict.fromkeys((each.target, each.identity) for each in ready):
        mine = [each for each in ready if (each.target, each.identity) == (target, identity)]
        async with _lock_of(target, mine[0].step.step) as lock:
            gone, moved = await _others(mine)
            new = [each.document for each in mine]
            await write_documents(target, identity, new, fence=lock, gone=gone, moved=moved)
    noted = dict(zip(ready, await each_alone(_note, ready), strict=True))
    await record_histories(
        {each.document.doc_hash: each.result() for each, failure in noted.items() if failure is None},
        HistoryAction.INGESTED,
    )
    return [noted[each] or each.result() if isinstance(each, _Loaded) else each for each in loaded]


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

    def __init__(
        self,
        step: StepContext,
        identity: EmbeddingIdentity,
        chunks: Sequence[dict[str, Any]],
        parsed: dict[str, Any],
    ) -> None:
        self.step = step
        self.target = _target(str(step["step_params"]["data_dir"]))
        self.identity = identity
        self.document = _document(step, chunks, parsed)

    def result(self) -> dict[str, Any]:
        return {"rag_document_id": self.document.id, "chunks": len(self.document.chunks)}


async def _load(step: StepContext) -> _Loaded | dict[str, Any]:
    doc_hash = step["doc_hash"]
    required(step["doc"], doc_hash)
    if not step["places"]:
        return REPLACED
    embedded = the_step(step["earlier"], WorkflowStepType.EMBED)
    parsed = the_step(step["earlier"], WorkflowStepType.PARSE)
    chunks = await read_json(doc_hash, ArtifactType.EMBEDDINGS, embedded.config_id)
    document = await read_json(doc_hash, ArtifactType.PARSED_JSON, parsed.config_id)
    return _Loaded(step, await identity_of(EmbedOptions.read(embedded.params)), chunks, document)


def _document(step: StepContext, chunks: Sequence[dict[str, Any]], parsed: dict[str, Any]) -> NewRagDocument:
    places, document = step["places"], step["doc"]
    uri = places[0].uri if places else document.hash
    known = {
        "source": places[0].source if places else None,
        "batch_id": step["batch_id"],
        "mime_type": document.mime_type,
    }
    return NewRagDocument(
        doc_hash=document.hash,
        uri=uri,
        title=title_of(document.doc_meta, chunks, uri),
        document=parsed,
        chunks=[
            RagChunk(
                id=chunk["id"],
                content=chunk["content"],
                order=order,
                embedding=chunk["embedding"],
                metadata=chunk["metadata"],
            )
            for order, chunk in enumerate(_wanted(chunks))
        ],
        metadata=index_metadata(known, document.doc_meta),
    )


def _wanted(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those without a stop phrase."""
    phrases = [phrase.lower() for phrase in get_settings().stop_phrases]
    return [chunk for chunk in chunks if not any(phrase in chunk["content"].lower() for phrase in phrases)]


def title_of(meta: dict[str, Any], chunks: Sequence[dict[str, Any]], uri: str) -> str:
    """What its metadata says, else the heading that its first chunks stand below, else the name of the file."""
    given = str(meta.get("title") or "").strip()
    headings = (heading for chunk in chunks[:3] for heading in chunk["metadata"].get("headings") or [])
    return given or next(headings, "") or Path(uri).name or uri


async def _others(documents: Sequence[_Loaded]) -> tuple[list[str], dict[str, Placement]]:
    """Contents that stood at the places of these documents before: those that are gone, and where the others live."""
    uri_ids = [place.id for each in documents for place in each.step["places"]]
    mine = {each.document.doc_hash for each in documents}
    rows = await Database.read(SQL.contents_of_places(uri_ids=uri_ids))
    others = [row for row in rows if row["hash"] not in mine]
    gone = sorted(row["hash"] for row in others if row["uri"] is None)
    live = [row for row in others if row["uri"] is not None]
    return gone, {row["hash"]: Placement(row["uri"], row["source"], row["batch_id"]) for row in live}


async def _note(stored: _Loaded) -> None:
    doc_hash, result = stored.document.doc_hash, stored.result()
    config_id = stored.step["run_step"].step_config_id
    noted = {**result, "database": stored.target}
    await write_json(doc_hash, ArtifactType.RAG, config_id, noted, is_short=True)
