"""Which versions a URI has, and what is still stored of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from soliplex.ingester.lib.answers import StoredVersion
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations.made import stored_artifacts
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.versions.finding import ROLLED_BACK_TO, Place, Version, find_place, versions_of
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.views import FIRST_ROWS, Page, Paging


async def list_versions(uri: str, source: str, *, paging: Paging = FIRST_ROWS) -> Page[StoredVersion]:
    """The versions of a URI, the newest first. Those that a clean-up of orphans removed are missing."""
    place = await find_place(uri, source)
    total = (await Database.read(SQL.count_versions_of_uri(uri_id=place.id)))[0]["versions"]
    rows = await versions_of(place, limit=paging.rows_per_page, offset=paging.offset)
    return Page(await _with_what_is_stored(place, rows), total, paging.page, paging.rows_per_page)


async def _with_what_is_stored(place: Place, rows: Sequence[Version]) -> list[StoredVersion]:
    hashes = sorted({row.hash for row in rows if row.is_known})
    artifacts = get_artifacts()
    found = await asyncio.gather(*map(artifacts.has_document, hashes))
    stored = {doc_hash for doc_hash, is_there in zip(hashes, found, strict=True) if is_there}
    made = await stored_artifacts(hashes)
    kinds = {doc_hash: sorted({each.artifact_type for each in made[doc_hash]}) for doc_hash in hashes}
    return [
        StoredVersion(
            version=row.version,
            hash=row.hash,
            action=row.action,
            process_date=row.process_date,
            batch_id=row.batch_id,
            file_size=row.file_size,
            mime_type=row.mime_type,
            is_current=row.version == place.version,
            is_stored=row.hash in stored,
            artifacts=kinds.get(row.hash, []),
            rolled_back_to=row.histmeta.get(ROLLED_BACK_TO),
            histmeta=row.histmeta,
        )
        for row in rows
    ]
