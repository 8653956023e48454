"""Looking up a URI and its versions, as rows of the history have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from soliplex.ingester.lib.errors import DocumentURINotFoundError
from soliplex.ingester.lib.models import Database, HistoryAction
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of
from soliplex.ingester.lib.operations.errors import VersionGoneError, VersionNotFoundError
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storable import checked_name, checked_uri

ROLLED_BACK_TO = "rolled_back_to"
"""The key in `histmeta` under which a version says which earlier one it repeats."""


@dataclass(frozen=True, slots=True)
class Place:
    """A URI, and what lives there now."""

    id: int
    uri: str
    source: str
    doc_hash: str
    version: int
    batch_id: int | None


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a URI, as the history and the document's row tell of it."""

    version: int
    hash: str
    action: HistoryAction
    process_date: datetime
    batch_id: int | None
    histmeta: dict[str, Any]
    mime_type: str | None
    file_size: int | None
    is_known: bool
    """Whether the document has a row; without one nothing is stored of it."""

    @classmethod
    def of(cls, row: Row) -> Self:
        when = datetime_of(row, "process_date")
        assert when is not None
        return cls(
            version=row["version"],
            hash=row["hash"],
            action=HistoryAction(row["action"]),
            process_date=when,
            batch_id=row["batch_id"],
            histmeta=json_of(row, "histmeta"),
            mime_type=row["mime_type"],
            file_size=row["file_size"],
            is_known=bool(row["is_known"]),
        )


async def is_known(uri: str, source: str) -> bool:
    """Whether a document lives there."""
    try:
        await find_place(uri, source)
    except DocumentURINotFoundError:
        return False
    return True


async def find_place(uri: str, source: str) -> Place:
    checked_uri(uri, "uri")
    checked_name("source", source)
    rows = await Database.read(SQL.find_uri(uri=uri, source=source))
    if not rows:
        raise DocumentURINotFoundError(uri, source)
    row = rows[0]
    return Place(row["id"], uri, source, row["doc_hash"], row["version"], row["batch_id"])


async def versions_of(place: Place, *, limit: int, offset: int = 0) -> list[Version]:
    """The versions, the newest first."""
    rows = await Database.read(SQL.versions_of_uri(uri_id=place.id, limit=limit, offset=offset))
    return [Version.of(row) for row in rows]


async def find_version(place: Place, version: int) -> Version:
    """The version with this number. The errors tell a version that never was from one that is no longer known."""
    rows: Sequence[Row] = []
    if 1 <= version <= place.version:
        rows = await Database.read(SQL.version_of_uri(uri_id=place.id, version=version))
        if not rows:
            raise VersionGoneError(place.uri, version, "a clean-up of orphans removed it")
    if not rows:
        raise VersionNotFoundError(place.uri, version, place.version)
    return Version.of(rows[0])
