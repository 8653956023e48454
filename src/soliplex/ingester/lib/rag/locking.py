"""Where RAG databases live, and who may write to them.

One writer at a time is LanceDB's rule. Every writer, in whatever process, takes the resource lock of the database
first: steps by their `resource_key`, everyone else by `hold_rag_lock`. With it comes the right to put up fences
(`fencing`), which keep out those who have lost the lock and have not noticed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import uniform
from typing import Any, Final
from uuid import uuid4

from soliplex.ingester.lib.errors import InvalidInputError, LockedError, NotFoundError
from soliplex.ingester.lib.meanwhile import meanwhile
from soliplex.ingester.lib.models import ResourceLock, ResourceLockKind
from soliplex.ingester.lib.rag.folder import rag_folder
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.lib.wf.operations.locks import find_resource_lock

_log = logging.getLogger(__name__)

LONGEST_NAME: Final = 255
"""Bytes of a database's name: what file systems take for the name of a folder."""
LOOK_AGAIN: Final = 0.05
"""Seconds between looks, give or take a half. A worker that stores takes the lock again within milliseconds: who looked
seldom, or in step with it, would hardly ever find it free."""


class RagLockedError(LockedError):
    """Another writer holds the database."""

    def __init__(self, key: str, lock: ResourceLock | None) -> None:
        holder = (
            f"{lock.holder_kind} {lock.holder_id} since {lock.acquired_at:%Y-%m-%d %H:%M:%S} UTC" if lock else "another"
        )
        super().__init__(f"{key} is in use by {holder}")
        self.key = key
        self.lock = lock


@dataclass(frozen=True, slots=True)
class RagLock:
    """The lock of a database, and who holds it: the right to write, as `fencing` asks for it."""

    key: str
    holder_id: str

    async def token(self, above: int = 0) -> int:
        return await operations.take_fence(self.key, self.holder_id, above=above)


def rag_path(name: str, *, field: str = "db") -> str:
    """Where the database of this name lives: below LANCEDB_DIR, and nowhere else.

    A name that no database can have is refused under the `field` that it stood in.
    """
    if not name or name in {".", ".."} or any(mark in name for mark in ("/", "\\", "\x00")):
        raise NotFoundError("RAG database", name)
    if problem := problem_of_rag_name(name):
        raise InvalidInputError(field, problem)
    return f"{rag_folder().address}/{name}"


def checked_rag_path(name: str, field: str) -> str:
    """As `rag_path`, for a parameter: there a path is a mistake, and not a database that does not exist."""
    if problem := problem_of_rag_name(name):
        raise InvalidInputError(field, problem)
    return rag_path(name)


def problem_of_rag_name(name: str) -> str | None:
    """Why no database can have this name; None if one can."""
    if not name or any(mark in name for mark in ("/", "\\")):
        return "must be the name of a database below LANCEDB_DIR, and no path"
    if name.startswith("."):
        return "must not begin with a dot"
    if any(unicodedata.category(each) in {"Cc", "Cs"} for each in name):
        return "must not hold control characters or unpaired surrogates"
    if (size := len(name.encode())) > LONGEST_NAME:
        return f"has {size} bytes in UTF-8; the name of a database has at most {LONGEST_NAME}"
    return None


def rag_resource_key(db_path: str | Path) -> str:
    """The key under which all writers of this database meet."""
    text = str(db_path)
    return f"rag:{text}" if "://" in text else f"rag:{os.path.realpath(text)}"


@asynccontextmanager
async def hold_rag_lock(
    db_path: str | Path,
    *,
    holder_kind: ResourceLockKind,
    max_wait: float | None = None,
    meta: Mapping[str, Any] | None = None,
) -> AsyncGenerator[RagLock]:
    """Exclusive use of the database for the time of the block.

    `max_wait` is in seconds: None waits for ever, 0 fails at once with RagLockedError.
    """
    key, holder_id, ttl = rag_resource_key(db_path), f"{holder_kind}:{uuid4()}", rag_folder().lock_ttl
    acquiring = partial(operations.acquire_resource_lock, key, holder_id, holder_kind, ttl=ttl, meta=meta or {})
    try:
        await _acquire(key, partial(acquiring, waits=max_wait is None or max_wait > 0), max_wait)
    except BaseException:
        # Those behind us in the queue must not wait for a place that nobody needs.
        await asyncio.shield(operations.stop_waiting(key, holder_id))
        raise
    try:
        async with meanwhile(_refresh(key, holder_id, ttl)):
            yield RagLock(key, holder_id)
    finally:
        await operations.release_resource_lock(key, holder_id)


async def _acquire(key: str, attempt: Callable[[], Awaitable[bool]], max_wait: float | None) -> None:
    loop = asyncio.get_running_loop()
    deadline = None if max_wait is None else loop.time() + max_wait
    while not await attempt():
        if deadline is not None and loop.time() >= deadline:
            raise RagLockedError(key, await find_resource_lock(key))
        await asyncio.sleep(LOOK_AGAIN * uniform(0.5, 1.5))  # noqa: S311  nothing to be kept secret


async def _refresh(key: str, holder_id: str, ttl: timedelta) -> None:
    while True:
        # One refresh may fail, and the next still comes before the lock expires.
        await asyncio.sleep(ttl.total_seconds() / 4)
        try:
            is_held = await operations.refresh_resource_lock(key, holder_id, ttl=ttl)
        except TROUBLES_OF_THE_DATABASE as exc:
            _log.warning("the lock of %s could not be prolonged, and will be tried again: %s", key, exc)
            continue
        if not is_held:
            _log.warning("the lock of %s has gone to another; what is still to be written will be refused", key)
            return
