"""Asking a question of what was ingested."""

from __future__ import annotations

from typing import Final

from soliplex.ingester.lib.answers import MOST_HITS, Hit, SearchKind, problem_of_min_score
from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.rag.database_files import all_databases
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.readers import can_be_read
from soliplex.ingester.lib.rag.searching import Scope, search
from soliplex.ingester.lib.rag.stored_chunks import StoredChunk, find_chunk
from soliplex.ingester.lib.vectors import embed_question
from soliplex.ingester.lib.wf.operations.definitions import chosen_definitions

LONGEST_QUESTION: Final = 10_000

__all__ = ["Hit", "Scope", "SearchKind", "StoredChunk", "default_database", "search_documents", "stored_chunk"]


async def default_database() -> str:
    """The database that the default parameters store into."""
    _, params = await chosen_definitions(None, None)
    return str(params.config.get("store", {}).get("data_dir", "lancedb"))


async def search_documents(
    question: str,
    *,
    database: str | None = None,
    kind: SearchKind = SearchKind.HYBRID,
    limit: int = 10,
    scope: Scope | None = None,
    min_score: float | None = None,
) -> list[Hit]:
    """The passages that answer a question best, with the document, the headings and the pages of each.

    With `min_score`, only those whose score is at least that.
    """
    text = question.replace("\x00", " ").strip()
    if not text:
        raise InvalidInputError("q", "is empty; give the words or the question to look for")
    if len(text) > LONGEST_QUESTION:
        raise InvalidInputError("q", f"is longer than {LONGEST_QUESTION:,} characters; shorten it")
    if min_score is not None and (problem := problem_of_min_score(kind, min_score)):
        raise InvalidInputError("min_score", problem)
    path = await _existing_path(database or await default_database())
    most = min(limit, MOST_HITS)
    return await search(path, text, embed_question, kind=kind, limit=most, scope=scope, min_score=min_score)


async def stored_chunk(chunk_id: str, *, database: str | None = None, doc_hash: str | None = None) -> StoredChunk:
    """A passage by its id, as a hit or the artifact has it."""
    path = await _existing_path(database or await default_database())
    found = await find_chunk(path, chunk_id, doc_hash)
    if found is None:
        raise NotFoundError("chunk", chunk_id)
    return found


async def _existing_path(name: str) -> str:
    path = rag_path(name)
    if not await can_be_read(path):
        known = ", ".join(await all_databases().names())
        hint = f"known are: {known}" if known else "nothing has been stored yet: ingest documents first"
        raise NotFoundError("RAG database", name, hint=hint)
    return path
