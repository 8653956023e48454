"""`/document/versions`, `/document/text`, `/document/diff` and `/document/rollback`: what a URI is and was."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from structlog.contextvars import bind_contextvars

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import PaginatedResponse
from soliplex.ingester.lib.operations import RolledBack, StoredVersion, VersionDiff
from soliplex.ingester.server.auditing import note
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.leaving import unless_client_leaves
from soliplex.ingester.server.parameters import ID_SCHEMA, LARGEST_INTEGER, AskedPage, Id, Text, given, required
from soliplex.ingester.server.parameters import required_id as required_number
from soliplex.ingester.server.routes.downloads import MARKDOWN, streamed

router = APIRouter(prefix="/document", tags=["document"])

type Versions = list[StoredVersion] | PaginatedResponse[StoredVersion]

URI = Annotated[Text, Query(description="Where the document lives in its source.", examples=["/handbook/office.md"])]
Source = Annotated[Text, Query(description="The system it comes from.", examples=["files"])]

_HASHES: Final = tuple(f"sha256-{digit * 64}" for digit in "ab")
_VERSION: Final[dict[str, Any]] = {
    "version": 3,
    "hash": _HASHES[0],
    "action": "updated",
    "process_date": "2026-11-16T09:30:00Z",
    "batch_id": 7,
    "file_size": 5120,
    "mime_type": "text/markdown",
    "is_current": True,
    "is_stored": True,
    "artifacts": ["chunks", "embeddings", "parsed_json", "parsed_markdown", "rag"],
    "rolled_back_to": 1,
    "histmeta": {"rolled_back_to": 1},
}
_PLACE: Final = {"uri": "/handbook/office.md", "source": "files"}
_DIFF: Final[dict[str, Any]] = {
    **_PLACE,
    "from_version": 1,
    "from_hash": _HASHES[0],
    "to_version": 2,
    "to_hash": _HASHES[1],
    "text": {
        "added_lines": 1,
        "removed_lines": 1,
        "unified": "--- …\n+++ …\n@@ -3 +3 @@\n-The team meets on Monday.\n+The team meets on Thursday.",
        "is_same_configuration": True,
    },
    "chunks": {
        "kept": 11,
        "added": 1,
        "removed": 1,
        "chunks": [
            {
                "change": "added",
                "id": "5f0c",
                "headings": ["The office", "Meetings"],
                "page_numbers": [2],
                "content": "The team meets on Thursday.",
            }
        ],
        "is_same_configuration": True,
    },
}
_ROLLED_BACK: Final[dict[str, Any]] = {
    **_PLACE,
    "rolled_back_to": 1,
    "version": 3,
    "hash": _HASHES[0],
    "is_changed": True,
    "runs": [
        {
            "run_group_id": 12,
            "workflow_run_id": 345,
            "workflow_definition_id": "batch",
            "param_definition_id": "default",
        }
    ],
}


def _example(value: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"example": value}}}


@router.get(
    "/versions",
    summary="The versions of a URI, the newest first",
    response_model=Versions,
    responses={200: _example([_VERSION]), **error_answers(400, 404)},
)
async def list_versions(request: Request, response: Response, asked: AskedPage, uri: URI, source: Source) -> Any:
    """With what is still stored of each: a version whose bytes are there can be rolled back to.

    `cleanup-orphans` deletes the content of older versions that lives nowhere else; those are not listed any more.
    """
    return await asked.answer(await operations.list_versions(uri, source, paging=asked.paging), request, response)


@router.get(
    "/text",
    summary="The text of a document",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}, **error_answers(400, 404, 409)},
)
async def get_text(
    uri: URI,
    source: Source,
    version: Annotated[Id | None, Query(description="Default: the current one.")] = None,
) -> Response:
    """As Markdown, streamed, as the newest run that parsed it has read it. 409 where it was never parsed."""
    return await streamed(await operations.version_text(uri, source, version), media_type=MARKDOWN)


@router.get(
    "/diff",
    summary="What differs between two versions of a URI",
    response_model=VersionDiff,
    responses={200: _example(_DIFF), **error_answers(400, 404, 409, 503)},
)
async def diff_versions(
    request: Request,
    uri: URI,
    source: Source,
    from_version: Annotated[Id | None, Query(alias="from", description="Default: the one before `to`.")] = None,
    to_version: Annotated[Id | None, Query(alias="to", description="Default: the current one.")] = None,
    context: Annotated[int, Query(ge=0, le=1000, description="Lines shown around each change.")] = 3,
) -> Response:
    """The parsed text line by line, and the chunks: kept, added and removed. 409 where one of the two was never parsed.

    422 where the two are too large to be compared, or it takes too long; the work ends when the client goes away.

    A chunk is kept if it has the same text below the same headings; it needs no new vector.
    """
    work = operations.diff_versions_as_json(uri, source, from_version, to_version, context=context)
    return Response(await unless_client_leaves(request, work), media_type="application/json")


_NAMED: Final = {"type": "string", "minLength": 1}
_FIELDS: Final[dict[str, Any]] = {
    "uri": {**_NAMED, "examples": ["/handbook/office.md"]},
    "source": {**_NAMED, "examples": ["files"]},
    "version": {**ID_SCHEMA, "examples": [1]},
    "workflow_definition_id": {**_NAMED, "description": "Default: what processed that version before."},
    "param_id": {**_NAMED, "description": "Default: what that version was processed with."},
    "priority": {"type": "integer", "minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER, "default": 0},
}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": _FIELDS, "required": ["uri", "source", "version"]},
                "example": {**_PLACE, "version": 1},
            }
        },
    }
}


@router.post(
    "/rollback",
    summary="Give a URI the content of an earlier version again",
    status_code=HTTPStatus.CREATED,
    openapi_extra=_BODY,
    responses={
        201: _example(_ROLLED_BACK),
        200: {"model": RolledBack, "description": "The URI had this content already: nothing was done."},
        **error_answers(400, 404, 409),
    },
)
async def roll_back(request: Request, response: Response) -> RolledBack:
    """The content becomes the newest version; history is only added to. Fields stand in a form or in a JSON object.

    The same transaction starts the runs that bring the RAG databases up to date, with the workflows and parameter sets
    that processed that version before. They parse and embed nothing that is still stored, and replace the chunks in one
    commit. 409 where the version's bytes are gone.
    """
    uri, source = await required(request, "uri"), await required(request, "source")
    version = await required_number(request, "version")
    note(request, uri=uri, source=source, version=version)
    done = await operations.roll_back(
        uri,
        source,
        version,
        workflow_id=await given(request, "workflow_definition_id") or None,
        param_id=await given(request, "param_id") or None,
        priority=await _priority(request),
    )
    if not done.is_changed:
        response.status_code = HTTPStatus.OK
    if done.runs:
        bind_contextvars(run_group_id=done.runs[0].run_group_id)
    return done


async def _priority(request: Request) -> int:
    text = (await given(request, "priority") or "0").strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or int(digits[:20]) > LARGEST_INTEGER:
        raise InvalidInputError("priority", f"must be a whole number between -{LARGEST_INTEGER} and {LARGEST_INTEGER}")
    return int(text)
