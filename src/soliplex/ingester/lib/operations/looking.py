"""Looking for documents as a person does: by a part of their name, a page at a time, however many there are.

A list is walked in the order of an index, from where the last page ended. One look goes through a bounded stretch of
it, so that a name that fits hardly anything costs no more than one that fits everything; the answer says where the
next look has to begin.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from soliplex.ingester.lib.answers import FoundDocument, FoundDocuments
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Row, Rows, datetime_of
from soliplex.ingester.lib.operations.batches import get_batch
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storable import LARGEST_INTEGER, checked_integer, checked_name, see_storable_text

STRETCH: Final = 50_000
"""Documents that one look goes through at most."""
MOST_SHOWN: Final = 200


async def look_for_documents(
    text: str = "",
    *,
    source: str | None = None,
    batch_id: int | None = None,
    after: str | None = None,
    limit: int = 50,
    stretch: int = STRETCH,
) -> FoundDocuments:
    """Documents whose URI contains the text, whatever its case, by source and URI; those of a batch as they came."""
    see_storable_text("q", text)
    most = min(checked_integer("limit", limit, least=1), MOST_SHOWN)
    if batch_id is not None and source is not None:
        raise InvalidInputError("source", "is given beside batch_id; say one of the two")
    if batch_id is None:
        rows, place = await _in_order(text, source, after, most, stretch)
    else:
        rows, place = await _of_batch(text, batch_id, after, most, stretch)
    return FoundDocuments(items=await _shown(rows), next=None if place is None else _written(place))


async def _in_order(
    text: str, source: str | None, after: str | None, most: int, stretch: int
) -> tuple[Rows, list[Any] | None]:
    if source is not None:
        checked_name("source", source)
    begin = _read(after, (str, str)) if after else [source or "", ""]
    place = {"source": begin[0], "uri": begin[1]}
    ends = await Database.read(SQL.end_of_stretch(**place, steps=stretch - 1))
    last = [ends[0]["source"], ends[0]["uri"]] if ends else None
    bounds = {"last_source": last and last[0], "last_uri": last and last[1], "only": source}
    rows = await Database.read(SQL.documents_in_stretch(**place, **bounds, **_spellings(text), most=most + 1))
    if len(rows) > most:
        return rows[:most], [rows[most - 1]["source"], rows[most - 1]["uri"]]
    return rows, last if source is None or (last and last[0] == source) else None


async def _of_batch(
    text: str, batch_id: int, after: str | None, most: int, stretch: int
) -> tuple[Rows, list[Any] | None]:
    await get_batch(batch_id)
    place = {"batch_id": batch_id, "id": _read(after, (int,))[0] if after else 0}
    ends = await Database.read(SQL.end_of_stretch_of_batch(**place, steps=stretch - 1))
    last_id = ends[0]["id"] if ends else None
    spelled = _spellings(text)
    rows = await Database.read(SQL.documents_in_stretch_of_batch(**place, last_id=last_id, **spelled, most=most + 1))
    if len(rows) > most:
        return rows[:most], [rows[most - 1]["id"]]
    return rows, [last_id] if last_id is not None else None


def _spellings(text: str) -> dict[str, str]:
    """Patterns of the text. SQLite, and PostgreSQL in the C locale, know the case of ASCII letters only."""
    spelled = (text, text.lower(), text.upper())
    return {name: f"%{_escaped(each)}%" for name, each in zip(("first", "second", "third"), spelled, strict=True)}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _written(place: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _read(after: str, kinds: tuple[type, ...]) -> list[Any]:
    """The place at which an earlier look ended."""
    try:
        place: Any = json.loads(base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    fits = isinstance(place, list) and tuple(map(type, place)) == kinds  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not fits or any(isinstance(each, int) and abs(each) > LARGEST_INTEGER for each in place):
        raise InvalidInputError("after", "is not what an answer to this question gave as `next`; begin without it")
    for each in place:
        see_storable_text("after", str(each))
    return place


async def _shown(rows: Rows) -> list[FoundDocument]:
    ids = sorted({row["run_id"] for row in rows if row["run_id"] is not None})
    found = await Database.read(SQL.statuses_of_runs(ids=ids)) if ids else []
    statuses = {row["id"]: RunStatus(row["status"]) for row in found}
    return [_document(row, statuses) for row in rows]


def _document(row: Row, statuses: dict[int, RunStatus]) -> FoundDocument:
    return FoundDocument(
        uri=row["uri"],
        source=row["source"],
        title=row["title"],
        batch_id=row["batch_id"],
        version=row["version"],
        doc_hash=row["doc_hash"],
        mime_type=row["mime_type"],
        file_size=row["file_size"],
        changed_at=datetime_of(row, "changed_at"),
        run_id=row["run_id"],
        run_status=statuses.get(row["run_id"]),
    )
