"""`GET /health`, whether the process lives, and `/health/ready`, whether it can do its work."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from soliplex.ingester import __version__
from soliplex.ingester.lib.config import StorageSettings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.rag.database_files import all_databases
from soliplex.ingester.lib.rag.opening import is_remote
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.server.auth import STRANGER, caller_of

_log = logging.getLogger(__name__)

router = APIRouter(tags=["operation"])

PATIENCE: Final = 3.0
"""Seconds a part is given to answer. Whoever asks has a limit of its own, often five."""


class Health(BaseModel):
    """The process lives; it has failed where its worker has lost a loop, and is about to end."""

    status: Literal["ok", "failed"] = "ok"
    version: str = __version__


class Part(BaseModel):
    """One thing the server needs."""

    status: Literal["ok", "failed"]
    detail: str | None = None


class Readiness(BaseModel):
    """Whether all that the server needs is there."""

    status: Literal["ready", "not ready"]
    checks: dict[str, Part]


@router.get(
    "/health",
    summary="Whether the server lives",
    responses={503: {"model": Health, "description": "The worker in the server cannot go on: start the server again"}},
)
async def health(request: Request, response: Response) -> Health:
    worker = _worker_of(request)
    if worker is None or worker.lost is None:
        return Health()
    response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return Health(status="failed")


@router.get(
    "/health/ready",
    summary="Whether the server can do its work",
    responses={503: {"model": Readiness, "description": "Something it needs is missing"}},
)
async def ready(request: Request, response: Response) -> Readiness:
    """Look at the database, the artifact store, the folder of the RAG databases, and the worker of this process.

    Why a part fails may name folders and addresses: where a key is asked for, only those who have it are told.
    """
    checks = {**_CHECKS, "rag": partial(_check_rag, request.app.state.settings)}
    if (worker := _worker_of(request)) is not None:
        checks["worker"] = partial(_check_worker, worker)
    names = list(checks)
    parts = await asyncio.gather(*(_checked(name, check) for name, check in checks.items()))
    if caller_of(request.scope) is STRANGER:
        parts = [Part(status=part.status) for part in parts]
    is_ready = all(part.status == "ok" for part in parts)
    if not is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return Readiness(status="ready" if is_ready else "not ready", checks=dict(zip(names, parts, strict=True)))


def _worker_of(request: Request) -> Worker | None:
    """The worker in this process, where there is one."""
    return getattr(request.app.state, "worker", None)


async def _checked(name: str, check: Callable[[], Awaitable[None]]) -> Part:
    try:
        async with asyncio.timeout(PATIENCE):
            await check()
    except TimeoutError:
        problem = f"no answer within {PATIENCE:g} seconds"
    except Exception as error:  # noqa: BLE001  whatever it is, the part does not work, and the answer says why
        problem = f"{type(error).__name__}: {error}"
    else:
        return Part(status="ok")
    _log.warning("not ready: %s: %s", name, problem)
    return Part(status="failed", detail=problem)


async def _check_worker(worker: Worker) -> None:
    if worker.troubles:
        raise RuntimeError("; ".join(worker.troubles))


async def _check_database() -> None:
    async with Database.session(read_only=True) as session:
        await session.exec(sa.select(1))  # pyright: ignore[reportCallIssue, reportArgumentType]  no table, no model


async def _check_storage() -> None:
    await get_artifacts().check()


async def _check_rag(settings: StorageSettings) -> None:
    folder = settings.lancedb_dir
    if is_remote(folder):
        await all_databases().names()
    else:
        await asyncio.to_thread(_check_writable, Path(folder))


def _check_writable(folder: Path) -> None:
    """The folder is made when the first database is: until then, its nearest parent must allow it."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise NotADirectoryError(f"{existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"{existing} cannot be written to")


_CHECKS: Final[dict[str, Callable[[], Awaitable[None]]]] = {
    "database": _check_database,
    "storage": _check_storage,
}
