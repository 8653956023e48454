"""`/jobs`, `/documents`, `/segments`: documents into tagged articles. Below `/api/v1/segmenter`, and at the root."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import structlog
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from soliplex.ingester.lib.answers import (
    Accepted,
    Job,
    JobDocument,
    JobDocuments,
    Jobs,
    JobSegment,
    JobSegments,
    JobStatus,
)
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.storage import DocumentTooLargeError, NoRoomError, Received, get_artifacts
from soliplex.ingester.lib.wf.views import FIRST_PAGE
from soliplex.ingester.segmenter.jobs import changing, views
from soliplex.ingester.segmenter.jobs.job_options import BadFieldError, JobOptions, check_options, check_receiver
from soliplex.ingester.segmenter.jobs.new_jobs import Sender, start_job
from soliplex.ingester.server import health
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.forms import FilePart, read_form, validated
from soliplex.ingester.server.pages import ABOUT
from soliplex.ingester.server.parameters import AskedPage, BigId, Body, Id, Text, json_answer, json_list
from soliplex.ingester.server.routes.downloads import MARKDOWN, streamed

router = APIRouter(tags=["segmenter"])
FILE: Final = "uploadfile"
ARTICLES: Final = 50
"""Articles that are written as JSON in one go: each is a text of thousands of characters."""

JobId = Annotated[Text, Path(max_length=100, description="As the answer to its upload says.")]


def _as_form(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the options as fields of a form, which cannot say null: what may be left out is not required."""
    for field in schema["properties"].values():
        if "anyOf" in field:
            (kind,) = (each for each in field.pop("anyOf") if each != {"type": "null"})
            del field["default"]
            field.update({**kind, **field})
    return schema


_SCHEMA: Final = _as_form(JobOptions.model_json_schema())
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    **_SCHEMA,
                    "required": [FILE],
                    "properties": {
                        FILE: {"type": "string", "format": "binary", "description": "The document itself."},
                        **_SCHEMA["properties"],
                    },
                }
            }
        },
    }
}


class JobChange(Body):
    """What is to become of a job."""

    status: Literal["CANCELED"] = Field(description="A job can be cancelled, and nothing else.")


class About(BaseModel):
    """Who made this server, and which version it is."""

    vendor: str
    name: str
    version: str


@router.post(
    "/jobs", summary="Cut a document into articles", openapi_extra=_BODY, responses=error_answers(413, 415, 429)
)
async def create_job(request: Request) -> Accepted:
    """Send a document. Its articles are ready when the job is COMPLETED: ask for it, or name a callbackurl."""
    upload = _Upload(request.app.state.settings)
    try:
        return await upload.take_in(request)
    finally:
        await upload.discard()


@router.get("/jobs", summary="As /jobs/")
@router.get("/jobs/", summary="Jobs, the newest first")
async def list_jobs(
    asked: AskedPage, status: Annotated[JobStatus | None, Query(description="Only those in this status.")] = None
) -> Jobs:
    return await views.list_jobs(asked.paging if asked.is_paged else FIRST_PAGE, status)


@router.get("/jobs/{jobid}", summary="A job", responses=error_answers(404))
async def get_job(jobid: JobId) -> Job:
    return await views.get_job(jobid)


@router.patch("/jobs/{jobid}", summary="Cancel a job", responses=error_answers(404, 409))
async def change_job(jobid: JobId, change: JobChange) -> Job:
    """The answer says CANCELED: whoever works on the job, on whatever machine, stops within about a second."""
    del change  # its only possible value asks for the cancellation
    return await changing.cancel_job(jobid)


@router.post("/jobs/{jobid}/retry", summary="Try a job again", responses=error_answers(404, 409))
async def retry_job(jobid: JobId) -> Job:
    """A job that is FAILED or CANCELED goes on where it ended, and has all of its time again."""
    return await changing.retry_job(jobid)


@router.delete(
    "/jobs/{jobid}",
    summary="Delete a job with its document and articles",
    status_code=HTTPStatus.NO_CONTENT,
    responses=error_answers(404),
)
async def delete_job(jobid: JobId) -> Response:
    """One that is being worked on is cancelled first."""
    await changing.delete_job(jobid)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/documents/", summary="Documents of jobs, the newest first")
async def list_documents(
    asked: AskedPage,
    ids: Annotated[
        list[Id] | None, Query(alias="id", max_length=1000, description="Only these, all at once. May be repeated.")
    ] = None,
) -> JobDocuments:
    if ids:
        return await views.documents_by_ids(ids)
    return await views.list_documents(asked.paging if asked.is_paged else FIRST_PAGE)


@router.get("/documents/{documentid}", summary="A job's document", responses=error_answers(404))
async def get_document(documentid: Id) -> JobDocument:
    return await views.get_document(documentid)


@router.get(
    "/documents/{documentid}/text",
    summary="The text of a job's document",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}, **error_answers(404, 409)},
)
async def get_text(documentid: Id) -> Response:
    """As Markdown, streamed, as it was read before it was cut. 409 where it was not read yet."""
    return await streamed(await views.text_of_document(documentid), media_type=MARKDOWN)


@router.get(
    "/documents/{documentid}/segments",
    summary="The articles of a document",
    response_model=JobSegments,
    responses=error_answers(404),
)
async def list_segments(documentid: Id) -> Response:
    """In the order of the document; while the job goes on, those that are done."""
    segments = (await views.list_segments(documentid)).segments
    return json_answer([b'{"segments":', *await json_list(segments, ARTICLES), b"}"])


@router.get("/segments/{segmentid}", summary="An article", responses=error_answers(404))
async def get_segment(segmentid: BigId) -> JobSegment:
    return await views.get_segment(segmentid)


router.add_api_route(
    "/debug/health",
    health.health,
    summary="As /health",
    responses={503: {"model": health.Health, "description": "The worker in the server cannot go on"}},
)
router.add_api_route(
    "/debug/health_with_details",
    health.ready,
    summary="As /health/ready",
    responses={503: {"model": health.Readiness, "description": "Something it needs is missing"}},
)

prefixed = APIRouter(prefix="/segmenter")
prefixed.include_router(router)


@prefixed.get("/", tags=["segmenter"], summary="Vendor and version")
async def about() -> About:
    return About(**ABOUT)


class _Upload:
    """One job, from its form to its run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._received: Received | None = None
        self._filename = ""

    async def take_in(self, request: Request) -> Accepted:
        form = await read_form(request, file=FILE, take=self._take)
        options = await self._checked(form.fields)
        if self._received is None:
            raise BadFieldError(FILE, "is missing: send the document")
        received, self._received = self._received, None
        job = await start_job(received, filename=self._filename, options=options, sender=_sender(request))
        structlog.contextvars.bind_contextvars(job_id=job.jobid)
        return job

    async def discard(self) -> None:
        if self._received is not None:
            await get_artifacts().discard(self._received)

    async def _take(self, part: FilePart, fields: dict[str, str]) -> None:
        await self._checked(fields)  # what came first is refused before the file is sent for nothing
        limit = int(self._settings.max_file_size_limit)
        try:
            self._received = await get_artifacts().receive(part.content, limit=limit, expected=part.expected, hold=True)
        except NoRoomError:
            raise
        except DocumentTooLargeError as exc:
            raise DocumentTooLargeError(
                limit, f"{FILE}: is larger than {limit} bytes, the most that is accepted"
            ) from exc
        self._filename = part.filename

    async def _checked(self, fields: dict[str, str]) -> JobOptions:
        options = validated(JobOptions, fields)
        check_options(options, self._settings)
        await check_receiver(options, self._settings)
        return options


def _sender(request: Request) -> Sender:
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    return Sender(ip=request.client.host if request.client else None, correlation_id=request_id)
