"""`/webhooks`: messages to receivers outside, dead letters among them, and their redelivery."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BeforeValidator, Field

from soliplex.ingester.lib import webhooks
from soliplex.ingester.lib.answers import Redelivered, Webhook, WebhookDetails
from soliplex.ingester.lib.models import PaginatedResponse, WebhookStatus
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import AskedPage, BigId, Moment, Text

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


type Webhooks = list[Webhook] | PaginatedResponse[Webhook]
Standing = Annotated[
    WebhookStatus,
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
    Field(description="In capitals or not; `dead` for dead letters.", examples=["DEAD"]),
]


@router.get("", summary="Webhooks, the newest first", response_model=Webhooks)
async def list_webhooks(
    request: Request,
    response: Response,
    asked: AskedPage,
    status: Annotated[Standing | None, Query()] = None,
    stream: Annotated[Text | None, Query(description="Only of this stream.")] = None,
) -> Webhooks:
    """All, or those that are pending, delivered or dead, or those of one stream; each with its last try."""
    page = await webhooks.list_webhooks(status=status, stream=stream, paging=asked.paging)
    return await asked.answer(page, request, response)


@router.post("/redeliver", summary="Try dead letters again")
async def redeliver_dead(
    request: Request,
    since: Annotated[
        Moment | None,
        Query(description="Those given up at this moment or later, with its time zone. Default: all."),
    ] = None,
) -> Redelivered:
    """Each stream's in their order, with as much time as a new webhook has."""
    return await webhooks.redeliver_dead(request.app.state.settings, since=since)


@router.get("/{message_id:int}", summary="A webhook, its body and its tries", responses=error_answers(404))
async def get_webhook(message_id: BigId) -> WebhookDetails:
    """With the status and the first bytes of each answer."""
    return await webhooks.get_webhook(message_id)


@router.post("/{message_id:int}/redeliver", summary="Try a webhook again", responses=error_answers(404, 409))
async def redeliver(message_id: BigId, request: Request) -> Redelivered:
    """A webhook that was given up, or one that was delivered: it keeps its `webhook-id`."""
    return await webhooks.redeliver(message_id, request.app.state.settings)
