"""What is true in the end: each acknowledged document is there once, whole, in its newest version, and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from unittest.mock import patch

import httpx

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.operations import deletion, removals
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.search import SearchKind, search_documents
from soliplex.ingester.lib.storage import Integrity, find_strays, get_artifacts
from soliplex.ingester.lib.wf.operations.groups import anything_left
from tests.chaos.clients import API, GONE, Book, Place
from tests.chaos.installation import PATIENCE, Installation
from tests.support.engine import rows_of, scalar
from tests.support.faults import eventually
from tests.support.invariants import assert_consistent
from tests.support.stores_agree import Comparison, Finding, Kind, compare, compare_blobs, stored_documents

ROUNDS: Final = 4
SEARCHES: Final = 60


@dataclass
class Outcome:
    """What was found in the end."""

    comparisons: list[Comparison] = field(default_factory=list[Comparison])
    failures: Counter[str] = field(default_factory=Counter[str])
    """Why steps had failed that were retried."""
    late: int = 0
    """Documents whose runs nobody had started, or whose upload came through after its batch was started."""

    def findings(self) -> list[Finding]:
        return [finding for comparison in self.comparisons for finding in comparison.findings]

    def counts(self) -> Counter[Kind]:
        return Counter(finding.kind for finding in self.findings())


async def settle(installation: Installation, book: Book) -> Outcome:
    """Let fresh processes finish all there is to do, and retry what failed while things were bad."""
    outcome = Outcome()
    await asyncio.to_thread(installation.disk.free)
    await installation.close()
    await installation.open("server", "worker", "worker")
    async with httpx.AsyncClient(base_url=f"{installation.servers()[0].url}{API}", timeout=120) as client:
        for batch_id, param_id in book.batches.items():
            await _start(client, batch_id, param_id)
        for _ in range(ROUNDS):
            await _everything_ends(installation)
            if not await _again(client, outcome):
                break
    await installation.close()
    return outcome


async def _again(client: httpx.AsyncClient, outcome: Outcome) -> bool:
    """Start what was never started, and retry what failed; whether there was any."""
    unstarted = await rows_of(_UNSTARTED)
    outcome.late += sum(count for _, _, count in unstarted)
    for batch_id, data_dir, _ in unstarted:
        await _start(client, batch_id, data_dir)
    failed = await rows_of("SELECT DISTINCT run_group_id FROM workflowrun WHERE status IN ('FAILED', 'CANCELLED')")
    for message, count in await rows_of(
        "SELECT status_message, count(*) FROM runstep WHERE status = 'FAILED' GROUP BY status_message"
    ):
        outcome.failures[str(message).splitlines()[0][:200]] += count
    for (group_id,) in failed:
        (await client.post("/workflow/retry", data={"run_group_id": group_id})).raise_for_status()
    return bool(unstarted or failed)


# Batches bear the name of the RAG database that their documents go to.
_UNSTARTED: Final = """
    SELECT u.batch_id, b.name, count(*) FROM documenturi u JOIN documentbatch b ON b.id = u.batch_id
     WHERE NOT EXISTS (SELECT 1 FROM workflowrun r WHERE r.doc_id = u.doc_hash AND r.created_date >=
            (SELECT max(h.process_date) FROM documenturihistory h
              WHERE h.doc_uri_id = u.id AND h.version = u.version AND h.action IN ('created', 'updated')))
     GROUP BY u.batch_id, b.name"""


async def _start(client: httpx.AsyncClient, batch_id: int, param_id: str) -> None:
    form = {"batch_id": batch_id, "workflow_definition_id": "batch", "param_id": param_id}
    (await client.post("/batch/start-workflows", data=form)).raise_for_status()


async def _everything_ends(installation: Installation) -> None:
    async def nothing_is_left() -> bool:
        installation.fill_slots()
        return not await anything_left()

    workers = installation.processes()
    await eventually(nothing_is_left, "everything ends", within=PATIENCE, workers=workers)


async def check(book: Book, outcome: Outcome, dice: random.Random) -> None:
    """Compare everything with everything; nothing runs any more."""
    data_dirs = sorted({place.data_dir for place in book.places})
    outcome.comparisons.append(await _engine())
    outcome.comparisons.append(await _books(book))
    with _later():
        await eventually(_locks_are_free, "locks of the dead expire", within=PATIENCE)
        cleaned = await _cleaned(documents.finish_removals)
        before = [await compare(rag_path(data_dir)) for data_dir in data_dirs]
        cleaned += await _cleaned(documents.cleanup_orphans)
    outcome.comparisons.append(Comparison("clean-ups", 2, 2 - len(cleaned), cleaned))
    after = [await compare(rag_path(data_dir)) for data_dir in data_dirs]
    # What a clean-up repairs or breaks would be seen only before or only after it.
    for first, second in zip(before, after, strict=True):
        findings = list(dict.fromkeys([*first.findings, *second.findings]))
        outcome.comparisons.append(Comparison(first.where, second.expected, second.found, findings))
    outcome.comparisons.append(await compare_blobs())
    outcome.comparisons.append(await _searches(book, dice))


async def _cleaned(clean_up: Callable[[], Awaitable[object]]) -> list[Finding]:
    try:
        await clean_up()
    except Exception as exc:  # noqa: BLE001  it is a finding, and there are more to come
        return [Finding(Kind.DIFFERENT, "clean-ups", f"{clean_up.__name__} failed: {exc!r}")]
    return []


@contextmanager
def _later() -> Generator[None]:
    """As if a day had passed: what a dead process had begun may be finished by others, what it left be removed."""
    tomorrow = utcnow() + timedelta(days=2)
    with (
        patch.object(removals, "STALE", timedelta(0)),
        patch.object(deletion, "find_strays", lambda store: find_strays(store, now=tomorrow)),
    ):
        yield


async def _locks_are_free() -> bool:
    return await scalar("SELECT count(*) FROM resourcelock WHERE expires_at > :now", now=utcnow()) == 0


async def _engine() -> Comparison:
    """Runs, groups and events: all ended, each group said so once."""
    findings: list[Finding] = []
    try:
        await assert_consistent()
    except AssertionError as exc:
        findings.append(Finding(Kind.DIFFERENT, "engine", f"invariants do not hold: {exc}"))
    for what, query in _UNFINISHED.items():
        if rows := await rows_of(query):
            findings.append(Finding(Kind.LOST, "engine", f"{len(rows)} {what}: {rows[:5]}"))
    total = await scalar("SELECT count(*) FROM workflowrun")
    ended = await scalar("SELECT count(*) FROM workflowrun WHERE completed_date IS NOT NULL")
    return Comparison("engine: runs", total, ended, findings)


_UNFINISHED: Final = {
    "runs have not completed": "SELECT id, doc_id, status, status_message FROM workflowrun WHERE status <> 'COMPLETED'",
    "groups have not ended": "SELECT id, status FROM rungroup WHERE completed_date IS NULL AND total_runs > 0",
    "events were not delivered": "SELECT id, event, status FROM lifecyclehistory WHERE status <> 'COMPLETED'",
    "locks are held by workers": "SELECT resource_key, holder_id FROM resourcelock WHERE holder_kind = 'worker'",
}


async def _books(book: Book) -> Comparison:
    """What clients were told, beside what the database and the store of bytes say."""
    rows = await rows_of("SELECT source, uri, doc_hash FROM documenturi")
    there = {(source, uri): doc_hash for source, uri, doc_hash in rows}
    stored = {each: await stored_documents(rag_path(each)) for each in {place.data_dir for place in book.places}}
    wrong: list[tuple[Kind, str]] = []
    for place in book.places:
        found = there.pop((place.source, place.uri), GONE)
        wrong += misremembered(place, found)
        if found != GONE and found not in stored[place.data_dir]:
            wrong.append((Kind.HALF, f"{place.uri}: {found} was never stored in {place.data_dir}"))
    wrong += [(Kind.STALE, f"{source} {uri} was never uploaded") for source, uri in there]
    wrong += [(Kind.LOST, what) async for what in _lost_versions(book)]
    wrong += [(Kind.DOUBLED, what) for what in book.mixed]
    expected = sum(place.present != GONE for place in book.places)
    return Comparison(
        "acknowledged", expected, len(rows), [Finding(kind, "acknowledged", what) for kind, what in wrong]
    )


def misremembered(place: Place, found: str) -> Iterable[tuple[Kind, str]]:
    """What is wrong with a place that holds the content `found`, by what its client was told."""
    if found == place.present or found in place.possible:
        return
    if found == GONE:
        yield Kind.LOST, f"{place.uri}: {place.present} was acknowledged, and is gone"
    elif place.present == GONE:
        yield Kind.STALE, f"{place.uri} was deleted, and holds {found}"
    else:
        yield Kind.DIFFERENT, f"{place.uri} holds {found}, and {place.present} was acknowledged last"


async def _lost_versions(book: Book) -> AsyncIterator[str]:
    """Earlier versions of places that were not deleted: each has its row and its bytes until somebody cleans up."""
    kept = [place for place in book.places if place.present != GONE and GONE not in place.possible]
    wanted = {doc_hash: place.uri for place in kept for doc_hash in place.versions}
    known = {doc_hash for (doc_hash,) in await rows_of("SELECT hash FROM document")}
    for doc_hash, state in (await get_artifacts().verify(wanted)).items():
        if doc_hash not in known:
            yield f"{wanted[doc_hash]}: a version was acknowledged, and has no row: {doc_hash}"
        elif state is not Integrity.OK:
            yield f"{wanted[doc_hash]}: the bytes of a version are {state}: {doc_hash}"


async def _searches(book: Book, dice: random.Random) -> Comparison:
    """The word that stands in one version only is found in that version, if it is the present one, and nowhere else."""
    sure = [place for place in book.places if place.versions and not place.possible]
    asked = dice.sample(sure, min(SEARCHES, len(sure)))
    wrong = [each for place in asked for each in await _search(place)]
    return Comparison("searches", len(asked), len(asked) - len(wrong), wrong)


async def _search(place: Place) -> Sequence[Finding]:
    version = place.present or place.versions[-1]
    try:
        hits = await search_documents(place.words[version], database=place.data_dir, kind=SearchKind.TEXT)
    except NotFoundError:
        hits = []  # nothing was ever stored there, or the database is lost
    except Exception as exc:  # noqa: BLE001  whatever LanceDB says of a broken database
        return [Finding(Kind.LOST, "searches", f"{place.uri} in {place.data_dir}: {exc!r}")]
    found = {hit.doc_hash for hit in hits}
    if found == ({place.present} if place.present != GONE else set()):
        return []
    kind = Kind.LOST if place.present not in found and place.present != GONE else Kind.STALE
    return [Finding(kind, "searches", f"{place.uri} in {place.data_dir}: found {found}, not {place.present!r}")]
