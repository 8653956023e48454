"""`/goals`: sentences that are taken apart into tasks, and executed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, TypeAdapter
from structlog.contextvars import bind_contextvars

from soliplex.ingester.goals.decomposers import shipped_decomposer
from soliplex.ingester.goals.goal_list import ListedGoal, list_goals
from soliplex.ingester.goals.notifications import (
    ALL,
    MOST_EVENTS,
    Event,
    OrchestratorNotifications,
    Telling,
    check_name,
    is_wanted,
    see_enabled,
)
from soliplex.ingester.goals.orchestrator import GoalResult, NewGoal, Orchestrator, flow_of, goal_and_flow, start
from soliplex.ingester.goals.shipped import see_below_roots
from soliplex.ingester.goals.task_graph import TaskGraph, tasks_of
from soliplex.ingester.goals.tasks import USUAL_TIMEOUT, functions_of
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import PaginatedResponse
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.feed import ChangeFeed, Follower
from soliplex.ingester.lib.wf.views import DefinitionGraph
from soliplex.ingester.server.auditing import note
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, BigId, Body, LongText, Text
from soliplex.ingester.server.routes.events import COME_BACK_AFTER

router = APIRouter(prefix="/goals", tags=["goals"])

type Goals = list[ListedGoal] | PaginatedResponse[ListedGoal]
EXAMPLE: Final = (
    "event: task_completed\n"
    'data: {"kind": "task_completed", "run_id": 43, "workflow_slug": "goal_1", "step": "ingest"}\n\n'
)
_EVENT: Final = TypeAdapter(Event)
type DecomposerName = Literal["rules", "llm", "hybrid"]


class WantedGoal(Body):
    """A goal to be planned."""

    goal: LongText = Field(max_length=10_000, examples=["ingest /srv/docs, then tell https://example.org/hook"])
    decomposer: DecomposerName = Field(
        default="rules",
        description="`rules` needs no language model; `hybrid` asks one for what rules do not understand.",
    )


class PlannedGoal(BaseModel):
    """What would be done for a goal."""

    goal: str
    slug: str = Field(description="The flow that the tasks become. Goals with the same tasks are the same flow.")
    plan: TaskGraph = Field(description="The tasks. Given to `POST /goals/`, it is what will be executed.")
    graph: DefinitionGraph = Field(description="What to draw: the steps of the flow, and what waits for what.")


class NewGoalBody(Body):
    """A goal to be executed."""

    goal: LongText | None = Field(default=None, max_length=10_000, description="What is to be done; or give a plan.")
    plan: dict[str, Any] | None = Field(default=None, description="What `POST /goals/plan` answered as `plan`.")
    decomposer: DecomposerName = "rules"
    key: Text | None = Field(default=None, description="A name for the goal: the same key again gives the same run.")
    task_timeout: float = Field(default=USUAL_TIMEOUT, gt=0, le=86_400, description="Seconds a task may take.")


class StartedGoal(BaseModel):
    """A goal that workers execute."""

    run_id: int


class GoalDetails(BaseModel):
    """A goal, how it fares, and what to draw."""

    result: GoalResult
    graph: DefinitionGraph | None = Field(description="Of its tasks; None until it was taken apart.")


@router.post("/plan", summary="Take a goal apart, and do nothing", responses=error_answers(400))
async def plan_goal(body: WantedGoal) -> PlannedGoal:
    """Tasks that read files name folders below INPUT_FILE_ROOTS."""
    plan = await Orchestrator.decompose_goal(body.goal, shipped_decomposer(body.decomposer))
    flow = flow_of(plan, functions_of(None, is_from_outside=True), timeout=USUAL_TIMEOUT)
    _see_paths(plan)
    return PlannedGoal(goal=body.goal, slug=flow.id, plan=plan, graph=views.graph_of_definition(flow))


@router.post("/", summary="Execute a goal", status_code=HTTPStatus.CREATED, responses=error_answers(400))
async def start_goal(body: NewGoalBody, request: Request) -> StartedGoal:
    """A goal is taken apart by its run; a plan is executed as it is. `POST /flows/runs/{run_id}/cancel` stops it."""
    if (body.goal is None) == (body.plan is None):
        raise InvalidInputError("goal", "or plan is wanted: give one of the two")
    if body.plan is None:
        assert body.goal is not None
        note(request, goal=body.goal)
        new = NewGoal(goal=body.goal, decomposer=await _understands(body.goal, body.decomposer), **_options(body))
    else:
        goal = str(body.plan.get("goal") or "a plan")
        note(request, goal=goal)
        # In a thread, so that other requests have their turn: there may be thousands of tasks.
        tasks = await asyncio.to_thread(tasks_of, body.plan)
        new = NewGoal(goal=goal, tasks=tasks, **_options(body))
    started = await start(new)
    bind_contextvars(run_id=started.run_id)
    return StartedGoal(run_id=started.run_id)


@router.get("/", summary="Goals, the newest first", response_model=Goals)
async def get_goals(request: Request, response: Response, asked: AskedPage) -> Any:
    return await asked.answer(await list_goals(paging=asked.paging), request, response)


@router.get("/recent", summary="What began or ended last, the newest first", responses=error_answers(400, 500))
async def get_recent_events(
    kind: Annotated[Text | None, Query(description="Such as `task_failed`.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 100,
) -> list[Event]:
    """Decompositions, executions and tasks of the hundred runs that were made last, and of those that ended last."""
    return await OrchestratorNotifications.get_recent_events(kind=kind, limit=limit)


@router.get(
    "/events",
    summary="Follow decompositions, executions and tasks",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"example": EXAMPLE}}}, **error_answers(400)},
)
async def follow(
    request: Request,
    name: Annotated[
        Text,
        Query(description="A kind of events (`task_failed`), a subject (`decomposition`, `execution`, `task`) or all."),
    ] = ALL,
) -> StreamingResponse:
    """What begins and ends from now on, as server-sent events; `GET /goals/recent` tells of what was before."""
    check_name(name)
    see_enabled(at_once=True)
    feed: ChangeFeed = request.app.state.feed
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream_of(feed, name), media_type="text/event-stream", headers=headers)


async def stream_of(feed: ChangeFeed, name: str) -> AsyncGenerator[str]:
    """Events of this name, as server-sent events, without an end."""
    yield f"retry: {COME_BACK_AFTER}\n\n"
    telling = Telling()
    async with aclosing(feed.changes_for(Follower(), None)) as changes:
        async for some in changes:
            events = [event for event in telling.events_of(some) if is_wanted(name, event.kind)]
            yield "".join(map(_as_event, events)) or ": nothing new\n\n"


def _as_event(event: Event) -> str:
    return f"event: {event.kind}\ndata: {_EVENT.dump_json(event).decode()}\n\n"


@router.get("/{run_id:int}", summary="A goal", responses=error_answers(404))
async def get_goal(run_id: BigId) -> GoalDetails:
    """`result.tasks` tells how each task stands; `result.flow_run_id` is the run whose steps they are."""
    result, flow = await goal_and_flow(run_id)
    return GoalDetails(result=result, graph=None if flow is None else views.graph_of_definition(flow))


def _options(body: NewGoalBody) -> dict[str, Any]:
    return {"key": body.key, "timeout": body.task_timeout, "is_from_outside": True}


async def _understands(goal: str, name: DecomposerName) -> Any:
    """The decomposer. What rules do not understand is refused now; a language model is asked once, by the run."""
    decomposer = shipped_decomposer(name)
    if name == "rules":
        _see_paths(await Orchestrator.decompose_goal(goal, decomposer))
    return decomposer


def _see_paths(plan: TaskGraph) -> None:
    for task in plan["tasks"].values():
        if path := task["params"].get("path"):
            see_below_roots(path)
