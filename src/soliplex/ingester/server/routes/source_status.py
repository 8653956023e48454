"""`/source-status`: what a client has against what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.pieces import json_in_pieces, read_large_object
from soliplex.ingester.lib.storable import see_storable
from soliplex.ingester.lib.storage import DocumentTooLargeError
from soliplex.ingester.server.auditing import deletes
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.forms import FilePart, read_form, validated
from soliplex.ingester.server.parameters import Text, json_answer

router = APIRouter(prefix="/source-status", tags=["source-status"])

LARGEST: Final = 256 << 20
"""Bytes of the hashes: room for about a million URIs."""
FIELD: Final = "hashes"
ESCAPED: Final = "\\u"
"""If this stands in the JSON, its texts may hold escaped characters that cannot be stored."""


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
# One kind of form, as everywhere: clients that are generated from the document do not compile where there are two.
_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": _SCHEMA}}}
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
async def source_status(request: Request) -> Response:
    """A million URIs may be asked about at once."""
    form = await read_form(request, file="hashes", take=_read_hashes, largest=LARGEST)
    # The hashes are read already, as they came: the model only sees whether there were any.
    sent = validated(Sent, form.fields | ({} if form.file is None else {"hashes": "{}"}))
    if sent.delete_stale:
        await deletes(request, source=sent.source)
    found = await operations.source_status(sent.source, form.file or {}, delete_stale=sent.delete_stale)
    # Not by a model: to validate very many rows that were made here would take longer than finding them.
    status = await json_in_pieces(found.status)
    if sent.delete_stale:
        status = [b'{"status":', *status, b',"deleted_count":%d}' % found.deleted_count]
    return json_answer(status)


async def _read_hashes(part: FilePart, _fields: Mapping[str, str]) -> dict[str, Any] | None:
    """The hashes; None if the field was left empty."""
    hashes: dict[str, Any] = {}
    sent = _Counted(part.content)
    try:
        async for some in read_large_object(sent.blocks()):
            see_storable(FIELD, ESCAPED, some)
            hashes |= some
    except RecursionError:
        raise InvalidInputError(FIELD, "is nested too deeply") from None
    except UnicodeDecodeError as exc:
        raise InvalidInputError(FIELD, "must be UTF-8 text") from exc
    except ValueError as exc:
        if not sent.size:
            return None
        raise InvalidInputError(FIELD, f"must be a valid JSON object ({exc})") from exc
    return hashes


class _Counted:
    """Blocks of a field, as long as they are not too many."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        self._content = content
        self.size = 0

    async def blocks(self) -> AsyncIterator[bytes]:
        async for block in self._content:
            self.size += len(block)
            if self.size > LARGEST:
                raise DocumentTooLargeError(LARGEST, f"{FIELD}: is larger than {LARGEST} bytes")
            yield block
