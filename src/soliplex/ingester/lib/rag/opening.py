"""Opening a RAG database by haiku.rag, which takes seconds to import and so is imported when it is needed."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from soliplex.ingester.lib.wf.errors import PermanentError


class EmbeddingIdentity(NamedTuple):
    """What made the vectors of a database. All of them must come from the same."""

    provider: str
    model: str
    dim: int


class EmbeddingMismatchError(PermanentError):
    """The database holds vectors of another model, which cannot be compared with these."""

    def __init__(self, db_path: str | Path, identity: EmbeddingIdentity | None) -> None:
        wanted = f"{identity.provider}/{identity.model}" if identity else "another model"
        super().__init__(
            f"the RAG database {Path(db_path).name} holds vectors of another model than {wanted}; "
            "store into another data_dir, or embed with the model it was made with"
        )


@asynccontextmanager
async def open_rag(
    db_path: str | Path, identity: EmbeddingIdentity | None, *, create: bool = False, read_only: bool = False
) -> AsyncGenerator[Any]:
    """The database, by haiku.rag. Without an identity, whatever made its vectors will do."""
    haiku = await imported("haiku.rag.client")
    config = await imported("haiku.rag.config")
    settings: dict[str, Any] = {"storage": {"auto_vacuum": False}}
    if identity is not None:
        model = {"provider": identity.provider, "name": identity.model, "vector_dim": identity.dim}
        settings["embeddings"] = {"model": model}
    client = haiku.HaikuRAG(
        location(db_path),
        config=config.AppConfig.model_validate(settings),
        skip_validation=identity is None,
        create=create,
        read_only=read_only,
    )
    exceptions = await imported("haiku.rag.store.exceptions")
    try:
        async with client as rag:
            yield rag
    except exceptions.ConfigMismatchError as exc:
        raise EmbeddingMismatchError(db_path, identity) from exc


def location(db_path: str | Path) -> str | Path:
    """As haiku.rag wants it: a path, or the address of a bucket."""
    return str(db_path) if "://" in str(db_path) else Path(db_path)


async def imported(module: str) -> Any:
    """The module; the first import takes seconds, for which the loop must not stand still."""
    os.environ.setdefault("LOGFIRE_IGNORE_NO_CONFIG", "1")  # or haiku.rag's logfire would warn of itself
    return await asyncio.to_thread(importlib.import_module, module)
