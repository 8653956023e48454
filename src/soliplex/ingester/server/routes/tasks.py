"""`/tasks`: steps for workers outside, in any language."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, BeforeValidator, Field, StrictBool, TypeAdapter

from soliplex.ingester.lib.wf import outside
from soliplex.ingester.lib.wf.outside import Claimed, Extended, seconds
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Body, Id, LongText, Text, json_answer, json_list

router = APIRouter(prefix="/tasks", tags=["tasks"])


def _number(value: Any) -> Any:
    """Pydantic would take true, and texts, for numbers."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("give a number")
    return value


MOST_TYPES: Final = 100
_HELD: Final = TypeAdapter(Claimed)
Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
LeaseSeconds = Annotated[Number, Field(description="How long the lease lasts without more being asked for.")]


class ClaimTasks(Body):
    """Which steps a worker wants, and for how long."""

    worker: Text = Field(description="A name for people to read.", examples=["ocr-box-3"])
    types: list[Text] = Field(
        max_length=MOST_TYPES, description="Types of steps; each begins with an @.", examples=[["@ocr"]]
    )
    limit: Whole = Field(default=1, description="The most steps to take: 1 to 100.")
    lease_seconds: LeaseSeconds = 60
    wait_seconds: Number = Field(default=0, description="How long to wait for a step: 0 to 60.")


class ExtendLease(Body):
    """More time for what was claimed, and how far it has come."""

    lease: Text
    lease_seconds: LeaseSeconds = 60
    progress: Number | None = Field(default=None, description="From 0 to 1.")
    text: Text | None = Field(default=None, description="What it is doing, for people.")


class CompleteTask(Body):
    """The output of a step."""

    id: Annotated[Id, BeforeValidator(_number)]
    lease: Text
    output: Any = None


class FailTask(Body):
    """Why an attempt failed."""

    id: Annotated[Id, BeforeValidator(_number)]
    lease: Text
    message: LongText = Field(examples=["the scanner is on fire"])
    permanent: StrictBool = Field(default=False, description="There is no use in another attempt.")
    retry_after_seconds: Number | None = Field(default=None, description="Default: what the workflow says.")


class Recorded(BaseModel):
    """That the result is recorded."""

    id: int
    status: str


@router.post("/claim", summary="Take steps to work on", response_model=Claimed, responses=error_answers(400))
async def claim(body: ClaimTasks) -> Response:
    """Only steps whose type begins with an @ are for workers outside, and only those who ask for a type get it.

    What is not completed, failed or extended before `expires_at` goes to another worker. Without a step to take,
    `tasks` is empty.
    """
    claimed = await outside.claim_tasks(
        body.worker,
        body.types,
        limit=body.limit,
        lease_for=seconds("lease_seconds", body.lease_seconds),
        wait=body.wait_seconds,
    )
    held = _HELD.dump_json(replace(claimed, tasks=[]), exclude={"tasks"})
    # One at a time: a step's input may be large.
    return json_answer([held[:-1], b',"tasks":', *await json_list(claimed.tasks, size=1), b"}"])


@router.post("/extend", summary="Ask for more time", responses=error_answers(400, 409))
async def extend(body: ExtendLease) -> Extended:
    """For all that was claimed under the lease. What is `unwanted` need not be finished: its run was cancelled."""
    lease_for = seconds("lease_seconds", body.lease_seconds)
    return await outside.extend_lease(body.lease, lease_for=lease_for, progress=body.progress, text=body.text)


@router.post("/complete", summary="Tell the output of a step", responses=error_answers(400, 409))
async def complete(body: CompleteTask) -> Recorded:
    """409: the lease is over, and another has the step or had it. Drop the result."""
    await outside.complete_task(body.id, body.lease, body.output)
    return Recorded(id=body.id, status="completed")


@router.post("/fail", summary="Tell that an attempt failed", responses=error_answers(400, 409))
async def fail(body: FailTask) -> Recorded:
    """The step is tried again while attempts are left, unless the failure is permanent."""
    after = body.retry_after_seconds
    await outside.fail_task(
        body.id,
        body.lease,
        body.message,
        permanent=body.permanent,
        retry_after=None if after is None else seconds("retry_after_seconds", after),
    )
    return Recorded(id=body.id, status="failed")
