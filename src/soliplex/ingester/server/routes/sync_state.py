"""`/sync-state`: how far clients have followed their sources."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.models import SyncState
from soliplex.ingester.lib.operations.checks import parse_object
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Text

router = APIRouter(prefix="/sync-state", tags=["sync-state"])

# A path: names of sources hold colons, and slashes where they are names of repositories.
_PLACE = "/{source_id:path}"
SourceId = Annotated[
    str, Path(description="The source's name; it may hold `:` and `/`.", examples=["gitea:admin:docs"])
]


@router.get(_PLACE, summary="How far a source was followed", responses=error_answers(400))
async def get_sync_state(source_id: SourceId) -> SyncState:
    """For a source that was never heard of, what holds at the start."""
    return await operations.get_sync_state(source_id)


@router.put(_PLACE, summary="Record how far a source was followed", responses=error_answers(400))
async def put_sync_state(
    source_id: SourceId,
    commit_sha: Annotated[Text, Form(description="The last commit that was taken in.")],
    branch: Annotated[str | None, Form(description="Stays as it was unless given; `main` at first.")] = None,
    metadata: Annotated[str, Form(description="A JSON object, merged into what is there.")] = "{}",
) -> SyncState:
    return await operations.put_sync_state(
        source_id, commit_sha, branch=branch or None, metadata=parse_object("metadata", metadata or "{}")
    )


@router.delete(_PLACE, summary="Forget how far a source was followed", responses=error_answers(400, 404))
async def delete_sync_state(source_id: SourceId) -> dict[str, str]:
    await operations.delete_sync_state(source_id)
    return {"message": "Sync state deleted", "source_id": source_id}
