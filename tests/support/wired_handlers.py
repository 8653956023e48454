"""Handlers that tell in which wiring they run: on the worker's loop, in a thread of it, in a process of its own."""

from __future__ import annotations

from typing import Any

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.catalog import get_registry


async def on_the_loop() -> dict[str, Any]:
    return {**_settings(), **_open()}


def in_a_thread() -> dict[str, Any]:
    return {**_settings(), **_open()}


def in_a_process() -> dict[str, Any]:
    return _settings()


def _settings() -> dict[str, Any]:
    settings = get_settings()
    return {"data_dir": str(settings.data_dir), "lancedb_dir": settings.lancedb_dir}


def _open() -> dict[str, Any]:
    return {"database": Database.url().database, "sets": sorted(each.id for each in get_registry().parameter_sets())}
