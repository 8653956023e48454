"""Removing what is stored of documents that have no rows any more: their bytes, their artifacts, their RAG entries; and
telling RAG databases where documents live that have lost a place, or got another.

The transaction that deletes a document's rows writes a removal for each place where something of it is stored. What
follows is done after the commit, and again later where a crash or a locked RAG database came in between:

    delete rows, write removals ──▶ begin (if the content has not come back) ──▶ delete bytes or entries ──▶ end

An upload of the same content that finds a removal begun waits for its end; one that comes first makes it void. Both
hold the content while they look (`hold_contents`), so neither can miss the other.

The same rows tell of documents that live on. Targets, and what is done about them:

    artifacts     bytes and artifacts go; before, what stores left behind tells which RAG databases hold the document
    places        a place was added or deleted: becomes a row for each RAG database that may hold the document
    rag:...       a RAG database: under its lock, and by the rows as they are then, the entry goes with a document that
                  has no row, and says where it lives for one that does
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import batched
from typing import Final
from uuid import uuid4

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.meanwhile import meanwhile
from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script, single
from soliplex.ingester.lib.operations.placing import (
    databases_by_artifacts,
    databases_of,
    others_at_places,
    places_of_contents,
)
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storage import get_artifacts

ARTIFACTS: Final = "artifacts"
PLACES: Final = "places"
RAG: Final = "rag:"
AT_ONCE: Final = 200
"""Removals in one transaction. Each takes a lock on PostgreSQL, whose table of locks all transactions share."""
PATIENCE: Final = 10.0
"""Seconds to wait for a RAG database, where nobody waits for the end of the removal."""
STALE: Final = timedelta(minutes=10)
"""A removal begun so long ago was interrupted."""

type Removal = tuple[str, str]
"""A document's hash, and where it is to be removed from."""

_log = logging.getLogger(__name__)


def request_removals(removals: Sequence[Removal], now: datetime) -> Script[None]:
    """Write the removals down, in the transaction that deletes the documents."""
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
    async with meanwhile(_tend(every)):
        yield


async def _tend(every: timedelta) -> None:
    while True:
        try:
            await finish_removals(patience=PATIENCE)
        except Exception:  # noqa: BLE001  nothing may end this: what was deleted would be found for ever
            _log.warning("what is left of deleted documents could not be removed, and will be later", exc_info=True)
        await asyncio.sleep(every.total_seconds())


async def _open_removals() -> list[Removal]:
    rows = await Database.read(SQL.open_removals(stale_before=_stale_before(), limit=AT_ONCE * 10))
    return [(row["doc_hash"], row["target"]) for row in rows]


def _stale_before() -> datetime:
    return utcnow() - STALE


async def _finish(removals: Iterable[Removal], patience: float) -> int:
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    for doc_hash, target in removals:
        waiting[target].add(doc_hash)
    finished = 0
    while waiting:
        # Removals that lead to others come first: then each RAG database is written to once.
        target = next((each for each in (PLACES, ARTIFACTS) if each in waiting), None) or next(iter(waiting))
        for some in batched(sorted(waiting.pop(target)), AT_ONCE):
            done = await _remove_from(target, some, patience)
            finished += len(some) if done is not None else 0
            for doc_hash, database in done or ():
                waiting[database].add(doc_hash)
    return finished


async def _remove_from(target: str, hashes: Sequence[str], patience: float) -> Sequence[Removal] | None:
    """Carry out the removals of one target. Gives the removals that follow from these; None where it failed."""
    holder = str(uuid4())
    begun = await Database.transact(_begin(target, hashes, holder, utcnow()))
    further: Sequence[Removal] = ()
    try:
        if begun:
            further = await _remove(target, begun, patience)
    except Exception as exc:  # noqa: BLE001  whatever LanceDB or a store raises: it stays to be removed later
        await Database.transact(single(SQL.give_up_removals(holder=holder)))
        is_a_mistake = not isinstance(exc, IngesterError | OSError)
        words = "%d documents could not be brought up to date in %s, and will be later: %s"
        _log.warning(words, len(begun), target, exc, exc_info=is_a_mistake)
        return None
    await Database.transact(single(SQL.end_removals(holder=holder, hashes=begun)))
    return further


def _begin(target: str, hashes: Sequence[str], holder: str, now: datetime) -> Script[list[str]]:
    yield SQL.hold_contents(hashes=list(hashes))
    if target == ARTIFACTS:
        yield SQL.drop_removals_of_documents(hashes=list(hashes), target=target)
    rows = yield SQL.begin_removals(
        target=target, hashes=list(hashes), holder=holder, now=now, stale_before=now - STALE
    )
    return sorted(row["doc_hash"] for row in rows)


async def _remove(target: str, hashes: Sequence[str], patience: float) -> Sequence[Removal]:
    match target:
        case str() if target == ARTIFACTS:
            # The artifacts are asked, too, since the runs that name databases may have been deleted before.
            further = await _requested(await databases_by_artifacts(hashes))
            await get_artifacts().delete_all(*hashes)
            return further
        case str() if target == PLACES:
            return await _requested(await databases_of(hashes))
        case _:
            await _bring_after(target, hashes, patience)
            return ()


async def _requested(removals: Collection[Removal]) -> Sequence[Removal]:
    """Write the removals down before the artifacts that tell of them are gone."""
    await Database.transact(request_removals(sorted(removals), utcnow()))
    return sorted(removals)


async def _bring_after(target: str, hashes: Sequence[str], patience: float) -> None:
    """Let a RAG database hold nothing of documents that are gone, and say of the others where they live.

    A document that was deleted and uploaded again may still have its earlier entry. If neither a run nor an artifact
    tells of that entry, no later deletion would find it: so the entry goes now, and the next store writes it anew. So
    does the entry of a document that only a segmentation job still has.
    """
    db_path = target.removeprefix(RAG)
    if await rag.is_absent(db_path):
        return
    async with rag.hold_rag_lock(db_path, holder_kind=ResourceLockKind.WEB, max_wait=patience) as lock:
        # Under the lock: what comes back later is stored after this, and what was stored before is known here.
        known = {row["hash"] for row in await Database.read(SQL.known_documents(hashes=list(hashes)))}
        stored_here = known & {doc_hash for doc_hash, database in await databases_of(known) if database == target}
        places = await places_of_contents(stored_here)
        if doomed := [doc_hash for doc_hash in hashes if doc_hash not in places]:
            await rag.delete_documents(db_path, doomed, fence=lock)
        if places:
            await rag.place_documents(db_path, places, others_at_places, fence=lock)
