"""`/document/{hash}/raw` and `/document/{hash}/artifacts`: the bytes of a document, and what was made of them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.operations import Made
from soliplex.ingester.lib.operations.page_pictures import picture_of_page
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.storage.blob_keys import HASH
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Id

router = APIRouter(prefix="/document", tags=["document"])

DocumentHash = Annotated[str, Path(pattern=f"^{HASH.pattern}$", description="`sha256-` and 64 hexadecimal digits.")]
MARKDOWN: Final = "text/markdown; charset=utf-8"
_MEDIA_TYPES: Final = {
    ArtifactType.PARSED_MD: MARKDOWN,
    ArtifactType.PARSED_JSON: "application/json",
    ArtifactType.CHUNKS: "application/json",
    ArtifactType.EMBEDDINGS: "application/json",
}
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w-]+=[\w-]+)*", re.ASCII)
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
# The first is for programs that write clients, and know neither types of pictures nor one that stands for all.
_BYTES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/octet-stream": _BINARY, "*/*": _BINARY}}
}


@router.get(
    "/{doc_hash}/raw",
    summary="The bytes of a document",
    response_class=StreamingResponse,
    responses={**_BYTES, **error_answers(404)},
)
async def download(doc_hash: DocumentHash) -> StreamingResponse:
    """As they were uploaded, streamed. A browser saves them, and never shows them as a page of this server."""
    found = await operations.document_info(doc_hash)
    artifacts = get_artifacts()
    size = await artifacts.document_size(doc_hash)
    if size is None:
        raise NotFoundError("stored document", doc_hash)
    name = found.uris[0].uri.rstrip("/").rpartition("/")[2] if found.uris else doc_hash
    return StreamingResponse(
        artifacts.read_document(doc_hash),
        media_type=_media_type(found.document.mime_type),
        headers={"Content-Length": str(size), **_as_file(name), "ETag": f'"{doc_hash}"'},
    )


@router.get("/{doc_hash}/artifacts", summary="What was made of a document", responses=error_answers(404))
async def list_artifacts(doc_hash: DocumentHash) -> list[Made]:
    """Every artifact that its completed steps left in the store, those of its newest runs first."""
    await operations.document_info(doc_hash)
    return (await operations.stored_artifacts([doc_hash]))[doc_hash]


@router.get(
    "/{doc_hash}/artifacts/{artifact_type}",
    summary="One artifact of a document",
    response_class=Response,
    responses={**_BYTES, **error_answers(404)},
)
async def get_artifact(
    doc_hash: DocumentHash,
    artifact_type: ArtifactType,
    step_config_id: Annotated[Id | None, Query(description="Default: the newest there is.")] = None,
) -> Response:
    """Streamed: the vectors of a long text are gigabytes."""
    if artifact_type is ArtifactType.DOC:
        return await download(doc_hash)
    artifacts = get_artifacts()
    if step_config_id is None:
        made = [each for each in await list_artifacts(doc_hash) if each.artifact_type is artifact_type]
        if not made:
            raise NotFoundError(f"{artifact_type} of document", doc_hash)
        step_config_id = made[0].step_config_id
    return await streamed(
        artifacts.read_blocks(doc_hash, artifact_type, step_config_id),
        media_type=_MEDIA_TYPES.get(artifact_type, "application/octet-stream"),
        headers={"X-Step-Config-Id": str(step_config_id)},
    )


@router.get(
    "/{doc_hash}/pages/{number}",
    summary="A page of a document as a picture",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": _BINARY, "image/png": _BINARY}},
        **error_answers(404, 422, 503),
    },
)
async def get_page(
    doc_hash: DocumentHash, number: Annotated[Id, Path(description="Counted from one.", examples=[1])]
) -> Response:
    """PNG, of pages of PDFs and of documents that are pictures. Others have none, and are answered 404."""
    picture = await picture_of_page(doc_hash, number)
    return Response(picture, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


async def streamed(
    blocks: AsyncGenerator[bytes], *, media_type: str, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """An answer of these blocks. If there are none to be had, that is the answer: the first is read at once."""
    first = await anext(blocks, b"")
    return StreamingResponse(_continued(first, blocks), media_type=media_type, headers=headers)


async def _continued(first: bytes, blocks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(blocks):
        yield first
        async for block in blocks:
            yield block


def _media_type(given: str) -> str:
    """What the uploader said, where it can be said in a header."""
    return given if _MEDIA_TYPE.fullmatch(given) else "application/octet-stream"


def _as_file(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
