"""Jobs, their documents and articles, as clients see them: read from runs, URIs and rows of articles."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from soliplex.ingester.lib.answers import Job, JobDocument, JobDocuments, Jobs, JobSegment, JobSegments, JobStatus
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row, Rows, datetime_of
from soliplex.ingester.lib.operations import version_text
from soliplex.ingester.lib.pieces import ROWS, in_pieces
from soliplex.ingester.lib.storable import unstorable_in
from soliplex.ingester.lib.wf.views import Paging
from soliplex.ingester.segmenter.jobs.job_rows import JobRow, job_row, segment_of
from soliplex.ingester.segmenter.jobs.new_jobs import SOURCE
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.jobs.standing import (
    TIMED_OUT,
    document_status,
    job_status,
    run_statuses,
    standing_of,
    step_standings,
)
from soliplex.ingester.segmenter.jobs.workflow import PUBLISH, WORKFLOW_ID

_BEGUN: Final = {JobStatus.NEW: False, JobStatus.PENDING: True}
"""Of statuses whose runs have the same one, whether the run was begun."""


async def find_job(job_id: str) -> JobRow:
    """The job's run; NotFoundError where there is no such job."""
    rows = [] if unstorable_in(job_id) else await Database.read(SQL.job_by_key(workflow_id=WORKFLOW_ID, job_id=job_id))
    if not rows:
        raise NotFoundError("job", job_id)
    return job_row(rows[0])


async def get_job(job_id: str) -> Job:
    (job,) = await _shown([await find_job(job_id)])
    return job


async def list_jobs(paging: Paging, status: JobStatus | None = None) -> Jobs:
    """Jobs, the newest first; with a status, those that have it."""
    page = {"workflow_id": WORKFLOW_ID, "limit": paging.rows_per_page, "offset": paging.offset}
    if status is None:
        rows = await Database.read(SQL.newest_jobs(**page))
    else:
        wanted = {"statuses": run_statuses(status), "has_begun": _BEGUN.get(status)}
        rows = await Database.read(SQL.newest_jobs_in_status(**page, **wanted))
    counts = await count_jobs()
    total = sum(counts.values()) if status is None else counts[status]
    return Jobs(await _shown([job_row(row) for row in rows]), total, paging.page, paging.rows_per_page)


async def count_jobs() -> dict[JobStatus, int]:
    """How many jobs are in each status."""
    counts = dict.fromkeys(JobStatus, 0)
    for row in await Database.read(SQL.count_jobs(workflow_id=WORKFLOW_ID)):
        counts[job_status(RunStatus(row["status"]), has_begun=bool(row["has_begun"]))] += row["jobs"]
    return counts


async def get_document(document_id: int) -> JobDocument:
    rows = await Database.read(SQL.document_by_id(id=document_id, source=SOURCE))
    if not rows:
        raise NotFoundError("document", document_id)
    (document,) = await _documents(rows)
    return document


async def list_documents(paging: Paging) -> JobDocuments:
    """Documents of jobs, the newest first."""
    page = {"source": SOURCE, "limit": paging.rows_per_page, "offset": paging.offset}
    rows = await Database.read(SQL.newest_documents(**page))
    total = (await Database.read(SQL.count_documents(source=SOURCE)))[0]["documents"]
    return JobDocuments(await _documents(rows), total, paging.page, paging.rows_per_page)


async def documents_by_ids(document_ids: Sequence[int]) -> JobDocuments:
    """Those of the documents that there are, the newest first."""
    rows = await Database.read(SQL.documents_by_ids(ids=sorted(set(document_ids)), source=SOURCE))
    return JobDocuments(await _documents(rows), total=len(rows), page=1, rows_per_page=max(len(document_ids), 1))


async def text_of_document(document_id: int) -> AsyncGenerator[bytes]:
    """What was read from a job's document, as Markdown, in blocks."""
    rows = await Database.read(SQL.document_by_id(id=document_id, source=SOURCE))
    if not rows:
        raise NotFoundError("document", document_id)
    return await version_text(rows[0]["uri"], SOURCE)


async def list_segments(document_id: int) -> JobSegments:
    """The articles of a document in its order, as far as they are done."""
    rows = await Database.read(SQL.segments_of_document(document_id=document_id))
    if not rows:
        await get_document(document_id)  # says so if there is no such document
    return JobSegments([segment_of(row) async for some in in_pieces(rows, ROWS) for row in some])


async def get_segment(segment_id: int) -> JobSegment:
    rows = await Database.read(SQL.segment_by_id(id=segment_id))
    if not rows:
        raise NotFoundError("segment", segment_id)
    return segment_of(rows[0])


async def _documents(rows: Rows) -> list[JobDocument]:
    keys = [_job_id_in(row["uri"]) for row in rows]
    found = await Database.read(SQL.jobs_by_keys(workflow_id=WORKFLOW_ID, keys=keys))
    jobs = {row["run_key"]: job_row(row) for row in found}
    steps = await _steps_of([job.run_id for job in jobs.values()])
    return [
        _document(row, job, _published(steps[job.run_id]) if job else None)
        for row, job in zip(rows, map(jobs.get, keys), strict=True)
    ]


async def _steps_of(run_ids: Sequence[int]) -> defaultdict[int, list[Row]]:
    """The steps of runs, by run."""
    steps = defaultdict[int, list[Row]](list)
    for row in await Database.read(SQL.steps_of_jobs(ids=list(run_ids))):
        steps[row["workflow_run_id"]].append(row)
    return steps


def _job_id_in(uri: str) -> str:
    return uri.removeprefix(f"{SOURCE}:").partition("/")[0]


def _document(row: Row, job: JobRow | None, published: Row | None) -> JobDocument:
    created = datetime_of(row, "created_at")
    assert created is not None, "every URI has a history"
    # A run that was pruned had ended; if it left articles, it ended well.
    last = JobStatus.COMPLETED if row["has_segments"] else JobStatus.FAILED
    return JobDocument(
        id=row["id"],
        status=document_status(job.status if job else last),
        created=created,
        updated=(job.changed if job else None) or created,
        filename=job.filename if job else row["uri"].rpartition("/")[2],
        filesize=row["file_size"] or 0,
        mimetype=row["mime_type"],
        lang=published["lang"] if published is not None else None,
    )


@dataclass(slots=True)
class _Facts:
    """What is known of some jobs beside their runs."""

    steps: defaultdict[int, list[Row]]
    """By run."""
    failures: dict[int, Row] = field(default_factory=dict[int, Row])
    articles: dict[int, int] = field(default_factory=dict[int, int])
    """How many there are, by document."""


async def _shown(jobs: Sequence[JobRow]) -> list[Job]:
    facts = await _facts_of(jobs)
    now = utcnow()
    return [_job(job, facts, now) for job in jobs]


async def _facts_of(jobs: Sequence[JobRow]) -> _Facts:
    facts = _Facts(await _steps_of([job.run_id for job in jobs]))
    failed = [job.run_id for job in jobs if job.status is JobStatus.FAILED]
    if failed:
        facts.failures = {row["workflow_run_id"]: row for row in await Database.read(SQL.failures_of_jobs(ids=failed))}
    counted = await Database.read(SQL.count_articles_of_documents(ids=[job.document_id for job in jobs]))
    facts.articles = {row["id"]: row["articles"] for row in counted}
    return facts


def _job(job: JobRow, facts: _Facts, now: datetime) -> Job:
    articles, steps = facts.articles.get(job.document_id, 0), facts.steps[job.run_id]
    standing = standing_of(job.status, step_standings(steps, articles))
    return Job(
        id=job.id,
        ip=job.ip,
        documentid=job.document_id,
        status=job.status,
        created=job.created,
        updated=job.changed or job.created,
        completed=job.completed,
        maxsize=job.options.maxsize,
        timeit=round(((job.completed or now) - job.began).total_seconds() * 1000) if job.began else None,
        callbackurl=job.options.callbackurl,
        progress=standing.progress,
        processing_stage=standing.stage,
        errormessage=_error_of(job, facts.failures.get(job.run_id), articles, _published(steps)),
        warnings=[text for row in steps for text in _warnings_in(row)],
        correlation_id=job.correlation_id,
    )


def _published(steps: Sequence[Row]) -> Row | None:
    """The step that ended the job, if it was reached."""
    return next((row for row in steps if row["workflow_step_name"] == PUBLISH), None)


def _warnings_in(step: Row) -> list[str]:
    return [*json.loads(step["warnings"] or "[]"), *([step["warning"]] if step["warning"] else [])]


def _error_of(job: JobRow, failure: Row | None, articles: int, published: Row | None) -> str | None:
    match job.status:
        case JobStatus.FAILED if job.is_overdue:
            return TIMED_OUT
        case JobStatus.FAILED if failure is not None:
            traceback = f"\n\n{failure['traceback']}" if failure["traceback"] else ""
            return f"step {failure['workflow_step_name']!r} failed: {failure['message']}{traceback}"
        case JobStatus.FAILED:
            return job.message
        case JobStatus.COMPLETED if published is not None and int(published["failed"] or 0):
            return f"{published['failed']} of {articles} articles could not be tagged: they are FAILED"
        case _:
            return None
