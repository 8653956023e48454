"""Handlers that need no service: for trying the engine out, and as examples of the shapes handlers may have."""

from __future__ import annotations

import logging
from typing import Any

from soliplex.ingester.lib.models import ResourceLockKind, RunGroup
from soliplex.ingester.lib.rag import hold_rag_lock, is_absent, rag_path, record_checksum, vacuum
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.workflow import log_event

__all__ = ["chunk", "embed", "fail", "log_event", "parse", "run_end", "store", "validate"]

_log = logging.getLogger(__name__)


async def validate() -> dict[str, Any]:
    """Accept everything."""
    return {"valid": True}


async def parse() -> dict[str, Any]:
    """Pretend to have read one page."""
    return {"pages": 1}


async def chunk() -> dict[str, Any]:
    """Pretend to have made one chunk."""
    return {"chunks": 1}


async def embed() -> dict[str, Any]:
    """Pretend to have embedded it."""
    return {"embeddings": 1}


async def store() -> dict[str, Any]:
    """Pretend to have stored it."""
    return {"stored": 1}


async def fail(message: str = "this step always fails") -> None:
    """Fail, every time."""
    raise RuntimeError(message)


async def run_end(run_group: RunGroup, data_dir: str | None = None) -> None:
    """Vacuum the RAG database of the group's parameter set, and write the SHA-256 of its files beside it.

    The checksum tells later whether something other than a workflow has changed the database.
    """
    path = rag_path(data_dir or _data_dir(run_group))
    if await is_absent(path):
        _log.info("run group %s wrote no RAG database at %s: nothing to vacuum", run_group.id, path)
        return
    async with hold_rag_lock(path, holder_kind=ResourceLockKind.LIFECYCLE, max_wait=600) as lock:
        await vacuum(path, fence=lock)
        digest = await record_checksum(path)
    _log.info("run group %s: vacuumed %s, sha256 %s", run_group.id, path, digest)


def _data_dir(run_group: RunGroup) -> str:
    params = get_registry().parameter_set(run_group.param_definition_id)
    return str(params.config.get("store", {}).get("data_dir", "default"))
