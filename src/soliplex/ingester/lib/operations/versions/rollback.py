"""Going back: the URI gets the content of an earlier version again, as a new version.

One transaction changes the URI, adds to the history and starts the runs that bring the RAG databases up to date:

    look up the version ──▶ [ hold the content ─▶ change the URI ─▶ history ─▶ runs ] ──▶ workers store it
                             one transaction: all of it or nothing

The runs are as durable as any: what crashes between the commit and the last store is finished later. They parse and
embed nothing that is stored from the first time, and the store step replaces the newer content in one commit. What was
looked up before the transaction may have changed meanwhile; then all begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from soliplex.ingester.lib.answers import RolledBack, StartedRun
from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import Database, HistoryAction
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.operations.errors import BeingRemovedError, VersionGoneError
from soliplex.ingester.lib.operations.removals import ARTIFACTS, PLACES, finish_removals, request_removals
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.versions.finding import (
    ROLLED_BACK_TO,
    Place,
    Version,
    find_place,
    find_version,
)
from soliplex.ingester.lib.operations.workflow_starts import plan_start, start_run
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.errors import UnknownDefinitionError
from soliplex.ingester.lib.wf.operations.runs import Start
from soliplex.ingester.lib.wf.wakeup import work_is_ready

TRIES: Final = 20


async def roll_back(
    uri: str,
    source: str,
    version: int,
    *,
    workflow_id: str | None = None,
    param_id: str | None = None,
    priority: int = 0,
    now: datetime | None = None,
) -> RolledBack:
    """Give the URI the content of an earlier version again.

    It is processed by what processed that version before, and by what put the present content where it is found now;
    `workflow_id` or `param_id` choose another way.
    """
    for _ in range(TRIES):
        place = await find_place(uri, source)
        chosen = await find_version(place, version)
        if chosen.hash == place.doc_hash:
            return _unchanged(place, version)
        await _see_that_it_is_stored(place, chosen)
        moment = now or utcnow()
        if workflow_id or param_id:
            starts = [await plan_start(workflow_id, param_id, batch_id=place.batch_id, priority=priority, now=moment)]
        else:
            starts = await _starts(
                await _ways(chosen.hash, place.doc_hash), place, chosen, priority=priority, now=moment
            )
        try:
            done = await Database.transact(_roll_back(place, chosen, starts, moment))
        except _ChangedMeanwhileError:
            continue
        work_is_ready()
        await finish_removals([(done.hash, PLACES)])
        return done
    raise ConflictError(f"{uri!r} is being changed by others all the time: try again later")


class _ChangedMeanwhileError(Exception):
    """The URI had changed by the time it was held."""


def _unchanged(place: Place, version: int) -> RolledBack:
    return RolledBack(
        uri=place.uri,
        source=place.source,
        rolled_back_to=version,
        version=place.version,
        hash=place.doc_hash,
        is_changed=False,
    )


async def _see_that_it_is_stored(place: Place, chosen: Version) -> None:
    if not chosen.is_known:
        raise VersionGoneError(place.uri, chosen.version, "the document was deleted since")
    if not await get_artifacts().has_document(chosen.hash):
        raise VersionGoneError(place.uri, chosen.version, "its bytes are missing in the store")


type _Way = tuple[str, str]
"""A workflow and a parameter set, by their ids."""


async def _ways(chosen: str, present: str) -> list[_Way]:
    """How the two contents were processed: first the ways of the chosen one, then those of the present one."""
    rows = await Database.read(SQL.processings_of_documents(hashes=[chosen, present]))

    def preference(row: Row) -> tuple[bool, int, int]:
        return row["doc_id"] == chosen, row["newest_completed"], row["newest"]

    ordered = sorted(rows, key=preference, reverse=True)
    return list(dict.fromkeys((row["workflow_definition_id"], row["param_definition_id"]) for row in ordered))


async def _starts(ways: Sequence[_Way], place: Place, chosen: Version, *, priority: int, now: datetime) -> list[Start]:
    """One run for each RAG database that must follow; one run in all where the ways write to none."""
    starts: list[Start] = []
    reached: set[str] = set()
    for workflow_id, param_id in ways:
        try:
            start = await plan_start(workflow_id, param_id, batch_id=place.batch_id, priority=priority, now=now)
        except UnknownDefinitionError as exc:
            problem = f"what processed version {chosen.version} of {place.uri!r} is not defined any more"
            raise ConflictError(f"{problem} ({exc}): name a workflow and a parameter set that are") from exc
        databases = set(start.resource_keys.values())
        if not starts or databases - reached:
            starts.append(start)
            reached |= databases
    return starts


def _roll_back(place: Place, chosen: Version, starts: Iterable[Start], now: datetime) -> Script[RolledBack]:
    yield from _hold(place, chosen)
    rows = yield SQL.replace_content(id=place.id, hash=chosen.hash, batch_id=place.batch_id)
    version = rows[0]["version"]
    yield SQL.insert_history(
        uri_id=place.id,
        version=version,
        hash=chosen.hash,
        now=now,
        action=HistoryAction.UPDATED.value,
        batch_id=place.batch_id,
        meta=Json({ROLLED_BACK_TO: chosen.version}),
    )
    # Where the content lives elsewhere too, RAG databases hold it already, and have to be told only of this place.
    yield from request_removals([(chosen.hash, PLACES)], now)
    runs: list[StartedRun] = []
    for start in starts:
        group_id, run_id = yield from start_run(start, chosen.hash, place.source)
        runs.append(StartedRun(group_id, run_id, start.workflow.id, start.param_id))
    done = replace(_unchanged(place, chosen.version), version=version, hash=chosen.hash, is_changed=True)
    return replace(done, runs=runs)


def _hold(place: Place, chosen: Version) -> Script[None]:
    """Hold the content, its row and the URI, in the order in which everybody does."""
    yield SQL.hold_contents(hashes=[chosen.hash])
    for removal in (yield SQL.removals_of(hash=chosen.hash)):
        if removal["target"] == ARTIFACTS and removal["started_at"] is not None:
            raise BeingRemovedError(chosen.hash)
    if not (yield SQL.lock_document(hash=chosen.hash)):
        raise _ChangedMeanwhileError
    rows = yield SQL.lock_uri(uri=place.uri, source=place.source)
    if not rows or (rows[0]["id"], rows[0]["version"]) != (place.id, place.version):
        raise _ChangedMeanwhileError
    if rows[0]["batch_id"] != place.batch_id:
        raise _ChangedMeanwhileError
