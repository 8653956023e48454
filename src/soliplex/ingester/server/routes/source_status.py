"""`/source-status`: what a client has against what is stored."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.operations.checks import parse_object
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.forms import read_form, validated
from soliplex.ingester.server.parameters import Text

router = APIRouter(prefix="/source-status", tags=["source-status"])

LARGEST: Final = 256 << 20
"""About a million URIs with their hashes."""


class Sent(BaseModel):
    """What a client has."""

    source: Text
    hashes: str = Field(
        min_length=1,
        description="A JSON object: for each URI its hash, or `{sha256, etag}`.",
        examples=['{"/a.pdf": "sha256-9f86d08…", "/b.pdf": {"sha256": "", "etag": "v1"}}'],
    )
    delete_stale: bool = Field(default=False, description="Delete what is stored of the source and was not sent.")


_SCHEMA = Sent.model_json_schema()
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {"schema": _SCHEMA},
            "multipart/form-data": {"schema": _SCHEMA},
        },
    }
}
_EXAMPLE: Final = {
    "/a.pdf": {"hash": "sha256-9f86d08…", "status": "matched"},
    "/b.pdf": {"source_hash": "sha256-60303ae…", "stored_hash": "sha256-fd61a03…", "status": "mismatch"},
    "/c.pdf": {"hash": "sha256-a4e624d…", "status": "new"},
}
_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The status of each URI; with delete_stale, below `status` beside `deleted_count`.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
    }
}


@router.post(
    "",
    summary="Which documents are new, changed or unchanged",
    openapi_extra=_BODY,
    responses={**_ANSWER, **error_answers(400, 413)},
)
async def source_status(request: Request) -> JSONResponse:
    """A hundred thousand URIs may be asked about at once."""
    form = await read_form(request, largest=LARGEST)
    sent = validated(Sent, form.fields)
    hashes = parse_object("hashes", sent.hashes, largest=LARGEST)
    found = await operations.source_status(sent.source, hashes, delete_stale=sent.delete_stale)
    # Not by a model: checking a hundred thousand rows that were made here would take longer than finding them.
    if sent.delete_stale:
        return JSONResponse({"status": found.status, "deleted_count": found.deleted_count})
    return JSONResponse(found.status)
