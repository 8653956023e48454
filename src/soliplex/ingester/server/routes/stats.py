"""`/stats`: throughput, rates, durations, utilization, and how long batches take."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from soliplex.ingester.lib import operations
from soliplex.ingester.lib.models import PaginatedResponse, RunGroup
from soliplex.ingester.lib.operations import BatchTimes, GroupCoverage, ProcessingRates
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import (
    Interval,
    StepDurations,
    StepRates,
    StepStats,
    Throughput,
    TypeThroughput,
    WorkerView,
)
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, Id, OldestFirst, Text
from soliplex.ingester.server.routes.run_groups import Stats
from soliplex.ingester.server.sharing import shared

router = APIRouter(prefix="/stats", tags=["stats"])

GroupId = Annotated[Id, Query(description="The run group.", examples=[5])]


class RunGroupDetails(BaseModel):
    """All that is known of how a run group fares."""

    run_group: RunGroup
    stats: Stats
    step_stats: list[StepStats]
    durations: list[StepDurations]


class Utilization(BaseModel):
    """How much of the workers' slots is in use."""

    workers: list[WorkerView]
    slots: int
    running_steps: int
    utilization: float


@router.get("/durations", summary="How long the steps of a group took", responses=error_answers(404))
async def durations(request: Request, run_group_id: GroupId) -> list[StepDurations]:
    """In seconds, by step type in the order of the workflow; of steps that were executed to an end.

    An answer that took long to work out is given to others for nine times as long, at most for ten seconds.
    """
    question = f"durations of group {run_group_id}"
    return await shared(request, question, lambda: views.step_durations(run_group_id))


@router.get("/step-stats", summary="How many steps of a group are in which status", responses=error_answers(404))
async def step_stats(run_group_id: GroupId) -> list[StepStats]:
    return await views.step_stats(run_group_id)


@router.get("/coverage", summary="How much of the text of a group's PDFs was read", responses=error_answers(404))
async def coverage(run_group_id: GroupId) -> GroupCoverage:
    """Of PDFs with a text layer: how many of its words are in what was read; those with the lowest share by name."""
    return await operations.group_coverage(run_group_id)


@router.get("/run-group-details/{run_group_id}", summary="All figures of a group", responses=error_answers(404))
async def run_group_details(run_group_id: Id) -> RunGroupDetails:
    return RunGroupDetails(
        run_group=await views.get_run_group(run_group_id),
        stats=Stats.of(await views.run_group_stats(run_group_id)),
        step_stats=await views.step_stats(run_group_id),
        durations=await views.step_durations(run_group_id),
    )


@router.get("/throughput", summary="How many documents were processed lately")
async def throughput(
    interval: Annotated[Interval, Query(description="How far back to look.")] = Interval.HOUR,
) -> Throughput:
    """Runs that ended within the interval, also piece by piece: seconds, minutes, hours or days."""
    return await views.throughput(interval)


@router.get("/throughput/steps", summary="How many steps ended lately, by type")
async def throughput_of_steps(
    request: Request,
    interval: Annotated[Interval, Query(description="How far back to look.")] = Interval.HOUR,
) -> list[TypeThroughput]:
    """Steps and tasks that ended within the interval, also piece by piece: seconds, minutes, hours or days.

    An answer that took long to work out is given to others for nine times as long.
    """
    return await shared(request, f"throughput of steps {interval}", lambda: views.throughput_by_type(interval))


@router.get("/rates", summary="How often steps succeed and fail", responses=error_answers(404))
async def rates(
    run_group_id: Annotated[Id | None, Query(description="Only of this run group.")] = None,
    batch_id: Annotated[Id | None, Query(description="Only of this batch.")] = None,
    interval: Annotated[Interval, Query(description="Else, of runs that ended within this.")] = Interval.DAY,
) -> list[StepRates]:
    return await views.step_rates(run_group_id=run_group_id, batch_id=batch_id, interval=interval)


@router.get(
    "/processing-rates",
    summary="How fast documents were processed lately, by kind and step",
    responses=error_answers(404),
)
async def processing_rates(
    workflow_definition_id: Annotated[Text | None, Query(description="Default: DEFAULT_WORKFLOW_ID.")] = None,
    param_id: Annotated[Text | None, Query(description="Default: DEFAULT_PARAM_ID.")] = None,
) -> ProcessingRates:
    """What `si-cli ingest --dry-run` forecasts by: the time that passed, shared out among documents and steps."""
    return await operations.processing_rates(workflow_definition_id, param_id)


@router.get("/workers", summary="How busy the workers are")
async def utilization() -> Utilization:
    found = (await views.list_workers(paging=views.FIRST_ROWS)).items
    slots = sum(worker.slots for worker in found)
    in_use = sum(min(worker.running_steps, worker.slots) for worker in found)
    return Utilization(
        workers=found,
        slots=slots,
        running_steps=sum(worker.running_steps for worker in found),
        utilization=in_use / slots if slots else 0.0,
    )


@router.get(
    "/batches",
    summary="How long batches took, the newest first",
    response_model=list[BatchTimes] | PaginatedResponse[BatchTimes],
)
async def batches(request: Request, response: Response, asked: AskedPage, *, oldest_first: OldestFirst = False) -> Any:
    page = await operations.batch_times(oldest_first=oldest_first, paging=asked.paging)
    return await asked.answer(page, request, response)
