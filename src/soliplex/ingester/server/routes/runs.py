"""`/workflow`: runs and steps, what they do now, starting, retrying and cancelling them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, computed_field
from structlog.contextvars import bind_contextvars

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.answers import Waiting
from soliplex.ingester.lib.config import TraceSettings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import (
    DocumentInfo,
    LifecycleHistory,
    PaginatedResponse,
    RunStatus,
    RunStep,
    WorkflowRun,
    WorkflowRunWithDetails,
)
from soliplex.ingester.lib.operations import Activity, FailedRun, documents_of
from soliplex.ingester.lib.pieces import ROWS, in_pieces, json_array_in_pieces
from soliplex.ingester.lib.wf import operations, views
from soliplex.ingester.lib.wf.tracing.ids import trace_ids_of
from soliplex.ingester.lib.wf.views import Causes, FailedAttempt, Interval, Page, RunGraph, TaskNode
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import (
    ID_SCHEMA,
    Asked,
    AskedPage,
    BigId,
    Id,
    OldestFirst,
    Priority,
    Status,
    Text,
    TextIfAny,
    flag,
    json_answer,
    json_list,
    required_id,
)
from soliplex.ingester.server.sharing import shared

router = APIRouter(prefix="/workflow", tags=["workflow"])

type Runs = (
    list[WorkflowRun]
    | PaginatedResponse[WorkflowRun]
    | list[WorkflowRunWithDetails]
    | PaginatedResponse[WorkflowRunWithDetails]
)
type Steps = list[RunStep] | PaginatedResponse[RunStep]
type Attempts = list[FailedAttempt] | PaginatedResponse[FailedAttempt]
type Tasks = list[TaskNode] | PaginatedResponse[TaskNode]
type Activities = list[Activity] | PaginatedResponse[Activity]

BatchId = Annotated[Id | None, Query(description="Only of this batch.")]
IncludeSteps = Annotated[bool, Query(description="With the steps of each run.")]
WithTasks = Annotated[
    bool,
    Query(description="With the tasks of map steps: there may be very many, which `/steps/{step_id}/tasks` pages."),
]
_STEP: Final = TypeAdapter(RunStep)
_RUN: Final = TypeAdapter(WorkflowRun)
_DOCUMENT: Final = TypeAdapter[DocumentInfo | None](DocumentInfo | None)
IncludeDocInfo = Annotated[bool, Query(description="With the document of each run.")]


class RunDetails(BaseModel):
    """A run, and its steps in their order."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True)

    id: int
    workflow_definition_id: str
    run_group_id: int
    batch_id: int | None
    doc_id: str | None
    priority: int
    created_date: datetime
    start_date: datetime | None
    completed_date: datetime | None
    status: RunStatus
    status_date: datetime | None
    status_message: str | None
    status_meta: dict[str, Any]
    run_params: dict[str, Any]
    input: Any = None
    output: Any = None
    duration: float | None
    trace_url: str | None = None
    """Where to look at the run's trace, by TRACE_URL_TEMPLATE; null where the run is not traced."""
    steps: list[RunStep] = Field(default_factory=list[RunStep])

    @computed_field
    @property
    def trace_id(self) -> str:
        """The id of the run's trace, which it has if it is traced."""
        return trace_ids_of(self.id, self.created_date).hex


class Retried(BaseModel):
    """What a manual retry put back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"run_group_id": 5, "reset_steps": 4, "reset_runs": 2}]})

    run_group_id: int
    reset_steps: int
    reset_runs: int


class Cancelled(BaseModel):
    """What a cancellation found to stop; running steps are stopped by their workers within a second."""

    cancelled_runs: int
    cancelled_steps: int


@router.get("/", summary="Runs, the newest first", response_model=Runs)
async def list_runs(
    request: Request,
    response: Response,
    asked: AskedPage,
    batch_id: BatchId = None,
    run_group_id: Annotated[Id | None, Query(description="Only of this run group.")] = None,
    status: Annotated[Status | None, Query(description="Only in this status.")] = None,
    *,
    oldest_first: OldestFirst = False,
    include_steps: IncludeSteps = False,
    include_doc_info: IncludeDocInfo = False,
) -> Any:
    """Plain runs; with an include flag, each with its steps or its document."""
    page = await views.list_runs(
        batch_id=batch_id, run_group_id=run_group_id, status=status, oldest_first=oldest_first, paging=asked.paging
    )
    return await _answer(page, asked, request, response, steps=include_steps, documents=include_doc_info)


@router.get("/by-status", summary="Runs in a status, the newest first", response_model=Runs)
async def list_runs_by_status(
    request: Request,
    response: Response,
    asked: AskedPage,
    status: Annotated[Status, Query()],
    batch_id: BatchId = None,
    *,
    include_steps: IncludeSteps = False,
    include_doc_info: IncludeDocInfo = False,
) -> Any:
    page = await views.list_runs(status=status, batch_id=batch_id, paging=asked.paging)
    return await _answer(page, asked, request, response, steps=include_steps, documents=include_doc_info)


@router.get("/failures", summary="What failed, why, and whether to try again", responses=error_answers(400, 404))
async def list_failures(
    run_group_id: Annotated[Id | None, Query(description="Runs of this group.")] = None,
    source: Annotated[Text | None, Query(description="Documents of this source, by their last run.")] = None,
    uri_prefix: Annotated[TextIfAny, Query(description="Of a source: how their URIs begin.")] = "",
    limit: Annotated[int, Query(ge=1, le=documents.MOST_FAILURES)] = documents.MOST_FAILURES,
) -> list[FailedRun]:
    """The newest first, each with the step that failed. Where the document itself is at fault, a retry cannot help."""
    if (run_group_id is None) == (source is None):
        raise InvalidInputError("run_group_id", "give either it or source")
    if run_group_id is not None:
        await views.get_run_group(run_group_id)
        return await documents.failures_of_group(run_group_id, most=limit)
    assert source is not None
    return await documents.failures_of_source(source, uri_prefix, most=limit)


@router.get("/failures/by-cause", summary="What steps failed of, those of most first", responses=error_answers(404))
async def list_causes(
    request: Request,
    run_group_id: Annotated[Id | None, Query(description="Only of this run group.")] = None,
    interval: Annotated[Interval | None, Query(description="Only of the last while.")] = None,
) -> Causes:
    """Failures that say the same but for numbers, names, paths and hashes are one cause, with examples.

    The newest ten thousand are looked at; `is_exact` says whether those are all.
    """
    return await shared(
        request,
        f"failures by cause {run_group_id} {interval}",
        lambda: views.failures_by_cause(run_group_id=run_group_id, interval=interval),
    )


@router.get("/reasons-to-wait", summary="Why steps of a group wait", responses=error_answers(404))
async def list_reasons_to_wait(
    run_group_id: Annotated[Id, Query()],
    limit: Annotated[int, Query(ge=1, le=documents.MOST_FAILURES)] = documents.MOST_FAILURES,
) -> list[Waiting]:
    """The most frequent reason first. They are tried again by themselves. What only waits for others is not told."""
    await views.get_run_group(run_group_id)
    return await documents.reasons_to_wait(run_group_id, most=limit)


@router.get("/nothing-to-index", summary="Documents of a group that hold no text", responses=error_answers(404))
async def list_with_nothing_to_index(
    run_group_id: Annotated[Id, Query()],
    limit: Annotated[int, Query(ge=1, le=documents.MOST_FAILURES)] = documents.MOST_FAILURES,
) -> list[str]:
    """Their URIs. They were processed without an error, and no search can find them."""
    await views.get_run_group(run_group_id)
    return await documents.with_nothing_to_index(run_group_id, most=limit)


@router.post(
    "/",
    summary="Start a workflow for one document",
    status_code=HTTPStatus.CREATED,
    response_model=list[WorkflowRun | list[RunStep]],  # a pair; clients' generators do not know tuples
    responses=error_answers(400, 404),
)
async def start_run(
    doc_id: Annotated[Text, Form(description="The document's hash.", examples=["sha256-5891b5b5…"])],
    workflow_definition_id: Annotated[Text | None, Form(description="Default: DEFAULT_WORKFLOW_ID.")] = None,
    workflow_definiton_id: Annotated[Text | None, Form(description="As clients misspell it.", deprecated=True)] = None,
    param_id: Annotated[Text | None, Form(description="Default: DEFAULT_PARAM_ID.")] = None,
    priority: Annotated[Priority, Form()] = 0,
) -> tuple[WorkflowRun, Sequence[RunStep]]:
    """Create a run in a group of its own; gives the run and its steps."""
    run, steps = await documents.start_document_workflow(
        doc_id,
        workflow_id=workflow_definition_id or workflow_definiton_id,
        param_id=param_id,
        priority=priority,
    )
    bind_contextvars(run_id=run.id)
    return run, steps


@router.get("/steps", summary="Steps in a status", response_model=Steps)
async def list_steps(
    request: Request,
    response: Response,
    asked: AskedPage,
    status: Annotated[Status, Query()],
    batch_id: BatchId = None,
    run_group_id: Annotated[Id | None, Query(description="Only of this run group.")] = None,
) -> Any:
    """The newest first; of a batch or group by run, and in the run's order."""
    page = await views.list_steps(status=status, batch_id=batch_id, run_group_id=run_group_id, paging=asked.paging)
    return await asked.answer(page, request, response)


@router.get("/runs", summary="Runs of a batch, the newest first", response_model=Runs)
async def list_runs_of_batch(
    request: Request, response: Response, asked: AskedPage, batch_id: Annotated[Id, Query()]
) -> Any:
    return await asked.answer(await views.list_runs(batch_id=batch_id, paging=asked.paging), request, response)


@router.get("/runs/{run_id}", summary="A run with its steps", response_model=RunDetails, responses=error_answers(404))
async def get_run(run_id: BigId, request: Request, *, tasks: WithTasks = True) -> Any:
    found = await views.get_run(run_id)
    traced_at = {"trace_url": _page_of_trace(found, request.app.state.settings)}
    details = RunDetails.model_validate(found).model_copy(update=traced_at)
    run = details.model_dump_json(exclude={"steps"}).encode()
    steps = (await views.made_of_steps([run_id], _STEP.dump_json, with_tasks=tasks))[run_id]
    return json_answer([run[:-1], b',"steps":', *await json_array_in_pieces(steps, bytes), b"}"])


def _page_of_trace(run: WorkflowRun, settings: TraceSettings) -> str | None:
    ids, template = trace_ids_of(run.id or 0, run.created_date), settings.trace_url_template
    is_traced = settings.trace_endpoint is not None and ids.is_sampled(settings.trace_sample_ratio)
    return template.replace("{trace_id}", ids.hex) if template and is_traced else None


@router.get(
    "/runs/{run_id}/lifecycle",
    summary="The life of a run",
    response_model=list[LifecycleHistory],
    responses=error_answers(404),
)
async def get_lifecycle(run_id: BigId, *, tasks: WithTasks = True) -> Any:
    """Its events and those of its steps by their date; what the rows tell without a record has a negative id."""
    events = await views.lifecycle_of_run(run_id, with_tasks=tasks)
    return json_answer(await json_list(events)) if len(events) > ROWS else events


@router.get("/runs/{run_id}/graph", summary="The graph of a run, and how its steps fare", responses=error_answers(404))
async def get_run_graph(run_id: BigId) -> RunGraph:
    """Steps and what waits for what, each with its status, attempts, duration and what it waits for.

    A map step is one node with the counts of its tasks; `/steps/{step_id}/tasks` lists these.
    """
    return await views.graph_of_run(run_id)


@router.get(
    "/steps/{step_id}/tasks",
    summary="The tasks of a map step, by their items",
    response_model=Tasks,
    responses=error_answers(404),
)
async def list_tasks(
    step_id: BigId,
    request: Request,
    response: Response,
    asked: AskedPage,
    status: Annotated[Status | None, Query(description="Only in this status.")] = None,
) -> Any:
    page = await views.tasks_of_step(step_id, status=status, paging=asked.paging)
    return await asked.answer(page, request, response)


@router.get(
    "/runs/{run_id}/attempts",
    summary="The attempts at the steps of a run that failed",
    response_model=Attempts,
    responses=error_answers(404),
)
async def list_attempts(run_id: BigId, request: Request, response: Response, asked: AskedPage) -> Any:
    """In the order in which they ended, each with its worker, times, error and traceback. Success leaves none."""
    return await asked.answer(await views.attempts_of_run(run_id, paging=asked.paging), request, response)


@router.get(
    "/payloads/{payload_id}",
    summary="A large input, output or state",
    responses={200: {"content": {"application/json": {"schema": {}}}}, **error_answers(404)},
    response_class=Response,
)
async def get_payload(payload_id: BigId) -> Response:
    """What is larger than 64 KiB stands in no run or step, but is referred to by `{":payload": id, "bytes": size}`."""
    content = await views.content_of_payload(payload_id)
    return Response(content, media_type="application/json")


@router.post("/runs/{run_id}/cancel", summary="Cancel a run", responses=error_answers(404))
async def cancel_run(run_id: BigId) -> Cancelled:
    """What waits is cancelled now; what runs is stopped by its worker. A run that has ended stays as it is."""
    done = await operations.cancel_run(run_id)
    return Cancelled(cancelled_runs=done.runs, cancelled_steps=done.steps)


_TO_RETRY: Final = {"run_group_id": ID_SCHEMA, "hard": {"type": "boolean", "default": False}}


@router.post(
    "/retry",
    summary="Retry what failed in a run group",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 404),
    openapi_extra={
        "parameters": [
            {"in": "query", "name": name, "schema": schema, "required": name == "run_group_id"}
            for name, schema in _TO_RETRY.items()
        ]
    },
)
async def retry(request: Request) -> Retried:
    """Put failed and cancelled steps back to PENDING; with `hard`, all that are not completed, also what runs.

    Both may stand in a form or in a JSON object, too.
    """
    run_group_id = await required_id(request, "run_group_id")
    done = await operations.retry_run_group(run_group_id, hard=await flag(request, "hard"))
    return Retried(run_group_id=run_group_id, reset_steps=done.reset_steps, reset_runs=done.reset_runs)


@router.get("/status/running", summary="The steps that run now", response_model=Activities)
async def running(request: Request, response: Response, asked: AskedPage) -> Any:
    """The longest-running first."""
    return await asked.answer(await documents.running_steps(paging=asked.paging), request, response)


@router.get("/status/recent", summary="The runs that began or ended lately", response_model=Activities)
async def recent(
    request: Request,
    response: Response,
    asked: AskedPage,
    interval: Annotated[Interval, Query(description="How far back to look.")] = Interval.HOUR,
    workflow_status: Annotated[Status | None, Query(description="Only runs in this status.")] = None,
) -> Any:
    """Those that changed last first, each at the step it has come to."""
    page = await documents.recent_runs(interval, status=workflow_status, paging=asked.paging)
    return await asked.answer(page, request, response)


async def _answer(
    page: Page[WorkflowRun], asked: Asked, request: Request, response: Response, *, steps: bool, documents: bool
) -> Any:
    if not (steps or documents):
        return await asked.answer(page, request, response)
    # A run may have very many steps, and a page very many runs. So what is read is written at once and let go: hundreds
    # of thousands of objects would hold the loop when they are looked through for garbage, and again when they go.
    written: list[bytes] = []
    async for some in in_pieces(page.items, ROWS):
        written += await _written(some, steps=steps, documents=documents)
    return await asked.answer_written(page, written, request, response)


async def _written(runs: Sequence[WorkflowRun], *, steps: bool, documents: bool) -> list[bytes]:
    """Each run as `WorkflowRunWithDetails` has it, as JSON."""
    ids = [run.id for run in runs if run.id is not None]
    steps_of = await views.made_of_steps(ids, _STEP.dump_json) if steps else None
    document_of = await documents_of(runs) if documents else {}
    return [
        b'{"workflow_run":%b,"steps":%b,"document_info":%b}'
        % (
            _RUN.dump_json(run),
            b"null" if steps_of is None else b"[%b]" % b",".join(steps_of[run.id or 0]),
            _DOCUMENT.dump_json(document_of.get(run.id or 0)),
        )
        for run in runs
    ]
