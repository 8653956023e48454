"""Handlers that need no service: for trying the engine out, and as examples of the shapes handlers may have."""

from __future__ import annotations

import logging
from typing import Any

from soliplex.ingester.lib.models import RunGroup

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


async def log_event(event: str, run_group: RunGroup, message: str = "") -> None:
    """Write the event to the log."""
    _log.info("%s of run group %s (%s): %s", event, run_group.id, run_group.workflow_definition_id, message)
