"""`/search`: questions to what was ingested."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from soliplex.ingester.lib.search import Hit, Scope, SearchKind, default_database, search_documents
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Id, Text

router = APIRouter(prefix="/search", tags=["search"])


class Found(BaseModel):
    """The passages that answer best, best first."""

    query: str
    db: str
    kind: SearchKind
    results: list[Hit]


@router.get("", summary="Search", responses=error_answers(400, 404))
async def search(
    q: Annotated[Text, Query(description="Words, or a question.", examples=["how is a write made durable"])],
    db: Annotated[Text | None, Query(description="Name of a RAG database. Default: that of the default set.")] = None,
    kind: Annotated[SearchKind, Query(description="By meaning, by words, or by both.")] = SearchKind.HYBRID,
    limit: Annotated[int, Query(ge=1, le=100, description="Most results.")] = 10,
    source: Annotated[Text | None, Query(description="Only documents of this source.")] = None,
    batch_id: Annotated[Id | None, Query(description="Only documents of this batch.")] = None,
    uri_prefix: Annotated[Text | None, Query(description="Only documents whose URI begins so.")] = None,
    meta: Annotated[
        list[Annotated[str, Field(pattern=r"^[^=\x00]+=[^\x00]*$", max_length=500)]] | None,
        Query(description="`name=value`: only documents with this in their metadata. May be repeated."),
    ] = None,
) -> Found:
    """Passages with the document, the headings and the pages they stand on."""
    facts = dict(each.split("=", 1) for each in meta or [])
    scope = Scope(source=source, batch_id=batch_id, uri_prefix=uri_prefix, metadata=facts)
    name = db or default_database()
    results = await search_documents(q, database=name, kind=kind, limit=limit, scope=scope)
    return Found(query=q, db=name, kind=kind, results=results)
