"""Removing what is stored of documents that have no rows any more: their bytes, their artifacts, their RAG entries.

The transaction that deletes a document's rows writes a removal for each place where something of it is stored. What
follows is done after the commit, and again later where a crash or a locked RAG database came in between:

    delete rows, write removals ──▶ begin (if the content has not come back) ──▶ delete bytes or entries ──▶ end

An upload of the same content that finds a removal begun waits for its end; one that comes first makes it void. Both
hold the content while they look (`hold_contents`), so neither can miss the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import batched
from typing import Final
from uuid import uuid4

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script, single
from soliplex.ingester.lib.operations.sql import SQL, read
from soliplex.ingester.lib.storage import get_artifacts

ARTIFACTS: Final = "artifacts"
RAG: Final = "rag:"
AT_ONCE: Final = 200
"""Each takes a lock on PostgreSQL, whose table of locks all transactions share."""
PATIENCE: Final = 10.0
"""Seconds to wait for a RAG database, where nobody waits for the end of the removal."""
STALE: Final = timedelta(minutes=10)
"""A removal begun so long ago was interrupted."""

type Removal = tuple[str, str]
"""A document's hash, and where it is to be removed from."""

_log = logging.getLogger(__name__)


def request_removals(removals: Sequence[Removal], now: datetime) -> Script[None]:
    """Write them down, in the transaction that deletes the documents."""
    if removals:
        yield SQL.insert_removals(removals=Json(sorted(removals)), now=now)


async def finish_removals(removals: Iterable[Removal] | None = None, *, patience: float = 0) -> int:
    """Remove what these removals name, or all there are; gives how many were finished.

    `patience` is how many seconds to wait for a RAG database that another writer holds. What cannot be removed now is
    logged, and stays to be removed by a later call.
    """
    if removals is not None:
        return await _finish(removals, patience)
    finished = 0
    while removals := await _open_removals():
        done = await _finish(removals, patience)
        finished += done
        if not done:
            break
    return finished


@asynccontextmanager
async def removals_tended(every: timedelta = timedelta(minutes=1)) -> AsyncGenerator[None]:
    """For the time of the block, finish again and again what was left over: for programs that live long."""
    tending = asyncio.create_task(_tend(every))
    try:
        yield
    finally:
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)


async def _tend(every: timedelta) -> None:
    while True:
        try:
            await finish_removals(patience=PATIENCE)
        except Exception:  # noqa: BLE001  nothing may end this: what was deleted would be found for ever
            _log.warning("what is left of deleted documents could not be removed, and will be later", exc_info=True)
        await asyncio.sleep(every.total_seconds())


async def _open_removals() -> list[Removal]:
    rows = await read(SQL.open_removals(stale_before=_stale_before(), limit=AT_ONCE * 10))
    return [(row["doc_hash"], row["target"]) for row in rows]


def _stale_before() -> datetime:
    return utcnow() - STALE


async def _finish(removals: Iterable[Removal], patience: float) -> int:
    by_target: defaultdict[str, list[str]] = defaultdict(list)
    for doc_hash, target in removals:
        by_target[target].append(doc_hash)
    finished = 0
    for target, hashes in by_target.items():
        for some in batched(sorted(hashes), AT_ONCE):
            finished += await _remove_from(target, some, patience)
    return finished


async def _remove_from(target: str, hashes: Sequence[str], patience: float) -> int:
    holder = str(uuid4())
    begun = await Database.transact(_begin(target, hashes, holder, utcnow()))
    try:
        if begun:
            await _remove(target, begun, patience)
    except Exception as exc:  # noqa: BLE001  whatever LanceDB or a store raises: it stays to be removed later
        await Database.transact(single(SQL.give_up_removals(holder=holder)))
        is_a_mistake = not isinstance(exc, IngesterError | OSError)
        words = "%d documents could not be removed from %s, and will be later: %s"
        _log.warning(words, len(begun), target, exc, exc_info=is_a_mistake)
        return 0
    await Database.transact(single(SQL.end_removals(holder=holder, hashes=begun)))
    return len(hashes)


def _begin(target: str, hashes: Sequence[str], holder: str, now: datetime) -> Script[list[str]]:
    yield SQL.hold_contents(hashes=list(hashes))
    yield SQL.drop_removals_of_documents(hashes=list(hashes), target=target)
    rows = yield SQL.begin_removals(
        target=target, hashes=list(hashes), holder=holder, now=now, stale_before=now - STALE
    )
    return sorted(row["doc_hash"] for row in rows)


async def _remove(target: str, hashes: Sequence[str], patience: float) -> None:
    if target == ARTIFACTS:
        await get_artifacts().delete_all(*hashes)
    elif not await rag.is_absent(db_path := target.removeprefix(RAG)):
        async with rag.hold_rag_lock(db_path, holder_kind=ResourceLockKind.WEB, max_wait=patience) as lock:
            await rag.delete_documents(db_path, hashes, fence=lock)
