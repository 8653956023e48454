"""`/events`: what changes, as it changes, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import views
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.feed import Change, ChangeFeed, Follower, changes_since, moment_of, state_now
from soliplex.ingester.server.parameters import Id

router = APIRouter(prefix="/events", tags=["events"])

KEEP_ALIVE: Final = 15.0
"""Seconds of silence after which a comment is sent: proxies close connections that say nothing for long."""
COME_BACK_AFTER: Final = 2000
EXAMPLE: Final = (
    "id: 1763258400000000-r42\n"
    "event: run\n"
    'data: {"workflow_run_id": 42, "run_group_id": 5, "batch_id": 1, "status": "COMPLETED"}\n\n'
)


@router.get(
    "",
    summary="Follow changes of groups, runs and steps",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"example": EXAMPLE}}}, **error_answers(400, 404)},
)
async def follow(
    request: Request,
    batch_id: Annotated[Id | None, Query(description="Only of this batch.")] = None,
    run_group_id: Annotated[Id | None, Query(description="Only of this run group.")] = None,
    last_event_id: Annotated[str | None, Header(description="The last id that was seen, to go on from there.")] = None,
    last_event_id_in_query: Annotated[str | None, Query(alias="last_event_id")] = None,
) -> StreamingResponse:
    """Events `group`, `run` and `step`, each with the state it tells of.

    It begins with steps in flight and groups that have not ended; after `Last-Event-ID`, with what changed since.
    Groups and runs have an id; the progress of a group and the steps have none.
    """
    resumed = last_event_id or last_event_id_in_query
    if resumed is not None and moment_of(resumed) is None:
        raise InvalidInputError("Last-Event-ID", "is not an id of this stream; leave it out to begin anew")
    if run_group_id is not None:
        await views.get_run_group(run_group_id)
    feed: ChangeFeed = request.app.state.feed
    stream = _stream(feed, Follower(run_group_id, batch_id), resumed)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _stream(feed: ChangeFeed, follower: Follower, resumed: str | None) -> AsyncGenerator[str]:
    yield f"retry: {COME_BACK_AFTER}\n\n"
    # First it follows, then it is told what was before: what happens in between is told twice rather than never.
    async with feed.following(follower):
        told: set[str | None] = {resumed}
        async for change in _before(follower, resumed):
            told.add(change.id)
            yield as_event(change)
        told.discard(None)
        while (change := await _next(follower)) is not None:
            if isinstance(change, Change):
                if change.id not in told:
                    yield as_event(change)
            else:
                yield ": nothing new\n\n"


async def _before(follower: Follower, resumed: str | None) -> AsyncGenerator[Change]:
    moment = moment_of(resumed) if resumed else None
    if moment is not None:
        async for change in changes_since(follower, moment, now=utcnow()):
            if change.id is None or change.id != resumed:
                yield change
    for change in await state_now(follower):
        yield change


async def _next(follower: Follower) -> Change | bool | None:
    """The next change; False when there was none for a while, None when the stream has to end."""
    try:
        async with asyncio.timeout(KEEP_ALIVE):
            return await follower.queue.get()
    except TimeoutError:
        return False


def as_event(change: Change) -> str:
    """The change in the form of the protocol: lines, and an empty one at the end."""
    data: Any = json.dumps(change.data, ensure_ascii=False, separators=(",", ":"))
    number = f"id: {change.id}\n" if change.id else ""
    return f"{number}event: {change.kind}\ndata: {data}\n\n"
