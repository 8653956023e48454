"""`/document`: uploads, what is known of documents, deleting them and cleaning up."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.fetching import fetch
from soliplex.ingester.lib.models import Document, DocumentURI, DocumentURIHistory, PaginatedResponse
from soliplex.ingester.lib.operations import Change, Ingested, NewDocument
from soliplex.ingester.lib.operations.checks import parse_object
from soliplex.ingester.lib.storage import Received, get_artifacts
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.forms import FilePart, read_form, validated
from soliplex.ingester.server.parameters import AskedPage, Id, Priority, Text, TextIfAny, required

router = APIRouter(prefix="/document", tags=["document"])

type URIs = list[DocumentURI] | PaginatedResponse[DocumentURI]

ANY_BYTES: Final = "application/octet-stream"


class UploadFields(BaseModel):
    """The fields of an upload, beside its file."""

    source_uri: Text = Field(description="Where the document lives in its source.", examples=["/finance/q4-report.pdf"])
    source: Text = Field(description="The system it comes from.", examples=["sharepoint"])
    batch_id: Id
    input_uri: TextIfAny | None = Field(
        default=None,
        description="Where to fetch the document from, in place of a file: `file://`, `s3://`, `https://`.",
    )
    mime_type: TextIfAny | None = Field(default=None, description="Counts where the content does not say what it is.")
    doc_meta: str = Field(default="{}", description="A JSON object, merged into what is known of the content.")
    priority: Priority = Field(default=0, description="Taken and not used: that of start-workflows decides.")


class IngestedDocument(BaseModel):
    """Where the document lives now."""

    batch_id: int
    document_uri: str
    document_hash: str
    source: str
    uri_id: int


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


_UPLOAD_SCHEMA: Final = UploadFields.model_json_schema()
_UPLOAD_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    **_UPLOAD_SCHEMA,
                    "properties": {
                        "file": {"type": "string", "format": "binary", "description": "The document itself."},
                        **_UPLOAD_SCHEMA["properties"],
                    },
                }
            },
            "application/x-www-form-urlencoded": {"schema": _UPLOAD_SCHEMA},
        },
    }
}
_NAMED: Final = {"type": "string", "minLength": 1}
_MOVED: Final[dict[int | str, dict[str, Any]]] = {
    203: {"model": IngestedDocument, "description": "The same content lived there already, in another batch."}
}


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
    return asked.answer(page, request, response)


@router.post(
    "/upload",
    summary="As ingest-document",
    status_code=HTTPStatus.CREATED,
    openapi_extra=_UPLOAD_BODY,
    responses={**_MOVED, **error_answers(400, 404, 409, 413, 429)},
)
@router.post(
    "/ingest-document",
    summary="Take in a document",
    status_code=HTTPStatus.CREATED,
    openapi_extra=_UPLOAD_BODY,
    responses={**_MOVED, **error_answers(400, 404, 409, 413, 429)},
)
async def ingest_document(request: Request, response: Response) -> IngestedDocument:
    """Send a file, or the address to fetch it from. It is hashed as it comes, and its bytes are safe before its row.

    203 says that this URI had this content already, in another batch; it is in this one from now on.
    """
    upload = _Upload(request.app.state.settings)
    try:
        ingested = await upload.ingest(request)
    finally:
        await upload.discard()
    if ingested.change is Change.MOVED:
        response.status_code = HTTPStatus.NON_AUTHORITATIVE_INFORMATION
    return IngestedDocument(
        batch_id=ingested.batch_id,
        document_uri=ingested.uri,
        document_hash=ingested.doc_hash,
        source=ingested.source,
        uri_id=ingested.uri_id,
    )


class _Upload:
    """One upload, from its form to its rows."""

    def __init__(self, settings: Settings) -> None:
        self._limit = int(settings.upload_size_limit)
        self._received: Received | None = None
        self._declared: str | None = None
        self._batch_is_known = False

    async def ingest(self, request: Request) -> Ingested:
        form = await read_form(request, file="file", take=self._take)
        fields = validated(UploadFields, form.fields)
        new = self._new_document(fields)
        if self._received is not None:
            if not self._batch_is_known:
                await operations.require_batch(new.checked().batch_id)
            received, self._received = self._received, None
            return await operations.ingest_received(received, new)
        if fields.input_uri is None:
            raise InvalidInputError("file", "is missing: send a file, or an input_uri to fetch it from")
        return await operations.ingest_document(fetch(fields.input_uri, limit=self._limit), new, limit=self._limit)

    async def discard(self) -> None:
        if self._received is not None:
            await get_artifacts().discard(self._received)

    async def _take(self, part: FilePart, fields: dict[str, str]) -> None:
        if set(fields) >= {"source_uri", "source", "batch_id"}:
            # They came first, as most clients send them: what is wrong with them is told before the file is sent.
            new = self._new_document(validated(UploadFields, fields)).checked()
            await operations.require_batch(new.batch_id)
            self._batch_is_known = True
        received = await get_artifacts().receive(part.content, limit=self._limit, expected=part.expected, hold=True)
        self._received = received
        if part.content_type and not part.content_type.startswith(ANY_BYTES):
            self._declared = part.content_type
        if not part.filename and received.size == 0:
            # What a browser sends for a file that nobody chose.
            await self.discard()
            self._received = None

    def _new_document(self, fields: UploadFields) -> NewDocument:
        return NewDocument(
            uri=fields.source_uri,
            source=fields.source,
            batch_id=fields.batch_id,
            mime_type=fields.mime_type or self._declared,
            meta=parse_object("doc_meta", fields.doc_meta),
        )


@router.get("/find", summary="URIs that contain a text", response_model=URIs, responses=error_answers(400))
async def find_documents(
    request: Request,
    response: Response,
    asked: AskedPage,
    pattern: Annotated[Text, Query(description="Any part of a URI, whatever its case.", examples=["report"])],
) -> Any:
    return asked.answer(await operations.find_documents(pattern, paging=asked.paging), request, response)


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
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": _NAMED} for name in ("uri", "source")
        ],
        "requestBody": {
            "required": False,
            "content": {
                kind: {
                    "schema": {
                        "type": "object",
                        "properties": {"uri": _NAMED, "source": _NAMED},
                    }
                }
                for kind in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
            },
        },
    },
    responses=error_answers(400, 404, 409),
)
async def delete_by_uri(request: Request) -> DeletedURI:
    """`uri` and `source` stand in the query or in the body. All that is known and stored of the document goes too."""
    uri, source = await required(request, "uri"), await required(request, "source")
    statistics = await operations.delete_document_uri_by_uri(uri, source)
    return DeletedURI(message="DocumentURI deleted successfully", uri=uri, source=source, statistics=statistics)


@router.get(
    "/validate_storage",
    summary="Whether the documents of a batch are stored, and undamaged",
    response_model_exclude_none=True,
    responses=error_answers(404),
)
async def validate_storage(
    batch_id: Annotated[Id, Query()],
    *,
    clean_up: Annotated[bool, Query(description="Delete what is known of documents that are not stored.")] = False,
) -> ValidatedStorage:
    return ValidatedStorage.model_validate(await operations.validate_storage(batch_id, clean_up=clean_up))


@router.get("/{doc_hash}", summary="A document and its URIs", responses=error_answers(404))
async def get_document(doc_hash: str) -> DocumentWithURIs:
    return DocumentWithURIs.model_validate(await operations.document_info(doc_hash))


@router.get("/{doc_hash}/history", summary="What happened to a document", responses=error_answers(404))
async def get_history(doc_hash: str) -> list[DocumentURIHistory]:
    """At all URIs where it lives or lived, the earliest first."""
    return await operations.document_history(doc_hash)
