"""Rows of jobs and articles, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from soliplex.ingester.lib.answers import JobSegment, JobStatus
from soliplex.ingester.lib.enums import RunStatus, SegmentStatus
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of
from soliplex.ingester.segmenter.jobs.job_options import JobOptions
from soliplex.ingester.segmenter.jobs.standing import job_status


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job's run, as far as it tells of the job."""

    id: str
    run_id: int
    group_id: int
    doc_hash: str
    status: JobStatus
    is_overdue: bool
    """Whether its time was over before it had ended."""
    message: str | None
    created: datetime
    began: datetime | None
    changed: datetime | None
    completed: datetime | None
    document_id: int
    uri: str
    """Where its document lives."""
    filename: str
    ip: str | None
    correlation_id: str | None
    options: JobOptions


def job_row(row: Row) -> JobRow:
    """A row that has the columns of a job."""
    facts: dict[str, Any] = json_of(row, "run_params")
    began, created = datetime_of(row, "start_date"), datetime_of(row, "created_date")
    assert created is not None, "every run has one"
    return JobRow(
        id=row["run_key"],
        run_id=row["id"],
        group_id=row["run_group_id"],
        doc_hash=row["doc_id"],
        status=job_status(RunStatus(row["status"]), has_begun=began is not None),
        is_overdue=bool(row["is_overdue"]),
        message=row["status_message"],
        created=created,
        began=began,
        changed=datetime_of(row, "status_date"),
        completed=datetime_of(row, "completed_date"),
        document_id=facts["documentid"],
        uri=facts["uri"],
        filename=facts["filename"],
        ip=facts["ip"],
        correlation_id=facts["correlation_id"],
        options=JobOptions.model_validate(facts["options"]),
    )


def segment_of(row: Row) -> JobSegment:
    """A row that has the columns of an article."""
    created, updated = datetime_of(row, "created_at"), datetime_of(row, "updated_at")
    assert created is not None
    assert updated is not None
    return JobSegment(
        id=row["id"],
        documentid=row["document_id"],
        status=SegmentStatus(row["status"]),
        body=row["body"],
        pagenr=row["pagenr"],
        group=row["group_path"],
        title=row["title"],
        tags=json_of(row, "tags") or [],
        lang=row["lang"],
        created=created,
        updated=updated,
        timeit=row["timeit"],
        ordinal=row["ordinal"],
        errormessage=row["errormessage"],
    )
