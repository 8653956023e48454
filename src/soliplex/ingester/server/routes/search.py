"""`/search`: questions to what was ingested. `/chunk`: a passage by its id."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from soliplex.ingester.lib.search import (
    Hit,
    Scope,
    SearchKind,
    StoredChunk,
    default_database,
    search_documents,
    stored_chunk,
)
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Id, Text

router = APIRouter(tags=["search"])

Db = Annotated[Text | None, Query(description="Name of a RAG database. Default: that of the default set.")]


class Found(BaseModel):
    """The passages that answer best, best first: for `hybrid` that is the order of both ways fused, not of scores."""

    query: str
    db: str
    kind: SearchKind
    results: list[Hit]


@router.get("/search", summary="Search", responses=error_answers(400, 404))
async def search(
    q: Annotated[Text, Query(description="Words, or a question.", examples=["how is a write made durable"])],
    db: Db = None,
    kind: Annotated[SearchKind, Query(description="By meaning, by words, or by both.")] = SearchKind.HYBRID,
    limit: Annotated[int, Query(ge=1, le=100, description="Most results.")] = 10,
    min_score: Annotated[
        float | None,
        Query(
            allow_inf_nan=False,
            description="Only results whose score is at least this: from -1 to 1 for `vector` and `hybrid`, "
            "from 0 up for `text`.",
            examples=[0.3],
        ),
    ] = None,
    source: Annotated[Text | None, Query(description="Only documents of this source.")] = None,
    batch_id: Annotated[Id | None, Query(description="Only documents of this batch.")] = None,
    uri_prefix: Annotated[Text | None, Query(description="Only documents whose URI begins so.")] = None,
    meta: Annotated[
        list[Annotated[str, Field(pattern=r"^[^=\x00]+=[^\x00]*$", max_length=500)]] | None,
        Query(description="`name=value`: only documents with this in their metadata. May be repeated."),
    ] = None,
) -> Found:
    """Passages with the document, the headings and the pages they stand on.

    A result's `score` says how well it fits by itself, whatever else was found. For `vector` and `hybrid` it is the
    cosine of the angle between the vectors of the question and the passage, from -1 to 1; for `text` it is BM25, from
    0 up. Order and score are two things: a `hybrid` search orders by meaning and words together.

    A document that lives at several places fits if one of them does: `source`, `batch_id` and `uri_prefix` are asked of
    the same place. `uri` and `source` of a result are those of that place, `places` has all of them.
    """
    facts = dict(each.split("=", 1) for each in meta or [])
    scope = Scope(source=source, batch_id=batch_id, uri_prefix=uri_prefix, metadata=facts)
    name = db or await default_database()
    results = await search_documents(q, database=name, kind=kind, limit=limit, scope=scope, min_score=min_score)
    return Found(query=q, db=name, kind=kind, results=results)


@router.get("/chunk/{chunk_id}", summary="A passage by its id", responses=error_answers(404))
async def get_chunk(
    chunk_id: Annotated[
        Text, Path(description="`chunk_id` or `rag_chunk_id` of a result, or an `id` in an artifact `chunks`.")
    ],
    db: Db = None,
    doc_hash: Annotated[
        Text | None,
        Query(
            description="Only in this document. By `chunk_id` alone all rows of a large database are looked through."
        ),
    ] = None,
) -> StoredChunk:
    """The whole text, and the documents that hold it.

    `chunk_id` is the `id` of the chunk in the artifact `chunks` of each of these documents
    (`GET /document/{doc_hash}/artifacts/chunks`).
    """
    return await stored_chunk(chunk_id, database=db, doc_hash=doc_hash)
