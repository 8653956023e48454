"""Opening a RAG database by haiku.rag, which takes seconds to import and so is imported when it is needed."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from soliplex.ingester.lib.config import Settings, get_settings
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
    client = haiku.HaikuRAG(
        None if is_remote(db_path) else Path(db_path),
        config=await haiku_config(db_path, identity),
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
        settings["lancedb"] = {"databases": {name: str(db_path)}, "storage_options": storage_options(get_settings())}
    return config.AppConfig.model_validate(settings)


def storage_options(settings: Settings) -> dict[str, str]:
    """How LanceDB reaches the bucket of LANCEDB_DIR: as artifacts reach theirs. What is unset, the machine knows."""
    bucket = settings.artifact_s3
    secret = bucket.access_secret.get_secret_value() if bucket.access_secret else None
    given = {
        "aws_endpoint": bucket.endpoint_url,
        "aws_access_key_id": bucket.access_key_id,
        "aws_secret_access_key": secret,
        "aws_region": bucket.region or ("us-east-1" if bucket.endpoint_url else None),
        "allow_http": "true" if (bucket.endpoint_url or "").startswith("http://") else None,
    }
    return {name: value for name, value in given.items() if value}


_imported: Final[dict[str, Any]] = {}


async def imported(module: str) -> Any:
    """The module; the first import takes seconds, for which the loop must not stand still."""
    if module not in _imported:  # not sys.modules, which also has those whose import is under way
        os.environ.setdefault("LOGFIRE_IGNORE_NO_CONFIG", "1")  # or haiku.rag's logfire would warn of itself
        os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # or Lance would warn of what nobody asked for
        _imported[module] = await asyncio.to_thread(importlib.import_module, module)
    return _imported[module]
