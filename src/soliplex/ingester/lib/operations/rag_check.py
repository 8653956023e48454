"""Whether a RAG database holds what the runs have stored in it, and mending it where it does not.

What may be wrong with a document, and what mends it:

    half       some tables hold it and others do not, or a chunk is there twice       it is stored again; rows of
                                                                                      nobody's are deleted
    missing    it was stored, lives at a URI, and is not there                        it is stored again
    stale      it is there, and lives at no URI any more                              it is deleted
    misplaced  it is there, and said to live elsewhere than it does                   its places are written again

Storing again is a run like any other: nothing is parsed or embedded whose artifact is still there. Documents that are
on their way, or that somebody else has put into the database, are left alone. What is known of a document that was
stored goes with its run: after its run group was deleted, nobody misses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Script, json_of
from soliplex.ingester.lib.operations.placing import others_at_places, places_of_contents
from soliplex.ingester.lib.operations.removals import PATIENCE, finish_removals, request_removals
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.workflow_starts import newest_place, plan_start, run_params
from soliplex.ingester.lib.rag.metadata import Placement
from soliplex.ingester.lib.rag.table_contents import RagContents, contents_of
from soliplex.ingester.lib.rag.writing import delete_by_ids, rag_id
from soliplex.ingester.lib.wf.operations.runs import NewRun, Start, add_runs, new_group
from soliplex.ingester.lib.wf.wakeup import work_is_ready

GROUP: Final = "verify-db --repair"


@dataclass(frozen=True, slots=True)
class RagCheck:
    """What a RAG database holds beside what it should."""

    path: str
    documents: int = 0
    half: list[str] = field(default_factory=list[str])
    """Ids in the RAG database."""
    missing: list[str] = field(default_factory=list[str])
    stale: list[str] = field(default_factory=list[str])
    misplaced: list[str] = field(default_factory=list[str])
    ways: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """By the id of a document that can be stored again: the workflow and the parameter set that stored it."""
    hashes: dict[str, str] = field(default_factory=dict[str, str])
    nameless: set[str] = field(default_factory=set[str])
    """Ids of rows that have no metadata: no search finds them, and nothing says which document they belong to."""

    @property
    def is_whole(self) -> bool:
        return not (self.half or self.missing or self.stale or self.misplaced)


@dataclass(frozen=True, slots=True)
class RagRepair:
    """What a repair did."""

    run_group_ids: list[int]
    stored_again: int
    deleted: int
    placed: int
    left: list[str]
    """Documents that are half stored and that no known run can store again: somebody has to ingest them once more."""


async def check_rag(path: str, *, max_wait: float | None = 10.0) -> RagCheck:
    """Compare a RAG database with what the runs have stored there. Its lock is waited for, for `max_wait` seconds."""
    async with rag.hold_rag_lock(path, holder_kind=ResourceLockKind.CLI, max_wait=max_wait):
        contents = await contents_of(path)
        key = rag.rag_resource_key(path)
        stored = {row["doc_id"]: row for row in await Database.read(SQL.stored_under_key(key=key))}
        under_way = {row["doc_id"] for row in await Database.read(SQL.being_stored_under_key(key=key))}
        known = [doc_hash for doc_hash in contents.hashes.values() if doc_hash is not None]
        living = await places_of_contents(known)
        # A document that is about to be replaced is still said to live at its old place until the new one is stored.
        overtaken = (await others_at_places(under_way)).moved
    expected = {rag_id(doc_hash): row for doc_hash, row in stored.items() if not _is_skipped(row)}
    moving = {rag_id(doc_hash) for doc_hash in under_way}
    half = sorted(each for each in contents.ids - moving if not contents.is_whole(each, _chunks(expected, each)))
    excused = {*moving, *half, *map(rag_id, overtaken)}
    return RagCheck(
        path,
        documents=len(contents.metas),
        half=half,
        missing=sorted(expected.keys() - contents.ids - moving),
        stale=sorted(_stale(contents, living.keys(), moving)),
        misplaced=sorted(_misplaced(contents, living) - excused),
        ways={each: (row["workflow_definition_id"], row["param_definition_id"]) for each, row in expected.items()},
        hashes={rag_id(doc_hash): doc_hash for doc_hash in (*stored, *living)},
        nameless=contents.ids - contents.hashes.keys() - moving,
    )


async def repair_rag(check: RagCheck, *, max_wait: float | None = 10.0) -> RagRepair:
    """Store again what is half there or missing, delete what lives nowhere, and say of the rest where it lives."""
    broken = [each for each in (*check.half, *check.missing) if each not in check.stale]
    again = [each for each in broken if each in check.ways]
    groups = await _store_again(check, again)
    doomed = sorted({*check.stale, *(check.nameless - {*again})})
    if doomed:
        async with rag.hold_rag_lock(check.path, holder_kind=ResourceLockKind.CLI, max_wait=max_wait) as lock:
            await delete_by_ids(check.path, doomed, fence=lock)
    await _place(check, max_wait)
    left = sorted({*broken} - {*again} - {*doomed})
    return RagRepair(groups, stored_again=len(again), deleted=len(doomed), placed=len(check.misplaced), left=left)


async def _place(check: RagCheck, max_wait: float | None) -> None:
    """Have the database told where documents live, as when a place comes or goes: at once, or later if it is held."""
    key = rag.rag_resource_key(check.path)
    removals = [(check.hashes[each], key) for each in check.misplaced]
    await Database.transact(request_removals(removals, utcnow()))
    await finish_removals(removals, patience=PATIENCE if max_wait is None else max_wait)


def _is_skipped(row: Any) -> bool:
    output = json_of(row, "output")
    return not isinstance(output, dict) or bool(output.get("skipped"))


def _chunks(expected: dict[str, Any], document_id: str) -> int | None:
    return json_of(expected[document_id], "output").get("chunks") if document_id in expected else None


def _misplaced(contents: RagContents, living: Mapping[str, Sequence[Placement]]) -> set[str]:
    """Documents of ours that are said to live elsewhere than they do."""
    ours = {each: doc_hash for each, doc_hash in contents.hashes.items() if doc_hash is not None and doc_hash in living}
    return {each for each, doc_hash in ours.items() if contents.places[each] != frozenset(living[doc_hash])}


def _stale(contents: RagContents, living: Collection[str], moving: set[str]) -> set[str]:
    """Documents of ours that live nowhere."""
    ours = {each for each, doc_hash in contents.hashes.items() if doc_hash is not None and doc_hash not in living}
    return ours - moving


async def _store_again(check: RagCheck, ids: Sequence[str]) -> list[int]:
    by_way: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in ids:
        by_way[check.ways[each]].append(check.hashes[each])
    groups: list[int] = []
    for (workflow_id, param_id), hashes in sorted(by_way.items()):
        start = await plan_start(workflow_id, param_id, batch_id=None, priority=0, now=None)
        groups.append(await Database.transact(_start(start, hashes)))
    if groups:
        work_is_ready()
    return groups


def _start(start: Start, hashes: Sequence[str]) -> Script[int]:
    """Start a group of runs that store these documents again. One deleted meanwhile fails alone, and says so."""
    group_id = yield from new_group(start, GROUP)
    runs: list[NewRun] = []
    for doc_hash in hashes:
        place = yield from newest_place(doc_hash)
        runs.append(NewRun(doc_id=doc_hash, params=run_params(start, place.source)))
    yield from add_runs(start, group_id, runs)
    return group_id
