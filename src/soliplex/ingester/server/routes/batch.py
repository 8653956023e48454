"""`/batch`: documents that come in together, starting their workflows, and how far they have come."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Self

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from structlog.contextvars import bind_contextvars

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.models import DocumentBatch, PaginatedResponse, RunGroup, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.operations.batches import RUNS_SHOWN
from soliplex.ingester.lib.storable import parse_object
from soliplex.ingester.lib.wf import views
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, Id, Priority, Text

router = APIRouter(prefix="/batch", tags=["batch"])


class NewBatch(BaseModel):
    """The batch that was made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"batch_id": 1}]})

    batch_id: int


class UnfinishedBatch(BaseModel):
    """The batch to go on with."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"batch_id": 1}]})

    batch_id: int | None
    """Null where the newest batch of this source and name has been completed, or there is none."""


class StartedWorkflows(BaseModel):
    """What was started."""

    message: str = "Workflows started"
    workflows: int
    """How many runs."""
    run_group_id: int
    run_group: RunGroup

    @classmethod
    def of(cls, started: operations.Started) -> Self:
        group = started.run_group
        assert group.id is not None
        return cls(workflows=len(started.run_ids), run_group_id=group.id, run_group=group)


class Progress(BaseModel):
    """How far a batch has come."""

    model_config = ConfigDict(from_attributes=True)

    batch: DocumentBatch
    document_count: int = Field(description="Contents; one that lives at several URIs counts once.")
    workflow_count: dict[RunStatus, int] = Field(
        description="Documents by the status of their newest run; those without a run are in none. An address that is "
        "still to be fetched counts by its run."
    )
    workflows: list[WorkflowRun] = Field(description="The newest runs first.")
    parsed: int = Field(description="Documents that were processed to the end.")
    remaining: int = Field(description="The other documents.")


@router.get("/", summary="Batches, in the order they were started")
async def list_batches(
    request: Request, response: Response, asked: AskedPage
) -> list[DocumentBatch] | PaginatedResponse[DocumentBatch]:
    return await asked.answer(await operations.list_batches(paging=asked.paging), request, response)


@router.post("/", summary="Start a batch", status_code=HTTPStatus.CREATED, responses=error_answers(400))
async def create_batch(
    source: Annotated[Text, Form(description="The system the documents come from.", examples=["sharepoint"])],
    name: Annotated[Text, Form(description="What people call it.", examples=["Q4 Financial Reports"])],
    batch_params: Annotated[
        str, Form(description="A JSON object of texts, kept with the batch.", examples=['{"department": "finance"}'])
    ] = "{}",
) -> NewBatch:
    params = parse_object("batch_params", batch_params or "{}")
    return NewBatch(batch_id=await operations.create_batch(source, name, params))


@router.post(
    "/start-workflows",
    summary="Start a run for each document of a batch",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 404, 409),
)
async def start_workflows(
    batch_id: Annotated[Id, Form()],
    workflow_definition_id: Annotated[str | None, Form(description="Default: DEFAULT_WORKFLOW_ID.")] = None,
    param_id: Annotated[str | None, Form(description="Default: DEFAULT_PARAM_ID.")] = None,
    priority: Annotated[Priority, Form()] = 0,
    *,
    only_unparsed: Annotated[
        bool, Form(description="Go on with the newest group of the same workflow and parameters.")
    ] = False,
) -> StartedWorkflows:
    """All runs are made in one transaction: all of them, or none."""
    started = await operations.start_workflows(
        batch_id,
        workflow_id=workflow_definition_id,
        param_id=param_id,
        priority=priority,
        only_unparsed=only_unparsed,
    )
    bind_contextvars(run_group_id=started.run_group.id)
    return StartedWorkflows.of(started)


@router.get("/unfinished", summary="The batch that a client left unfinished", responses=error_answers(400))
async def unfinished_batch(
    source: Annotated[Text, Query(description="The source it was started for.", examples=["sharepoint"])],
    name: Annotated[Text, Query(description="The name it was given.", examples=["Q4 Financial Reports"])],
) -> UnfinishedBatch:
    """The newest batch of this source and name, if it has not been completed: what was interrupted goes on with it."""
    return UnfinishedBatch(batch_id=await operations.unfinished_batch(source, name))


@router.get("/status", summary="How far a batch has come", responses=error_answers(404))
async def batch_status(batch_id: Annotated[Id, Query()], asked: AskedPage) -> Progress:
    """Counts, and the newest hundred runs, or the page of them that is asked for."""
    paging = asked.paging if asked.is_paged else RUNS_SHOWN
    return Progress.model_validate(await operations.batch_status(batch_id, paging=paging))


@router.get(
    "/{batch_id}/steps",
    summary="The steps of a batch's runs",
    response_model=list[RunStep] | PaginatedResponse[RunStep],
    responses=error_answers(404),
)
async def list_steps(request: Request, response: Response, asked: AskedPage, batch_id: Id) -> Any:
    """By run, the newest first, and in the run's order."""
    await operations.get_batch(batch_id)
    return await asked.answer(await views.list_steps(batch_id=batch_id, paging=asked.paging), request, response)
