"""`/events`: what changes, as it changes, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.feed import Change, ChangeFeed, Follower, moment_of
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import BigId, Id, Text

router = APIRouter(prefix="/events", tags=["events"])

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
    workflow_run_id: Annotated[BigId | None, Query(description="Only of this run: itself and its steps.")] = None,
    workflow_definition_id: Annotated[Text | None, Query(description="Only of this workflow.")] = None,
    kind: Annotated[
        list[Literal["group", "run", "step", "pulse"]] | None,
        Query(description="Only events of this kind; may be given several times. Default: all but `pulse`."),
    ] = None,
    step_type: Annotated[
        list[Text] | None, Query(description="Of steps, only those of this type; may be given several times.")
    ] = None,
    last_event_id: Annotated[str | None, Header(description="The last id that was seen, to go on from there.")] = None,
    last_event_id_in_query: Annotated[str | None, Query(alias="last_event_id")] = None,
) -> StreamingResponse:
    """Events `group`, `run` and `step`, each with the state it tells of.

    It begins with steps in flight and groups that have not ended; after `Last-Event-ID`, with what changed since.
    Groups and runs have an id; the progress of a group and the steps have none. After an id of more than a week ago, an
    event `gap` says from when until when nothing is told. A `pulse` says how many changes a look at the database has
    found, and nothing else: for who only wants to know when to look anew. There is one at the beginning. Who names a
    group or a run hears a `gone`, whatever kinds are asked for, when the group is deleted.
    """
    resumed = last_event_id or last_event_id_in_query
    if resumed is not None and moment_of(resumed) is None:
        raise InvalidInputError("Last-Event-ID", "is not an id of this stream; leave it out to begin anew")
    if run_group_id is not None:
        await views.get_run_group(run_group_id)
    if workflow_run_id is not None:
        run_group_id = await _group_of(workflow_run_id, run_group_id)
    feed: ChangeFeed = request.app.state.feed
    follower = Follower(
        run_group_id=run_group_id,
        batch_id=batch_id,
        run_id=workflow_run_id,
        workflow_id=workflow_definition_id,
        kinds=frozenset({*kind, "gap"} if kind else ()),
        step_types=frozenset(each.lower() for each in step_type or ()),
    )
    stream = _stream(feed, follower, resumed)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _group_of(run_id: int, asked: int | None) -> int:
    group_id = (await views.get_run(run_id)).run_group_id
    if asked is not None and asked != group_id:
        raise InvalidInputError("workflow_run_id", f"is a run of group {group_id}, not of group {asked}")
    return group_id


async def _stream(feed: ChangeFeed, follower: Follower, resumed: str | None) -> AsyncGenerator[str]:
    yield f"retry: {COME_BACK_AFTER}\n\n"
    async with aclosing(feed.changes_for(follower, resumed)) as changes:
        async for some in changes:
            # Proxies close connections that say nothing for long.
            yield "".join(map(as_event, some)) or ": nothing new\n\n"


def as_event(change: Change) -> str:
    """The change in the form of the protocol: lines, and an empty one at the end."""
    number = f"id: {change.id}\n" if change.id else ""
    return f"{number}event: {change.kind}\ndata: {change.text}\n\n"
