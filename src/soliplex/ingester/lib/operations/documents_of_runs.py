"""What runs are about: the documents that runs name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, Document, DocumentInfo, DocumentURI, WorkflowRun
from soliplex.ingester.lib.pieces import in_pieces
from soliplex.ingester.lib.wf.views.paging import rows_in_pieces


class About(NamedTuple):
    """What a run says of its document: the hash, and the batch in which the run was started."""

    doc_hash: str
    batch_id: int | None


async def documents_of(runs: Iterable[WorkflowRun]) -> dict[int, DocumentInfo]:
    """The document of each run, by the run's id, as `documents_by_run` gives it."""
    return await documents_by_run(
        {run.id: About(run.doc_id, run.batch_id) for run in runs if run.id is not None and run.doc_id is not None}
    )


async def documents_by_run(about: Mapping[int, About]) -> dict[int, DocumentInfo]:
    """The documents by the ids of runs: each under the first URI that it has in the run's batch, or else anywhere."""
    documents = await _documents({each.doc_hash for each in about.values()})
    places = await _places(documents)
    found: dict[int, DocumentInfo] = {}
    async for some in in_pieces(about.items()):
        for run_id, each in some:
            document = documents.get(each.doc_hash)
            if document is not None:
                found[run_id] = _info(document, _place(places.get(document.hash, []), each.batch_id))
    return found


async def _documents(hashes: Iterable[str]) -> dict[str, Document]:
    query = select(Document).where(col(Document.hash).in_(list(hashes)))
    async with Database.session(read_only=True) as session:
        return {document.hash: document async for document in rows_in_pieces(session, query)}


async def _places(hashes: Iterable[str]) -> dict[str, list[DocumentURI]]:
    """The first URI of each document in each batch it is in: a document may live at thousands of URIs."""
    first = (
        select(func.min(DocumentURI.id).label("id"))
        .where(col(DocumentURI.doc_hash).in_(list(hashes)))
        .group_by(col(DocumentURI.doc_hash), col(DocumentURI.batch_id))
        .subquery()
    )
    query = select(DocumentURI).join(first, first.c.id == DocumentURI.id).order_by(col(DocumentURI.id))
    found: dict[str, list[DocumentURI]] = {}
    async with Database.session(read_only=True) as session:
        async for place in rows_in_pieces(session, query):
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
