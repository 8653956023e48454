"""`/document/ingest-document`: uploads."""

from __future__ import annotations

from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.fetching import fetch, schemes_in_words
from soliplex.ingester.lib.operations import Change, NewDocument, Uploaded
from soliplex.ingester.lib.storable import parse_object
from soliplex.ingester.lib.storage import Received, get_artifacts
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.forms import FilePart, read_form, validated
from soliplex.ingester.server.parameters import Id, Priority, Text, TextIfAny
from soliplex.ingester.server.slots import fetched_in_turn

router = APIRouter(prefix="/document", tags=["document"])

ANY_BYTES: Final = "application/octet-stream"


def _never_null(schema: dict[str, Any]) -> None:
    """Describe a field that may be left out as what it is when it is there: a form cannot say null."""
    del schema["default"]
    number, _null = schema.pop("anyOf")
    schema.update({**number, **schema})


class UploadFields(BaseModel):
    """The fields of an upload, beside its file."""

    source_uri: Text = Field(description="Where the document lives in its source.", examples=["/finance/q4-report.pdf"])
    source: Text = Field(description="The system it comes from.", examples=["sharepoint"])
    batch_id: Id
    input_uri: TextIfAny | None = Field(
        default=None,
        description=f"Where to fetch the document from, in place of a file: {schemes_in_words()}.",
    )
    mime_type: TextIfAny | None = Field(
        default=None, description="Believed where the content says nothing of its type."
    )
    doc_meta: str = Field(
        default="{}",
        description="A JSON object, merged into what is known of the content. In the index, values named source, "
        "batch_id, mime_type or doc_hash stand under `doc_meta.` and that name: these names are the ingester's own.",
    )
    priority: Priority | None = Field(
        default=None,
        json_schema_extra=_never_null,
        description="Priority of the runs that start-workflows makes for this content, in place of the batch's own: "
        "higher goes first. It is kept until another is sent; 0 takes it back.",
    )


class IngestedDocument(BaseModel):
    """Where the document lives now."""

    batch_id: int
    document_uri: str
    document_hash: str
    source: str
    uri_id: int


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
            }
        },
    }
}
_MOVED: Final[dict[int | str, dict[str, Any]]] = {
    203: {"model": IngestedDocument, "description": "The same content lived there already, in another batch."}
}


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
    """Send a file, or the address to fetch it from. The document is hashed while it comes, and its bytes are durable
    before a row tells of them.

    203 says that this URI had this content already, in another batch; it is in this one from now on.
    """
    upload = _Upload(request.app.state.settings)
    try:
        uploaded = await upload.upload(request)
    finally:
        await upload.discard()
    if uploaded.change is Change.MOVED:
        response.status_code = HTTPStatus.NON_AUTHORITATIVE_INFORMATION
    assert uploaded.batch_id is not None, "an upload goes into a batch"
    return IngestedDocument(
        batch_id=uploaded.batch_id,
        document_uri=uploaded.uri,
        document_hash=uploaded.doc_hash,
        source=uploaded.source,
        uri_id=uploaded.uri_id,
    )


class _Upload:
    """One upload, from its form to its rows."""

    def __init__(self, settings: Settings) -> None:
        self._limit = int(settings.upload_size_limit)
        self._received: Received | None = None
        self._declared: str | None = None
        self._checked: tuple[dict[str, str], UploadFields] | None = None
        """The fields that came before the file: they are in order, and the batch is there."""

    async def upload(self, request: Request) -> Uploaded:
        form = await read_form(request, file="file", take=self._take)
        if self._checked is not None and self._checked[0] == form.fields:
            fields = self._checked[1]
        else:
            fields = validated(UploadFields, form.fields)
        new = self._new_document(fields)
        if self._received is not None:
            if self._checked is None:
                await operations.require_batch(new.checked().batch_id)
            received, self._received = self._received, None
            return await operations.upload_received(received, new)
        if fields.input_uri is None:
            raise InvalidInputError("file", "is missing: send a file, or an input_uri to fetch it from")
        async with aclosing(fetch(fields.input_uri, limit=self._limit)) as blocks:
            return await operations.upload_document(fetched_in_turn(request, blocks), new, limit=self._limit)

    async def discard(self) -> None:
        if self._received is not None:
            await get_artifacts().discard(self._received)

    async def _take(self, part: FilePart, fields: dict[str, str]) -> None:
        if set(fields) >= {"source_uri", "source", "batch_id"}:
            # The fields came first, as most clients send them: if one is wrong, that is told before the file is sent.
            checked = validated(UploadFields, fields)
            await operations.require_batch(self._new_document(checked).checked().batch_id)
            self._checked = dict(fields), checked
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
            priority=fields.priority,
        )
