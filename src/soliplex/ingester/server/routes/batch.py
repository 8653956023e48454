"""`/batch`: documents that come in together, starting their workflows, and how far they have come."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.models import DocumentBatch, PaginatedResponse, RunGroup, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.operations.batches import RUNS_SHOWN
from soliplex.ingester.lib.wf import views
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, Id, Priority, Text

router = APIRouter(prefix="/batch", tags=["batch"])


class NewBatch(BaseModel):
    """The batch that was made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"batch_id": 1}]})

    batch_id: int


class StartedWorkflows(BaseModel):
    """What was started."""

    message: str = "Workflows started"
    workflows: int
    """How many runs."""
    run_group_id: int
    run_group: RunGroup


class Progress(BaseModel):
    """How far a batch has come."""

    model_config = ConfigDict(from_attributes=True)

    batch: DocumentBatch
    document_count: int
    workflow_count: dict[RunStatus, int]
    workflows: list[WorkflowRun]
    parsed: int
    remaining: int


@router.get("/", summary="Batches, in the order they were started")
async def list_batches(
    request: Request, response: Response, asked: AskedPage
) -> list[DocumentBatch] | PaginatedResponse[DocumentBatch]:
    return asked.answer(await operations.list_batches(paging=asked.paging), request, response)


@router.post("/", summary="Start a batch", status_code=HTTPStatus.CREATED, responses=error_answers(400))
async def create_batch(
    source: Annotated[Text, Form(description="The system the documents come from.", examples=["sharepoint"])],
    name: Annotated[Text, Form(description="What people call it.", examples=["Q4 Financial Reports"])],
) -> NewBatch:
    return NewBatch(batch_id=await operations.create_batch(source, name))


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
    group = started.run_group
    assert group.id is not None
    return StartedWorkflows(workflows=len(started.run_ids), run_group_id=group.id, run_group=group)


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
    return asked.answer(await views.list_steps(batch_id=batch_id, paging=asked.paging), request, response)
