"""The rows of documents whose bytes are kept: many documents in one transaction.

What several uploads have to record at the same time is written together: the number of statements does not depend on
the number of documents, and there is one commit. Within a transaction each content and each place stands once; locks
are taken in the order contents, documents, URIs, and among each kind in the order of their names.

A group waits for nobody: where another transaction holds what one of its documents needs, the group is given up, and
each of its documents is recorded alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

from soliplex.ingester.lib.errors import ConflictError, IngesterError, NotFoundError
from soliplex.ingester.lib.gathering import Gathering
from soliplex.ingester.lib.models import Database, HistoryAction
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json, to_json
from soliplex.ingester.lib.models.transactions import Row, Script, json_of
from soliplex.ingester.lib.operations.errors import BeingRemovedError
from soliplex.ingester.lib.operations.removals import ARTIFACTS, PLACES, request_removals
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.wiring import current_wiring

PRIORITY: Final = "_priority"
"""Among the metadata of a document, how urgent its uploader says it is."""
TRIES: Final = 20
SHORT_WAIT: Final = "100ms"
"""How long a group waits for a lock. Other uploads hold theirs for milliseconds."""


class Change(Enum):
    """What an upload changed at its URI."""

    CREATED = auto()
    UPDATED = auto()
    MOVED = auto()
    """The URI had this content already, in another batch; now it is in this one."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Uploaded:
    """Where the document lives now."""

    uri_id: int
    uri: str
    source: str
    doc_hash: str
    version: int
    batch_id: int | None
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What is to be recorded of a document whose bytes are kept."""

    doc_hash: str
    size: int
    mime_type: str
    uri: str
    source: str
    batch_id: int | None
    """None: it belongs to no batch."""
    meta: Mapping[str, Any]
    priority: int | None = None

    def added_to(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata of the content: what is said last of it holds, and what is not said again stays."""
        merged = {**before, **self.meta}
        if self.priority:
            merged[PRIORITY] = self.priority
        elif self.priority is not None:
            merged.pop(PRIORITY, None)
        return merged

    @property
    def place(self) -> tuple[str, str]:
        return self.uri, self.source


class _GivenUpError(IngesterError):
    """The documents of a group could not be recorded together: each is recorded alone."""


async def record(arrival: Arrival) -> Uploaded:
    """Write the rows of a document, together with those of others that arrive at the same time."""
    try:
        return await current_wiring().kept(_together).submit(arrival)
    except _GivenUpError:
        (outcome,) = await Database.transact(recorded([arrival], utcnow(), patience=None))
        if isinstance(outcome, Exception):
            raise outcome from None
        return outcome


async def _record_together(arrivals: Sequence[Arrival]) -> Sequence[Uploaded | Exception]:
    outcomes: dict[int, Uploaded | Exception] = {}
    for group in _without_twins(arrivals):
        try:
            found = await Database.transact(recorded(group, utcnow(), patience=SHORT_WAIT))
            outcomes |= {id(arrival): outcome for arrival, outcome in zip(group, found, strict=True)}
        except (OSError, sqlite3.OperationalError) as exc:  # the database cannot be reached, or another writes to it
            outcomes |= dict.fromkeys(map(id, group), exc)
        except Exception as exc:  # noqa: BLE001  whatever it is, who is alone with it will be told
            error = _GivenUpError(str(exc))
            error.__cause__ = exc
            outcomes |= dict.fromkeys(map(id, group), error)
    return [outcomes[id(arrival)] for arrival in arrivals]


def _together() -> Gathering[Arrival, Uploaded]:
    """The uploads of a wiring that are recorded together: a group goes to one database."""
    return Gathering(_record_together)


def _without_twins(arrivals: Sequence[Arrival]) -> Iterator[list[Arrival]]:
    """The arrivals in groups that hold each content and each place once: a second one must see what the first did."""
    rest = list(arrivals)
    while rest:
        group, later, seen = list[Arrival](), list[Arrival](), set[object]()
        for arrival in rest:
            has_twin = arrival.doc_hash in seen or arrival.place in seen
            (later if has_twin else group).append(arrival)
            seen |= {arrival.doc_hash, arrival.place}
        yield group
        rest = later


def recorded(
    arrivals: Sequence[Arrival], now: datetime, *, patience: str | None
) -> Script[list[Uploaded | BeingRemovedError | NotFoundError]]:
    """The rows of documents that have no content and no place in common.

    An arrival that is refused is refused before anything is written.
    """
    yield SQL.begin_recording(patience=patience)
    refused = yield from _refused(arrivals)
    accepted = [arrival for arrival in arrivals if arrival.doc_hash not in refused]
    known = yield from _record_documents({arrival.doc_hash: arrival for arrival in accepted})
    changes = yield from _record_uris({arrival.place: arrival for arrival in accepted})
    yield from _record_history(changes.values(), now)
    # Content that was here before may be in RAG databases, which do not know of its new place; and no run may follow.
    moved = (each for each in changes.values() if each.doc_hash in known and each.change is not Change.NOTHING)
    yield from request_removals([(each.doc_hash, PLACES) for each in moved], now)
    return [refused.get(arrival.doc_hash) or changes[arrival.place] for arrival in arrivals]


def _refused(arrivals: Sequence[Arrival]) -> Script[dict[str, BeingRemovedError | NotFoundError]]:
    """The arrivals whose batch does not exist or whose content is being removed, by hash, with the reason."""
    wanted = {each.batch_id for each in arrivals if each.batch_id is not None}
    batches = {None, *(row["id"] for row in (yield SQL.find_batches(ids=sorted(wanted))))}
    hashes = sorted(each.doc_hash for each in arrivals)
    yield SQL.hold_contents(hashes=hashes)
    rows = yield SQL.removals_begun(hashes=hashes, target=ARTIFACTS)
    removed = {row["doc_hash"]: BeingRemovedError(row["doc_hash"]) for row in rows}
    return removed | {
        each.doc_hash: NotFoundError("batch", each.batch_id) for each in arrivals if each.batch_id not in batches
    }


def _record_documents(arrivals: Mapping[str, Arrival]) -> Script[set[str]]:
    """Write the rows of the documents; gives the hashes of those that were known before."""
    waiting, known = dict(sorted(arrivals.items())), set[str]()
    for _ in range(TRIES):
        if not waiting:
            return known
        values = [[each.doc_hash, each.mime_type, each.size, to_json(each.added_to({}))] for each in waiting.values()]
        for row in (yield SQL.insert_documents(documents=Json(values))):
            del waiting[row["hash"]]
        if waiting:
            for row in (yield SQL.lock_known_documents(hashes=list(waiting))):
                known.add(row["hash"])
                yield from _merge_meta(row, waiting.pop(row["hash"]))
        # A document that is neither inserted nor found was deleted while we waited for it.
    raise ConflictError(f"document {next(iter(waiting))} comes and goes: try again later")


def _merge_meta(document: Row, arrival: Arrival) -> Script[None]:
    before = json_of(document, "doc_meta")
    merged = arrival.added_to(before)
    if merged != before:
        yield SQL.set_document_meta(hash=document["hash"], meta=Json(merged))


def _record_uris(arrivals: Mapping[tuple[str, str], Arrival]) -> Script[dict[tuple[str, str], Uploaded]]:
    waiting, changes = dict(sorted(arrivals.items())), dict[tuple[str, str], Uploaded]()
    for _ in range(TRIES):
        if not waiting:
            return changes
        for row in (yield SQL.lock_known_uris(places=Json(list(waiting)))):
            place = row["uri"], row["source"]
            changes[place] = yield from _change_uri(row, waiting.pop(place))
        if waiting:
            values = [[each.uri, each.source, each.doc_hash, each.batch_id] for each in waiting.values()]
            for row in (yield SQL.insert_uris(uris=Json(values))):
                place = row["uri"], row["source"]
                changes[place] = _uploaded(waiting.pop(place), row, Change.CREATED)
        # Another upload was first to insert the URIs that are left: its rows are changed.
    raise ConflictError(f"URI {next(iter(waiting))[0]!r} comes and goes: try again later")


def _change_uri(row: Row, arrival: Arrival) -> Script[Uploaded]:
    if row["doc_hash"] != arrival.doc_hash:
        rows = yield SQL.replace_content(id=row["id"], hash=arrival.doc_hash, batch_id=arrival.batch_id)
        return _uploaded(arrival, rows[0], Change.UPDATED)
    if row["batch_id"] != arrival.batch_id:
        # A document is processed in the batch that it was uploaded to last.
        rows = yield SQL.move_uri(id=row["id"], batch_id=arrival.batch_id)
        return _uploaded(arrival, rows[0], Change.MOVED)
    return _uploaded(arrival, row, Change.NOTHING)


def _uploaded(arrival: Arrival, row: Row, change: Change) -> Uploaded:
    return Uploaded(row["id"], arrival.uri, arrival.source, arrival.doc_hash, row["version"], arrival.batch_id, change)


_NOTED: Final = {Change.CREATED: HistoryAction.CREATED, Change.UPDATED: HistoryAction.UPDATED}


def _record_history(changes: Iterable[Uploaded], now: datetime) -> Script[None]:
    values = [
        [each.uri_id, each.version, each.doc_hash, _NOTED[each.change].value, each.batch_id]
        for each in changes
        if each.change in _NOTED
    ]
    if values:
        yield SQL.insert_histories(histories=Json(values), now=now)
