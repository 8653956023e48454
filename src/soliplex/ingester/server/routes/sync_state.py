"""`/sync-state`: how far clients have followed their sources."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path
from pydantic import BaseModel, Field

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.models import SyncState
from soliplex.ingester.lib.storable import parse_object
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Text

router = APIRouter(prefix="/sync-state", tags=["sync-state"])

# A path: names of sources hold colons, and slashes where they are names of repositories.
_PLACE = "/{source_id:path}"
SourceId = Annotated[
    str, Path(description="The source's name; it may hold `:` and `/`.", examples=["gitea:admin:docs"])
]


class KeptSyncState(BaseModel):
    """How far a client has followed its source."""

    source_id: str
    last_commit_sha: str | None
    last_sync_date: str | None = Field(
        description="In UTC, and without a `Z`: clients in the field append it themselves.",
        examples=["2026-11-16T09:30:00.123456"],
    )
    branch: str
    sync_metadata: dict[str, Any]

    @classmethod
    def of(cls, state: SyncState) -> KeptSyncState:
        at = state.last_sync_date
        naive = at.astimezone(UTC).replace(tzinfo=None).isoformat() if at else None
        return cls.model_validate({**state.model_dump(), "last_sync_date": naive})


@router.get(_PLACE, summary="How far a source was followed", responses=error_answers(400))
async def get_sync_state(source_id: SourceId) -> KeptSyncState:
    """For a source that was never heard of, what holds at the start."""
    return KeptSyncState.of(await operations.get_sync_state(source_id))


@router.put(_PLACE, summary="Record how far a source was followed", responses=error_answers(400))
async def put_sync_state(
    source_id: SourceId,
    commit_sha: Annotated[Text, Form(description="The last commit that was taken in.")],
    branch: Annotated[str | None, Form(description="Stays as it was unless given; `main` at first.")] = None,
    metadata: Annotated[str, Form(description="A JSON object, merged into what is there.")] = "{}",
) -> KeptSyncState:
    state = await operations.put_sync_state(
        source_id, commit_sha, branch=branch or None, metadata=parse_object("metadata", metadata or "{}")
    )
    return KeptSyncState.of(state)


@router.delete(_PLACE, summary="Forget how far a source was followed", responses=error_answers(400, 404))
async def delete_sync_state(source_id: SourceId) -> dict[str, str]:
    await operations.delete_sync_state(source_id)
    return {"message": "Sync state deleted", "source_id": source_id}
