"""`/workflow/queues` and `/workflow/waiting`: what is ready, and what waits and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import QueueDepth, WaitingStep, WaitReason, WhatWaits

router = APIRouter(prefix="/workflow", tags=["workflow"])

MOST_SHOWN = 1_000


@router.get("/queues", summary="How many steps are ready, by type, and since when")
async def list_queues() -> list[QueueDepth]:
    """Counted up to ten thousand of a type; `is_exact` says whether there are more."""
    return await views.queue_depths()


@router.get("/waiting", summary="What waits, and why")
async def get_waiting() -> WhatWaits:
    """Steps that wait for a signal, a subflow, a time, another attempt, a worker that knows them, or a resource.

    Of those that wait for anything but a resource, the ten thousand whose wait ends first are counted.
    """
    return await views.what_waits()


@router.get("/waiting/steps", summary="Steps that wait, those whose wait ends first")
async def list_waiting_steps(
    reason: Annotated[WaitReason | None, Query(description="Only those that wait for this.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SHOWN)] = 100,
) -> list[WaitingStep]:
    """For anything but a resource or other steps of their run."""
    return await views.waiting_steps(reason=reason, limit=limit)
