"""What is known of a document, besides its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script, json_of
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storable import checked_meta


async def add_metadata(doc_hash: str, found: Mapping[str, Any], *, keep_existing: bool) -> dict[str, Any]:
    """Merge new values into a document's metadata, safely beside others who do the same; gives all of the metadata."""
    new = checked_meta("doc_meta", found)

    def script() -> Script[dict[str, Any]]:
        rows = yield SQL.lock_document(hash=doc_hash)
        if not rows:
            raise NotFoundError("document", doc_hash)
        before: dict[str, Any] = json_of(rows[0], "doc_meta") or {}
        merged = {**new, **before} if keep_existing else {**before, **new}
        if merged != before:
            yield SQL.set_document_meta(hash=doc_hash, meta=Json(merged))
        return merged

    return await Database.transact(script())
