"""What runs are about: the one place where views look beside the engine, at the documents that runs name."""

from __future__ import annotations

from collections.abc import Iterable

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, Document, DocumentInfo, DocumentURI, WorkflowRun


async def documents_of(runs: Iterable[WorkflowRun]) -> dict[int, DocumentInfo]:
    """The document of each run, by the run's id, under the URI it has in the run's batch, or else its first one."""
    about = {run.id: run for run in runs if run.id is not None and run.doc_id is not None}
    documents = await _documents({str(run.doc_id) for run in about.values()})
    places = await _places(documents)
    found: dict[int, DocumentInfo] = {}
    for run_id, run in about.items():
        document = documents.get(str(run.doc_id))
        if document is not None:
            found[run_id] = _info(document, _place(places.get(document.hash, []), run.batch_id))
    return found


async def _documents(hashes: Iterable[str]) -> dict[str, Document]:
    query = select(Document).where(col(Document.hash).in_(list(hashes)))
    async with Database.session(read_only=True) as session:
        return {document.hash: document for document in await session.exec(query)}


async def _places(hashes: Iterable[str]) -> dict[str, list[DocumentURI]]:
    """One URI for each batch a document is in: a document may live at thousands."""
    first = (
        select(func.min(DocumentURI.id).label("id"))
        .where(col(DocumentURI.doc_hash).in_(list(hashes)))
        .group_by(col(DocumentURI.doc_hash), col(DocumentURI.batch_id))
        .subquery()
    )
    query = select(DocumentURI).join(first, first.c.id == DocumentURI.id).order_by(col(DocumentURI.id))
    found: dict[str, list[DocumentURI]] = {}
    async with Database.session(read_only=True) as session:
        for place in await session.exec(query):
            found.setdefault(place.doc_hash, []).append(place)
    return found


def _place(places: list[DocumentURI], batch_id: int | None) -> DocumentURI | None:
    in_batch = (place for place in places if place.batch_id == batch_id)
    return next(in_batch, places[0] if places else None)


def _info(document: Document, place: DocumentURI | None) -> DocumentInfo:
    return DocumentInfo(
        uri=place.uri if place else None,
        source=place.source if place else None,
        file_size=document.file_size,
        mime_type=document.mime_type,
    )
