"""`/document`: what is known of documents, deleting them and cleaning up."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.answers import FoundDocuments, HeldIn, KnownSource
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Document, DocumentURI, DocumentURIHistory, PaginatedResponse, WorkflowRun
from soliplex.ingester.lib.storable import parse_texts
from soliplex.ingester.lib.wf import views
from soliplex.ingester.server.auditing import deletes, note
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, Id, LongText, Text, TextIfAny, required

router = APIRouter(prefix="/document", tags=["document"])

type URIs = list[DocumentURI] | PaginatedResponse[DocumentURI]


class DocumentWithURIs(BaseModel):
    """A document and the places it lives at."""

    model_config = ConfigDict(from_attributes=True)

    document: Document
    uris: list[DocumentURI]


class Statistics(BaseModel):
    """What was done, and how much of it."""

    message: str
    statistics: dict[str, int]


class DeletedURI(Statistics):
    """What was deleted with a URI."""

    uri: str
    source: str


class URIsBelow(BaseModel):
    """URIs of a source, in their order."""

    source: str
    uris: list[str]
    is_last: bool
    """Whether there are none after them."""


class UnreadKinds(BaseModel):
    """MIME types that are not read, with the reason for each."""

    unread: dict[str, str]


class DeletedURIs(Statistics):
    """What was deleted with some URIs of a source."""

    source: str
    deleted: int
    """How many of the URIs were there, and are gone now."""


class ValidatedStorage(BaseModel):
    """How the documents of a batch were found."""

    model_config = ConfigDict(from_attributes=True)

    batch_id: int
    total: int
    valid: int
    missing: int
    missing_hashes: list[str]
    damaged_hashes: list[str]
    cleanup_stats: dict[str, int] | None = None


_NAMED: Final = {"type": "string", "minLength": 1}


@router.get("/", summary="The URIs of a source or a batch", response_model=URIs, responses=error_answers(400, 404))
async def list_documents(
    request: Request,
    response: Response,
    asked: AskedPage,
    source: Annotated[Text | None, Query()] = None,
    batch_id: Annotated[Id | None, Query()] = None,
) -> Any:
    if source is not None:
        page = await operations.documents_of_source(source, paging=asked.paging)
    elif batch_id is not None:
        page = await operations.documents_of_batch(batch_id, paging=asked.paging)
    else:
        raise InvalidInputError("source", "is missing, and so is batch_id: say which documents you want")
    return await asked.answer(page, request, response)


@router.get("/find", summary="URIs that contain a text", response_model=URIs, responses=error_answers(400))
async def find_documents(
    request: Request,
    response: Response,
    asked: AskedPage,
    pattern: Annotated[Text, Query(description="Any part of a URI, whatever its case.", examples=["report"])],
) -> Any:
    return await asked.answer(await operations.find_documents(pattern, paging=asked.paging), request, response)


@router.get("/look", summary="Look for documents by a part of their name", responses=error_answers(400, 404))
async def look_for_documents(
    q: Annotated[TextIfAny, Query(description="Any part of a URI, whatever its case.", examples=["report"])] = "",
    source: Annotated[Text | None, Query(description="Only documents of this source.")] = None,
    batch_id: Annotated[Id | None, Query(description="Only documents of this batch, in the order they came.")] = None,
    after: Annotated[Text | None, Query(description="`next` of the last answer, to go on after it.")] = None,
    limit: Annotated[int, Query(ge=1, le=operations.MOST_SHOWN, description="Most documents of one answer.")] = 50,
) -> FoundDocuments:
    """In the order of source and URI, each with how the newest run of its document fares.

    One look goes through 50,000 documents at most, so it takes as long with ten million as with few; `next` says that
    there is more to look through.
    """
    return await operations.look_for_documents(q, source=source, batch_id=batch_id, after=after, limit=limit)


@router.get("/sources", summary="The sources that documents come from")
async def list_sources() -> list[KnownSource]:
    """By name, each with the number of URIs at which its documents live."""
    return await operations.list_sources()


@router.get("/uris", summary="The URIs of a source that begin with a text", responses=error_answers(400))
async def list_uris(
    source: Annotated[Text, Query(description="The system they come from.", examples=["files"])],
    uri_prefix: Annotated[TextIfAny, Query(description="How the URIs begin; a folder ends with `/`.")] = "",
    after: Annotated[TextIfAny, Query(description="The last URI that is known already, to go on after it.")] = "",
    limit: Annotated[int, Query(ge=1, le=operations.MOST_URIS)] = operations.MOST_URIS,
) -> URIsBelow:
    """In an order of the database's own, piece by piece: ask again with the last URI as `after` until `is_last`."""
    uris = await operations.uris_below(source, uri_prefix, after=after, most=limit)
    return URIsBelow(source=source, uris=uris, is_last=len(uris) < limit)


@router.get(
    "/unread-kinds", summary="Which kinds of documents a workflow cannot read", responses=error_answers(400, 404)
)
async def list_unread_kinds(
    kind: Annotated[list[Text], Query(description="MIME types.", examples=[["video/mp4"]])],
    workflow_definition_id: Annotated[Text | None, Query(description="Default: DEFAULT_WORKFLOW_ID.")] = None,
    param_id: Annotated[Text | None, Query(description="Default: DEFAULT_PARAM_ID.")] = None,
) -> UnreadKinds:
    """A client that asks this need not send documents that nobody reads."""
    found = await operations.unread_kinds(kind, workflow_id=workflow_definition_id, param_id=param_id)
    return UnreadKinds(unread=found)


@router.post("/delete-uris", summary="Delete many URIs of a source", responses=error_answers(400, 409))
async def delete_uris(
    request: Request,
    source: Annotated[Text, Form(description="The system they come from.", examples=["files"])],
    uris: Annotated[
        LongText, Form(description="A JSON array of URIs, ten thousand at most.", examples=['["/a.pdf", "/b.pdf"]'])
    ],
) -> DeletedURIs:
    """As `by-uri` does for each; a URI that is gone already is passed over."""
    named = parse_texts("uris", uris, most=operations.MOST_URIS)
    note(request, source=source, uris=named, count=len(named))
    deleted = await operations.delete_uris(source, named)
    return DeletedURIs(
        message="Document URIs deleted",
        source=source,
        deleted=deleted.document_uris,
        statistics=deleted.statistics(),
    )


@router.post("/cleanup-orphans", summary="Delete documents that live nowhere")
async def cleanup_orphans() -> Statistics:
    """Documents without a URI, with their history; and bytes that belong to no document.

    The content of an older version of a URI is such a document, unless it lives somewhere else: afterwards the URI
    cannot be rolled back to it. `deleted_versions` says how many versions that are.
    """
    return Statistics(message="Orphaned documents cleaned up", statistics=await operations.cleanup_orphans())


@router.delete(
    "/by-uri",
    summary="Delete a URI, and with its last URI the document",
    openapi_extra={
        "parameters": [{"name": name, "in": "query", "required": True, "schema": _NAMED} for name in ("uri", "source")]
    },
    responses=error_answers(400, 404, 409),
)
async def delete_by_uri(request: Request) -> DeletedURI:
    """`uri` and `source` may stand in the body, too. All that is known and stored of the document goes too."""
    uri, source = await required(request, "uri"), await required(request, "source")
    note(request, uri=uri, source=source)
    statistics = await operations.delete_document_uri_by_uri(uri, source)
    return DeletedURI(message="DocumentURI deleted successfully", uri=uri, source=source, statistics=statistics)


@router.get(
    "/validate_storage",
    summary="Whether the documents of a batch are stored, and undamaged",
    response_model_exclude_none=True,
    responses=error_answers(404),
)
@router.post(
    "/validate_storage",
    summary="Whether the documents of a batch are stored, and undamaged",
    response_model_exclude_none=True,
    responses=error_answers(404),
)
async def validate_storage(
    request: Request,
    batch_id: Annotated[Id, Query()],
    *,
    clean_up: Annotated[bool, Query(description="Delete what is known of documents that are not stored.")] = False,
) -> ValidatedStorage:
    if clean_up:
        await deletes(request)
    return ValidatedStorage.model_validate(await operations.validate_storage(batch_id, clean_up=clean_up))


@router.get("/{doc_hash}", summary="A document and its URIs", responses=error_answers(404))
async def get_document(doc_hash: str) -> DocumentWithURIs:
    return DocumentWithURIs.model_validate(await operations.document_info(doc_hash))


@router.get("/{doc_hash}/history", summary="What happened to a document", responses=error_answers(404))
async def get_history(doc_hash: str) -> list[DocumentURIHistory]:
    """What happened at all URIs where the document lives or lived, the earliest first."""
    return await operations.document_history(doc_hash)


@router.get("/{doc_hash}/databases", summary="Where searches find a document", responses=error_answers(404))
async def list_databases(doc_hash: str) -> list[HeldIn]:
    """The RAG databases that its runs stored it into, and what each of them has of it now."""
    return await operations.databases_holding(doc_hash)


@router.get(
    "/{doc_hash}/runs",
    summary="The runs of a document, the newest first",
    response_model=list[WorkflowRun] | PaginatedResponse[WorkflowRun],
    responses=error_answers(404),
)
async def list_runs(doc_hash: str, request: Request, response: Response, asked: AskedPage) -> Any:
    """Whichever of its places they were started for: one content is processed once."""
    await operations.document_info(doc_hash)
    return await asked.answer(await views.list_runs(doc_id=doc_hash, paging=asked.paging), request, response)
