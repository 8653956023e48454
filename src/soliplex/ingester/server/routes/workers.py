"""`/workers`: who works, and how busy each is."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from soliplex.ingester.lib.models import PaginatedResponse
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import WorkerView
from soliplex.ingester.server.parameters import AskedPage

router = APIRouter(prefix="/workers", tags=["workers"])


@router.get("", summary="Workers, by id")
async def list_workers(
    request: Request, response: Response, asked: AskedPage
) -> list[WorkerView] | PaginatedResponse[WorkerView]:
    """Every worker that has checked in, with its slots and the steps it holds."""
    return await asked.answer(await views.list_workers(paging=asked.paging), request, response)
