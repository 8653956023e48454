"""Opening a RAG database by haiku.rag, which takes seconds to import and so is imported when it is needed."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.rag.folder import rag_folder
from soliplex.ingester.lib.rag.lance_words import lance_in_words
from soliplex.ingester.lib.scratch import renew_folder
from soliplex.ingester.lib.wf.errors import PermanentError

CLIENT: Final = "haiku.rag.client.client"
"""The module, and not its package `haiku.rag.client`, which imports everything as soon as `HaikuRAG` is asked of it."""
TABLES: Final = frozenset({"chunks", "document_items", "document_meta", "documents", "settings"})
"""The tables that every database has."""


class EmbeddingIdentity(NamedTuple):
    """What made the vectors of a database. All of them must come from the same."""

    provider: str
    model: str
    dim: int


class EmbeddingMismatchError(PermanentError):
    """The database holds vectors of another model, which cannot be compared with these."""

    def __init__(self, db_path: str | Path, identity: EmbeddingIdentity | None) -> None:
        wanted = f"{identity.model} with {identity.dim} dimensions" if identity else "this one"
        super().__init__(
            f"the RAG database {Path(db_path).name} holds vectors of another model than {wanted}; "
            "store into another data_dir, or embed with the model it was made with"
        )


class RagUnusableError(ConflictError):
    """The database cannot be opened as it is."""

    def __init__(self, db_path: str | Path, problem: str) -> None:
        name = Path(db_path).name
        super().__init__(
            f"the RAG database {name} cannot be used: {problem}; a store finishes what was only begun, "
            f"and `si-cli verify-db {name}` tells what is wrong"
        )
        self.name = name
        self.problem = problem


@asynccontextmanager
async def open_rag(
    db_path: str | Path, identity: EmbeddingIdentity | None, *, create: bool = False, read_only: bool = False
) -> AsyncGenerator[Any]:
    """The database, by haiku.rag. Without an identity, whatever made its vectors will do."""
    haiku = await imported(CLIENT)
    client = haiku.HaikuRAG(
        None if is_remote(db_path) else Path(db_path),
        config=await haiku_config(db_path, identity),
        skip_validation=identity is None,
        create=create,
        read_only=read_only,
    )
    async with AsyncExitStack() as stack:
        stack.enter_context(lance_in_words(db_path))
        rag = await _enter(stack, client, db_path, identity)
        if not is_finished(rag.store.stored_settings):
            raise RagUnusableError(db_path, "its creation was cut short")
        yield rag


class ReadTables(NamedTuple):
    """What a search reads, and what made the vectors."""

    chunks: Any
    documents: Any
    identity: EmbeddingIdentity


class RagStore(NamedTuple):
    """All tables of a database, named as in haiku.rag's own store."""

    location: str | Path
    documents_table: Any
    document_meta_table: Any
    chunks_table: Any
    document_items_table: Any
    settings_table: Any


class _Opened(NamedTuple):
    """A database that the installed haiku.rag made, opened without it."""

    connection: Any
    tables: frozenset[str]
    identity: EmbeddingIdentity


@asynccontextmanager
async def open_store(db_path: str | Path, identity: EmbeddingIdentity | None) -> AsyncGenerator[Any]:
    """The tables of a database, to write to. Without an identity, whatever made its vectors will do.

    Like `open_tables`, by LanceDB itself where nothing about the database is unusual. What haiku.rag has left there
    beside its tables, or vectors of another model, are left to haiku.rag, too.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(lance_in_words(db_path))
        opened = await _open_by_lancedb(stack, db_path)
        if opened is None or opened.tables != TABLES or identity not in {None, opened.identity}:
            yield (await stack.enter_async_context(open_rag(db_path, identity))).store
        else:
            tables = {f"{name}_table": await opened.connection.open_table(name) for name in sorted(TABLES)}
            yield RagStore(location(db_path), **tables)


@asynccontextmanager
async def open_tables(db_path: str | Path) -> AsyncGenerator[ReadTables]:
    """The tables that a search reads.

    By LanceDB itself where the installed haiku.rag made the database: to import haiku.rag takes longer than to search.
    Any other is left to haiku.rag, which knows what to make of it or what is wrong with it.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(lance_in_words(db_path))
        opened = await _open_by_lancedb(stack, db_path)
        if opened is not None:
            chunks, documents = [await opened.connection.open_table(name) for name in ("chunks", "document_meta")]
            tables = ReadTables(chunks, documents, opened.identity)
        else:
            rag = await stack.enter_async_context(open_rag(db_path, None, read_only=True))
            recorded = rag.store.stored_embedding
            identity = EmbeddingIdentity(recorded.provider, recorded.name, recorded.vector_dim)
            tables = ReadTables(rag.store.chunks_table, rag.store.document_meta_table, identity)
        yield tables


async def _open_by_lancedb(stack: AsyncExitStack, db_path: str | Path) -> _Opened | None:
    """The database, if the installed haiku.rag made it and its creation came to its end."""
    if not is_remote(db_path) and not await asyncio.to_thread(Path(db_path, "settings.lance").is_dir):
        return None  # LanceDB would make the folder
    try:
        connection = await connect(db_path)
        stack.callback(connection.close)
        tables = frozenset((await connection.list_tables()).tables)
        if not tables >= TABLES:
            return None
        settings = await read_settings(await connection.open_table("settings"))
        if settings["version"] != haiku_version():
            return None
        model = settings["embeddings"]["model"]
        return _Opened(connection, tables, EmbeddingIdentity(model["provider"], model["name"], model["vector_dim"]))
    except (OSError, RuntimeError, ValueError, LookupError, TypeError):  # as below, and settings of another form
        return None


async def connect(db_path: str | Path) -> Any:
    """A connection to the database, by LanceDB, which makes the folder where there is none."""
    lancedb = await imported("lancedb")
    options = {"storage_options": rag_folder().storage_options} if is_remote(db_path) else {}
    return await lancedb.connect_async(str(db_path), **options)


async def read_settings(table: Any) -> dict[str, Any]:
    """What a database says about itself; nothing, where its creation was cut short before it did."""
    rows = await table.query().where("id = 'settings'").limit(1).to_list()
    return json.loads(rows[0]["settings"]) if rows else {}


def haiku_version() -> str:
    return metadata.version("haiku.rag-slim")


async def _enter(stack: AsyncExitStack, client: Any, db_path: str | Path, identity: EmbeddingIdentity | None) -> Any:
    """Open the database. An error about a database that is not whole becomes a sentence that says so."""
    exceptions = await imported("haiku.rag.store.exceptions")
    try:
        return await stack.enter_async_context(client)
    except exceptions.ConfigMismatchError as exc:
        raise EmbeddingMismatchError(db_path, identity) from exc
    except exceptions.MigrationRequiredError as exc:
        problem = "its creation was cut short, or another version of haiku.rag made it"
        raise RagUnusableError(db_path, problem) from exc
    except exceptions.ReadOnlyError as exc:
        raise RagUnusableError(db_path, "tables are missing: its creation was cut short, or files were lost") from exc
    except FileNotFoundError:
        raise  # there is no such database
    except (OSError, RuntimeError, ValueError) as exc:  # LanceDB raises these for any trouble
        words = str(exc).splitlines()[0][:200] if str(exc) else type(exc).__name__
        raise RagUnusableError(db_path, f"its files cannot be read ({words})") from exc


def is_finished(settings: Mapping[str, Any]) -> bool:
    """Whether the creation of the database with these settings came to its end: the version is written last."""
    return "version" in settings


def is_remote(db_path: str | Path) -> bool:
    """Whether the database lives in a bucket, and not in a folder of this machine."""
    return "://" in str(db_path)


def location(db_path: str | Path) -> str | Path:
    """As haiku.rag wants it: a path, or the address of a bucket."""
    return str(db_path) if is_remote(db_path) else Path(db_path)


async def haiku_config(db_path: str | Path, identity: EmbeddingIdentity | None = None) -> Any:
    """haiku.rag's configuration for this database; nothing of it is read from files of haiku.rag's own."""
    config = await imported("haiku.rag.config")
    settings: dict[str, Any] = {"storage": {"auto_vacuum": False}}
    if identity is not None:
        model = {"provider": identity.provider, "name": identity.model, "vector_dim": identity.dim}
        settings["embeddings"] = {"model": model}
    if is_remote(db_path):
        # Not as a path: haiku.rag would make s3:/bucket of it.
        name = str(db_path).rpartition("/")[2]
        settings["lancedb"] = {"databases": {name: str(db_path)}, "storage_options": rag_folder().storage_options}
    return config.AppConfig.model_validate(settings)


MOST_OF_AN_INDEX: Final = "128"
"""MiB of an index of words that Lance builds in memory before it writes them. Left to itself, it takes gigabytes for a
document of a quarter of a million chunks; searches are as fast either way."""
_imported: Final[dict[str, Any]] = {}


async def imported(module: str) -> Any:
    """The module; the first import takes seconds, for which the loop must not stand still.

    Not quite: loading a large library in C keeps all threads waiting for a while. A process that others wait for
    imports early (`import_early`).
    """
    renew_folder()  # whoever asks is about to use it, and Lance panics where the folder is gone
    if module not in _imported:  # not sys.modules, which also has those whose import is under way
        _imported[module] = await asyncio.to_thread(_import, module)
    return _imported[module]


_EARLY: Final = (
    "lancedb",
    CLIENT,
    "haiku.rag.config",
    "haiku.rag.store.exceptions",
    "haiku.rag.store.info",
    "lancedb.index",
    "docling_core.types.doc",
)


def import_early() -> None:
    """Import haiku.rag now, before a server answers anyone: later, all its clients would notice."""
    for module in _EARLY:
        _imported[module] = _import(module)
    # The import leaves very many objects that stay for good: to look through them for garbage would take long.
    gc.collect()
    gc.freeze()


def _import(module: str) -> Any:
    os.environ.setdefault("LOGFIRE_IGNORE_NO_CONFIG", "1")  # or haiku.rag's logfire would warn of itself
    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # or Lance would warn of what nobody asked for
    os.environ.setdefault("LANCE_FTS_PARTITION_SIZE", MOST_OF_AN_INDEX)
    return importlib.import_module(module)
