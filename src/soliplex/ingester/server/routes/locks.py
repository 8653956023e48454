"""`/locks`: who holds which resource."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from soliplex.ingester.lib.models import PaginatedResponse, ResourceLock
from soliplex.ingester.lib.wf import views
from soliplex.ingester.server.parameters import AskedPage

router = APIRouter(prefix="/locks", tags=["locks"])


@router.get("", summary="Resource locks, by key")
async def list_locks(
    request: Request, response: Response, asked: AskedPage
) -> list[ResourceLock] | PaginatedResponse[ResourceLock]:
    """Every lock, with its holder; also expired ones that nobody has swept yet."""
    return await asked.answer(await views.list_locks(paging=asked.paging), request, response)
