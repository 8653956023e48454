"""`/signals`: messages to steps that wait for them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from starlette.exceptions import HTTPException

from soliplex.ingester.lib.storable import parse_json
from soliplex.ingester.lib.wf.answers import SentSignal
from soliplex.ingester.lib.wf.errors import PayloadTooLargeError
from soliplex.ingester.lib.wf.operations import send_signal
from soliplex.ingester.lib.wf.views import standing_of_signal
from soliplex.ingester.lib.wf.waiting import LARGEST_PAYLOAD
from soliplex.ingester.server.errors import error_answers

router = APIRouter(prefix="/signals", tags=["signals"])

SIGNAL_BODY: Final = {
    "description": f"The payload: any JSON, of at most {LARGEST_PAYLOAD} bytes. Without a body it is null.",
    "content": {"application/json": {"schema": {}, "example": {"approved": True}}},
}


# A path: keys are names that people choose, and may hold slashes.
@router.post(
    "/{key:path}",
    summary="Send a signal to the step that waits for it",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 413),
    openapi_extra={"requestBody": SIGNAL_BODY},
)
async def send(
    key: Annotated[str, Path(description="What the step waits for; no colon at its beginning.", examples=["order-17"])],
    request: Request,
) -> SentSignal:
    """Ends the wait of one step: the first that waits for the key, or the next that will.

    `standing` says what had become of the signal when this was answered. Sent twice, it is two signals.
    """
    payload = await payload_of(request)
    return await standing_of_signal(await send_signal(key, payload), key)


async def payload_of(request: Request) -> Any:
    """The body of a request that sends a signal."""
    body = bytearray()
    try:
        async for block in request.stream():
            # What is beyond the limit is read to its end and dropped: a client sees no answer while it sends.
            body += block[: LARGEST_PAYLOAD + 1 - len(body)]
    except HTTPException as error:
        if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise PayloadTooLargeError(LARGEST_PAYLOAD) from error
        raise
    if len(body) > LARGEST_PAYLOAD:
        raise PayloadTooLargeError(LARGEST_PAYLOAD)
    return parse_json("payload", bytes(body)) if body else None
