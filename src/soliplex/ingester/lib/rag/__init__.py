"""RAG databases: LanceDB, by haiku.rag. What is written here, the stock `haiku-rag` command can read.

    folder          where databases live, as the settings say
    locking         their names, and who may write to them: one at a time
    database_files  which there are, in a folder or a bucket; their sizes and checksums
    opening         haiku.rag, imported when it is needed
    lance_words     what LanceDB could not do, in words for people
    fencing         who has lost the lock cannot change anything any more
    creation        finishing a database whose creation was cut short
    metadata        what is said of a document: where it lives, and what its senders say
    writing         documents go in and out, many in one commit
    indexes         kept up with what is written
    readers         databases that stay open between searches
    scopes          which documents are searched
    searching       by meaning, by words, or by both
    wording         what of a question is looked for as words
    stored_chunks   one chunk, by its id
    inventory       which databases there are, and what is in them
    filters         a small language for choosing documents
    table_contents  what each table holds of a document, and whether that is whole
    upkeep          vacuum and checksum

Knows no steps and no HTTP.
"""

from __future__ import annotations

from soliplex.ingester.lib.rag.locking import (
    RagLock,
    RagLockedError,
    checked_rag_path,
    hold_rag_lock,
    problem_of_rag_name,
    rag_path,
    rag_resource_key,
)
from soliplex.ingester.lib.rag.upkeep import is_absent, record_checksum, vacuum
from soliplex.ingester.lib.rag.writing import delete_documents, place_documents

__all__ = [
    "RagLock",
    "RagLockedError",
    "checked_rag_path",
    "delete_documents",
    "hold_rag_lock",
    "is_absent",
    "place_documents",
    "problem_of_rag_name",
    "rag_path",
    "rag_resource_key",
    "record_checksum",
    "vacuum",
]
