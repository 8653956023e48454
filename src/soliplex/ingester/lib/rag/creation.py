"""Creating a RAG database, and finishing one whose creation was cut short.

A database is made as haiku.rag would make it: one table after the other, and the version of haiku.rag into the last. A
process that is killed between two of them, or a disk that is full, leaves a database that haiku.rag takes for a very
old one and never opens again. What is missing is added here, and nothing is removed: a table that exists is left as it
is, and of two processes that create the same table one fails. The table of settings gets a fence first, so that whoever
was stopped during the creation does not add its row later.

haiku.rag itself is not asked: to import it takes longer than to make the database.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from soliplex.ingester.lib.rag.fencing import Fence, FencedTable
from soliplex.ingester.lib.rag.opening import (
    EmbeddingIdentity,
    RagUnusableError,
    connect,
    haiku_version,
    imported,
    is_finished,
    read_settings,
)

_log = logging.getLogger(__name__)


async def complete(db_path: str | Path, identity: EmbeddingIdentity, fence: Fence) -> None:
    """Add what a database lacks that is new, or was never finished. The caller holds its lock."""
    await imported("lance")
    connection = await connect(db_path)
    try:
        is_new = not (await connection.list_tables()).tables
        tables = {name: await _table(connection, name, schema) for name, schema in (await _schemas(identity)).items()}
        await _see_that_all_are_current(db_path, tables, identity)
        settings = FencedTable(tables["settings"], "settings", fence)
        await settings.put_up(await fence.token())
        stored = await read_settings(tables["settings"])
        if not is_finished(stored):
            recorded = {**_recorded(identity), **stored, "version": haiku_version()}
            await settings.replace("id", ["settings"], lambda: _settings_row(settings.schema, recorded))
            if not is_new:
                _log.warning("finished the creation of the RAG database %s, which had been cut short", db_path)
    finally:
        connection.close()


def _recorded(identity: EmbeddingIdentity) -> dict[str, Any]:
    """What haiku.rag records of its configuration in a database."""
    model = {"provider": identity.provider, "name": identity.model, "vector_dim": identity.dim}
    return {"embeddings": {"model": model}}


async def _schemas(identity: EmbeddingIdentity) -> dict[str, Any]:
    """The tables as haiku.rag creates them."""
    schema = await imported("haiku.rag.store.schema")
    return {
        "documents": schema.get_documents_arrow_schema(),
        "document_meta": schema.DocumentMetaRecord.to_arrow_schema(),
        "chunks": schema.create_chunk_model(identity.dim).to_arrow_schema(),
        "document_items": schema.get_document_items_arrow_schema(),
        "settings": schema.SettingsRecord.to_arrow_schema(),
    }


async def _table(connection: Any, name: str, schema: Any) -> Any:
    """The table with its indexes; created where it is missing, also where only its folder is there."""
    try:
        table = await connection.open_table(name)
    except ValueError:
        table = await connection.create_table(name, schema=schema)
    await (await imported("haiku.rag.store.schema")).ensure_indexes(table, name)
    return table


async def _see_that_all_are_current(db_path: str | Path, tables: dict[str, Any], identity: EmbeddingIdentity) -> None:
    """Refuse a database that is not unfinished but old, or made for vectors of another length."""
    for name, schema in (await _schemas(identity)).items():
        if (found := await tables[name].schema()).names != schema.names:
            raise RagUnusableError(db_path, f"the table {name} is of another version of haiku.rag")
        if name == "chunks" and found.field("vector").type != schema.field("vector").type:
            raise RagUnusableError(db_path, f"it was begun with vectors of another length than {identity.dim}")


def _settings_row(schema: Any, settings: dict[str, Any]) -> Iterator[Any]:
    from pyarrow import RecordBatch  # noqa: PLC0415  LanceDB has imported it

    yield RecordBatch.from_pylist([{"id": "settings", "settings": json.dumps(settings)}], schema=schema)
