"""`/workflow/run-groups`: runs that were started together, and how they fare. Also spelled `run_groups`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from soliplex.ingester.lib.models import PaginatedResponse, RunGroup, RunStatus, WorkflowRun
from soliplex.ingester.lib.wf import operations, views
from soliplex.ingester.lib.wf.views import GroupEta, RunGroupStats
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, Id, OldestFirst, Status
from soliplex.ingester.server.routes.runs import Cancelled
from soliplex.ingester.server.routes.spellings import route

router = APIRouter(prefix="/workflow", tags=["workflow"])

type Groups = list[RunGroup] | PaginatedResponse[RunGroup]
type RunsOfGroup = list[WorkflowRun] | PaginatedResponse[WorkflowRun]


class Stats(BaseModel):
    """How the runs of a group fare, under every name that clients know it by."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "run_group_id": 5,
                    "total_runs": 100,
                    "completed": 95,
                    "running": 3,
                    "pending": 0,
                    "failed": 2,
                    "cancelled": 0,
                    "error": 0,
                    "average_duration": 45.3,
                    "avg_duration": 45.3,
                    "min_duration": 12.1,
                    "max_duration": 90.0,
                    "group_status": "RUNNING",
                    "status_counts": {"COMPLETED": 95, "RUNNING": 3, "FAILED": 2},
                    "PENDING": 0,
                    "RUNNING": 3,
                    "COMPLETED": 95,
                    "ERROR": 0,
                    "FAILED": 2,
                    "CANCELLED": 0,
                }
            ]
        }
    )

    run_group_id: int
    total_runs: int
    completed: int
    running: int
    pending: int
    failed: int
    cancelled: int
    error: int
    average_duration: float | None
    avg_duration: float | None
    min_duration: float | None
    max_duration: float | None
    group_status: RunStatus
    status_counts: dict[RunStatus, int]
    PENDING: int
    RUNNING: int
    COMPLETED: int
    ERROR: int
    FAILED: int
    CANCELLED: int

    @classmethod
    def of(cls, stats: RunGroupStats) -> Stats:
        return cls.model_validate(
            {
                "run_group_id": stats.run_group_id,
                "total_runs": stats.total_runs,
                "average_duration": stats.average_duration,
                "avg_duration": stats.average_duration,
                "min_duration": stats.min_duration,
                "max_duration": stats.max_duration,
                "group_status": stats.group_status,
                "status_counts": {status: count for status, count in stats.counts.items() if count},
                **{status.value: count for status, count in stats.counts.items()},
                **{status.value.lower(): count for status, count in stats.counts.items()},
            }
        )


class DeletedRunGroup(BaseModel):
    """How many rows went with the group."""

    message: str
    run_group_id: int
    statistics: dict[str, int]


@route(router, "GET", "/run-groups", summary="Run groups, the newest first", response_model=Groups)
async def list_run_groups(
    request: Request,
    response: Response,
    asked: AskedPage,
    batch_id: Annotated[Id | None, Query(description="Only of this batch.")] = None,
    status: Annotated[Status | None, Query(description="Only in this status.")] = None,
    *,
    oldest_first: OldestFirst = False,
) -> Any:
    page = await views.list_run_groups(batch_id=batch_id, status=status, oldest_first=oldest_first, paging=asked.paging)
    return await asked.answer(page, request, response)


@route(router, "GET", "/run-groups/{run_group_id}", summary="A run group", responses=error_answers(404))
async def get_run_group(run_group_id: Id) -> RunGroup:
    return await views.get_run_group(run_group_id)


@route(
    router,
    "GET",
    "/run-groups/{run_group_id}/runs",
    summary="The runs of a group, the newest first",
    response_model=RunsOfGroup,
    responses=error_answers(404),
)
async def list_runs_of_group(run_group_id: Id, request: Request, response: Response, asked: AskedPage) -> Any:
    await views.get_run_group(run_group_id)
    return await asked.answer(await views.list_runs(run_group_id=run_group_id, paging=asked.paging), request, response)


@route(
    router,
    "GET",
    "/run-groups/{run_group_id}/stats",
    summary="How the runs of a group fare",
    responses=error_answers(404),
)
async def get_stats(run_group_id: Id) -> Stats:
    """Counts by status, and how many seconds the runs took that were executed."""
    return Stats.of(await views.run_group_stats(run_group_id))


@route(
    router,
    "GET",
    "/run-groups/{run_group_id}/eta",
    summary="When a group will have ended",
    responses=error_answers(404),
)
async def get_eta(run_group_id: Id) -> GroupEta:
    """By how fast its steps or runs ended in the last quarter of an hour; null, with the reason, if nobody can know."""
    return await views.eta_of_group(run_group_id)


@route(
    router,
    "POST",
    "/run-groups/{run_group_id}/cancel",
    summary="Cancel every run of a group",
    responses=error_answers(404),
)
async def cancel_run_group(run_group_id: Id) -> Cancelled:
    """What waits is cancelled now; what runs is stopped by its worker."""
    done = await operations.cancel_run_group(run_group_id)
    return Cancelled(cancelled_runs=done.runs, cancelled_steps=done.steps)


@route(
    router,
    "DELETE",
    "/run-groups/{run_group_id}",
    summary="Delete a group with its runs, steps and events",
    responses=error_answers(404),
)
async def delete_run_group(run_group_id: Id) -> DeletedRunGroup:
    statistics = await operations.delete_run_group(run_group_id)
    return DeletedRunGroup(
        message=f"Run group {run_group_id} deleted", run_group_id=run_group_id, statistics=statistics
    )
