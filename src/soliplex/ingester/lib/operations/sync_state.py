"""How far clients have followed their sources: kept for them from one visit to the next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, SyncState
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Row, Script, datetime_of, json_of
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.storable import checked_meta, checked_name

DEFAULT_BRANCH: Final = "main"


async def get_sync_state(source_id: str) -> SyncState:
    """The sync state of a source; for a source that is not known, the state at the start."""
    name = checked_name("source_id", source_id)
    async with Database.session(read_only=True) as session:
        return await session.get(SyncState, name) or SyncState(source_id=name)


async def put_sync_state(
    source_id: str,
    commit_sha: str,
    *,
    branch: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> SyncState:
    """Record a visit. Metadata is merged into what is there; a branch that is not named stays."""
    name, commit = checked_name("source_id", source_id), checked_name("commit_sha", commit_sha)
    on_branch = checked_name("branch", branch) if branch else None
    added, moment = checked_meta("metadata", metadata or {}), now or utcnow()

    def script() -> Script[SyncState]:
        yield SQL.insert_sync_state(source_id=name, branch=DEFAULT_BRANCH)
        before = (yield SQL.lock_sync_state(source_id=name))[0]
        rows = yield SQL.update_sync_state(
            source_id=name,
            commit=commit,
            branch=on_branch or before["branch"],
            metadata=Json({**json_of(before, "sync_metadata"), **added}),
            now=moment,
        )
        return _state(rows[0])

    return await Database.transact(script())


async def delete_sync_state(source_id: str) -> None:
    """Forget a source: the next visit begins anew."""
    name = checked_name("source_id", source_id)
    async with Database.session() as session:
        state = await session.get(SyncState, name)
        if state is None:
            raise NotFoundError("sync state", name)
        await session.delete(state)


def _state(row: Row) -> SyncState:
    return SyncState(
        source_id=row["source_id"],
        last_commit_sha=row["last_commit_sha"],
        last_sync_date=datetime_of(row, "last_sync_date"),
        branch=row["branch"],
        sync_metadata=json_of(row, "sync_metadata"),
    )
