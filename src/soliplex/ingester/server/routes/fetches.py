"""`/batch/fetch-documents`: documents that a step fetches by their address."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form
from structlog.contextvars import bind_contextvars

from soliplex.ingester.lib.fetching import schemes_in_words
from soliplex.ingester.lib.operations.fetches import FETCH_WORKFLOW, Fetch, start_fetches
from soliplex.ingester.lib.storable import parse_object
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import Id, LongText, Priority, Text
from soliplex.ingester.server.routes.batch import StartedWorkflows

router = APIRouter(prefix="/batch", tags=["batch"])


@router.post(
    "/fetch-documents",
    summary="Start a run for each address, which fetches the document and processes it",
    status_code=HTTPStatus.CREATED,
    responses=error_answers(400, 404),
)
async def fetch_documents(
    batch_id: Annotated[Id, Form()],
    source: Annotated[Text, Form(description="The system the documents come from.", examples=["web"])],
    uris: Annotated[
        LongText,
        Form(
            description=f"Addresses, one a line: {schemes_in_words()}.",
            examples=["https://example.org/a.pdf\nhttps://example.org/b.pdf"],
        ),
    ],
    workflow_definition_id: Annotated[
        str | None, Form(description=f"One that begins with an ingest step. Default: `{FETCH_WORKFLOW}`.")
    ] = None,
    param_id: Annotated[str | None, Form(description="Default: DEFAULT_PARAM_ID.")] = None,
    priority: Annotated[Priority, Form()] = 0,
    doc_meta: Annotated[str, Form(description="A JSON object: metadata that all of them get.")] = "{}",
) -> StartedWorkflows:
    """Returns at once; the step fetches them, and tries again what may pass."""
    meta = parse_object("doc_meta", doc_meta)
    addresses = dict.fromkeys(line.strip() for line in uris.splitlines() if line.strip())
    started = await start_fetches(
        batch_id,
        [Fetch(uri=address, source=source, meta=meta) for address in addresses],
        workflow_id=workflow_definition_id,
        param_id=param_id,
        priority=priority,
    )
    bind_contextvars(run_group_id=started.run_group.id)
    return StartedWorkflows.of(started)
