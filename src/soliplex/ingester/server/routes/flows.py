"""`/flows`: flows that clients define as JSON, their runs, signals and schedules."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, BaseModel, Field, StrictBool, TypeAdapter
from structlog.contextvars import bind_contextvars

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Schedule
from soliplex.ingester.lib.wf import operations, views
from soliplex.ingester.lib.wf.answers import SentSignal
from soliplex.ingester.lib.wf.conditions import Repeat
from soliplex.ingester.lib.wf.definitions import ANY_NUMBER, OUTSIDE, StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.flows import Executor, Run
from soliplex.ingester.lib.wf.flows.allowed import check_commands
from soliplex.ingester.lib.wf.flows.runs import StepOfRun, run_as_stored
from soliplex.ingester.lib.wf.operations.definitions import (
    delete_definition,
    find_workflow,
    newest_of_all,
    newest_with_drafts,
)
from soliplex.ingester.lib.wf.operations.payloads import json_of_value
from soliplex.ingester.lib.wf.views import DefinitionGraph, RunGraph
from soliplex.ingester.server.auditing import note
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, BigId, Body, CurrentSettings, Moment, Text, json_answer
from soliplex.ingester.server.routes.runs import Attempts
from soliplex.ingester.server.routes.signals import SIGNAL_BODY, payload_of
from soliplex.ingester.server.routes.tasks import Whole

router = APIRouter(prefix="/flows", tags=["flows"])

_RUN: Final = TypeAdapter(Run)
_STEP: Final = TypeAdapter(StepOfRun)
MOST_STEPS: Final = 2_000
"""Of a flow that a client defines. All clients and workers read it, and whoever lists flows."""
_EXAMPLE: Final = {
    "title": "Lengths",
    "steps": [
        {"name": "words", "type": "task", "command": "my_flows.words"},
        {"name": "length", "type": "map", "command": "my_flows.length", "dependencies": ["words"]},
    ],
}


def _short(definition: dict[str, Any]) -> dict[str, Any]:
    steps = definition.get("steps")
    if isinstance(steps, list) and len(steps) > MOST_STEPS:
        problem = f"are {len(steps)}; give at most {MOST_STEPS}, and let a map step do the same for many things"
        raise InvalidInputError("definition.steps", problem)
    return definition


class ListedFlow(BaseModel):
    """A flow that is stored."""

    slug: str
    title: str
    version: int
    steps: list[str]


class LoopOfStep(BaseModel):
    """How often a step is called, and until when."""

    until: str
    max: int
    delay: float = Field(description="Seconds.")


class StepOfFlow(BaseModel):
    """A step as the flow defines it."""

    name: str
    type: str = Field(description="`task`, `map`, or the type of workers outside that take it.")
    command: str = Field(description="The function that is called, or what workers outside are told to do.")
    dependencies: list[str]
    max_attempts: int
    timeout: float | None = Field(description="Seconds.")
    when: str | None
    repeat: LoopOfStep | None
    optional: bool
    tolerant: bool = Field(description="Of a map step: whether it goes on when a task fails.")
    max_failures: int | None = Field(description="How many tasks may fail, where there is a limit.")
    gather: bool = Field(description="Of a map step: whether its output is the list of what its tasks gave.")
    priority: int
    queue: str | None = Field(description="On PostgreSQL, the queue of pgmq that it is sent to.")


class DefinedFlow(BaseModel):
    """A flow as it is defined now."""

    slug: str
    title: str
    version: int | None = Field(description="None: it is in a file, and not stored.")
    steps: list[StepOfFlow]


class NewFlow(Body):
    """A flow as JSON."""

    definition: Annotated[dict[str, Any], AfterValidator(_short)] = Field(
        description=f"Title, version and at most {MOST_STEPS} steps.", examples=[_EXAMPLE]
    )
    slug: Text | None = Field(default=None, description="Default: the definition's `id`, or made of its title.")


class StartedFlow(BaseModel):
    """A run that was asked for."""

    run_id: int
    slug: str


class NewFlowRun(Body):
    """A run to start."""

    input: Any = Field(default=None, description="Any JSON.", examples=[{"text": "to be or not"}])
    key: Text | None = Field(default=None, description="A name for the run: the same key again gives the same run.")
    priority: Whole = Field(default=0, ge=-(2**31), lt=2**31, description="Higher goes first.")
    start_at: Moment | None = Field(default=None, description="Before this moment no step begins.")
    deadline: Moment | None = Field(default=None, description="At this moment a run that is not over fails.")


class NewSchedule(Body):
    """A flow that is to be started again and again."""

    name: Text = Field(examples=["nightly"])
    slug: Text
    cron: Text = Field(examples=["0 6 * * 1-5"])
    time_zone: Text = Field(default="UTC", examples=["Europe/Paris"])
    input: Any = None
    priority: Whole = Field(default=0, ge=-(2**31), lt=2**31)
    longest_seconds: float | None = Field(default=None, gt=0, description="How long a run may take.")
    catch_up: StrictBool = Field(default=True, description="Start once, late, what was due more than a minute ago.")


@router.get("/", summary="Flows, by slug")
async def list_flows() -> list[ListedFlow]:
    """The newest version of each that is stored in the database."""
    return [
        ListedFlow(
            slug=each.workflow.id,
            title=each.workflow.name,
            version=each.version,
            steps=[step.key for step in each.workflow.steps],
        )
        for each in await newest_of_all()
        if not each.workflow.is_internal
    ]


@router.post("/", summary="Save a flow", status_code=HTTPStatus.CREATED, responses=error_answers(400, 409))
async def create_flow(body: NewFlow, request: Request, settings: CurrentSettings) -> ListedFlow:
    """Saved again with another content, it gets a new version; runs keep to theirs.

    A command names a function of a module that `FLOW_MODULES` allows. Steps of a type that begins with an @ are for
    workers that claim over HTTP, and get the command as a parameter.
    """
    # In a thread, so that other requests have their turn: it takes a while where there are many steps.
    flow = await asyncio.to_thread(WorkflowDefinition.parse, body.definition, slug=body.slug)
    note(request, slug=flow.id)
    check_commands(flow, settings)
    saved = await operations.save_workflow(flow)
    return ListedFlow(slug=flow.id, title=flow.name, version=saved.version, steps=[step.key for step in flow.steps])


@router.get("/schedules", summary="Schedules, by name")
async def list_schedules() -> list[Schedule]:
    return await operations.list_schedules()


@router.post(
    "/schedules", summary="Add a schedule", status_code=HTTPStatus.CREATED, responses=error_answers(400, 404, 409)
)
async def add_schedule(body: NewSchedule, request: Request) -> Schedule:
    """One run is started at each due time, whichever worker notices it."""
    note(request, name=body.name, slug=body.slug, cron=body.cron)
    return await operations.add_schedule(
        body.name,
        body.slug,
        body.cron,
        time_zone=body.time_zone,
        input=body.input,
        priority=body.priority,
        longest=None if body.longest_seconds is None else timedelta(seconds=body.longest_seconds),
        catch_up=body.catch_up,
    )


@router.post("/schedules/{name}/pause", summary="Pause a schedule", responses=error_answers(404))
async def pause_schedule(name: Text) -> Schedule:
    await operations.pause_schedule(name)
    return await operations.find_schedule(name)


@router.post("/schedules/{name}/resume", summary="Let a schedule go on", responses=error_answers(404))
async def resume_schedule(name: Text) -> Schedule:
    await operations.resume_schedule(name)
    return await operations.find_schedule(name)


@router.delete(
    "/schedules/{name}", summary="Forget a schedule", status_code=HTTPStatus.NO_CONTENT, responses=error_answers(404)
)
async def remove_schedule(name: Text) -> None:
    """Runs that the schedule has started go on."""
    await operations.remove_schedule(name)


@router.post(
    "/signals/{key:path}",
    summary="Send a signal",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 413),
    openapi_extra={"requestBody": SIGNAL_BODY},
)
async def send_signal(
    key: Annotated[str, Path(description="What the step waits for.")], request: Request
) -> SentSignal:
    """As `POST /signals/{key}`."""
    return await views.standing_of_signal(await operations.send_signal(key, await payload_of(request)), key)


@router.get("/runs/{run_id}", summary="A run of a flow", response_model=Run, responses=error_answers(404))
async def get_run(run_id: BigId) -> Response:
    """With the outputs of its steps, whatever their size."""
    return await _told(run_id)


async def _told(run_id: int) -> Response:
    """What is large in the run stays the text as which it is stored: to read and write it would keep others waiting."""
    run = await run_as_stored(run_id)
    steps = [await _with_values(_STEP.dump_json(each, exclude={"output"}), output=each.output) for each in run.steps]
    about = _RUN.dump_json(replace(run, steps=[]), exclude={"input", "output", "steps"})
    pieces = await _with_values(about, input=run.input, output=run.output)
    listed = [piece for step in steps for piece in (b",", *step)][1:]
    return json_answer([*pieces[:-1], b',"steps":[', *listed, b"]}"])


async def _with_values(about: bytes, **values: Any) -> list[bytes]:
    pieces = [about[:-1]]
    for name, value in values.items():
        pieces += [f',"{name}":'.encode(), *await json_of_value(value)]
    return [*pieces, b"}"]


@router.post("/runs/{run_id}/cancel", summary="Cancel a run", response_model=Run, responses=error_answers(404))
async def cancel_run(run_id: BigId) -> Response:
    await operations.cancel_run(run_id)
    return await _told(run_id)


@router.post("/runs/{run_id}/retry", summary="Try again what failed", response_model=Run, responses=error_answers(404))
async def retry_run(run_id: BigId) -> Response:
    await operations.retry_run(run_id)
    return await _told(run_id)


@router.get("/runs/{run_id}/graph", summary="The graph of a run", responses=error_answers(404))
async def get_run_graph(run_id: BigId) -> RunGraph:
    return await views.graph_of_run(run_id)


@router.get(
    "/runs/{run_id}/attempts",
    summary="The attempts at the steps of a run that failed",
    response_model=Attempts,
    responses=error_answers(404),
)
async def list_attempts(run_id: BigId, request: Request, response: Response, asked: AskedPage) -> Any:
    return await asked.answer(await views.attempts_of_run(run_id, paging=asked.paging), request, response)


@router.get("/{slug}", summary="A flow", responses=error_answers(400, 404))
async def get_flow(slug: Text) -> DefinedFlow:
    """Its version, and its steps with what they call and under which conditions."""
    flow = await find_workflow(slug)
    stored = await newest_with_drafts(slug)
    return DefinedFlow(
        slug=flow.id,
        title=flow.name,
        version=None if stored is None else stored.version,
        steps=[_step_of(step) for step in flow.steps],
    )


def _step_of(step: StepDefinition) -> StepOfFlow:
    return StepOfFlow(
        name=step.key,
        type=step.type if step.method == OUTSIDE else "task" if step.map is False else "map",
        command=step.command,
        dependencies=list(step.depends_on),
        max_attempts=step.retries,
        timeout=step.timeout.total_seconds() if step.timeout else None,
        when=step.when.text if step.when else None,
        repeat=_loop_of(step.repeat) if step.repeat else None,
        optional=step.optional,
        tolerant=step.max_failures is not None,
        max_failures=None if step.max_failures == ANY_NUMBER else step.max_failures,
        gather=step.gather,
        priority=step.priority,
        queue=step.queue,
    )


def _loop_of(repeat: Repeat) -> LoopOfStep:
    return LoopOfStep(until=repeat.until.text, max=repeat.max, delay=repeat.delay.total_seconds())


@router.get("/{slug}/graph", summary="The graph of a flow", responses=error_answers(400, 404))
async def get_graph(slug: Text) -> DefinitionGraph:
    """What to draw: nodes in topological order, and edges from each step to those that wait for it."""
    return views.graph_of_definition(await find_workflow(slug))


@router.delete("/{slug}", summary="Delete a flow", status_code=HTTPStatus.NO_CONTENT, responses=error_answers(404))
async def delete_flow(slug: Text) -> None:
    """The flow is found no more. Runs of it go on."""
    await delete_definition(DefinitionKind.WORKFLOW, slug)


@router.post("/{slug}/runs", summary="Start a run", status_code=HTTPStatus.CREATED, responses=error_answers(400, 404))
async def start_run(slug: Text, body: NewFlowRun) -> StartedFlow:
    flow = await find_workflow(slug)
    if flow.is_internal:
        raise NotFoundError("flow", slug)
    run_id = await Executor.start_workflow(
        flow, body.input, key=body.key, priority=body.priority, start_at=body.start_at, deadline=body.deadline
    )
    bind_contextvars(run_id=run_id)
    return StartedFlow(run_id=run_id, slug=slug)
