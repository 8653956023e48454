"""What a job's receiver is told.

    {"status", "progress", "segments": [{"id", "pagenr", "topic", "title", "body", "group", "tags", "lang", …}]}

While articles are being tagged, a message holds those that no message before it held; there are about ten of them, so
that a book does not flood its receiver. The last one, whatever the end, holds all articles; where they are too many for
a message, those that no message before it held. Messages are rows, written by the transaction that makes the progress;
those of a job are sent in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from soliplex.ingester.lib.answers import JobSegment, JobStatus
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks import NewMessage, Sending, enqueue
from soliplex.ingester.segmenter.jobs.rows import JobRow, segment_of
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.jobs.standing import STAGES, standing_of, step_standings

STEP: Final = 5
"""Percent of progress between two messages."""
LARGEST: Final = 8 << 20
"""Bytes of articles that one message holds."""


def stream_of(job_id: str) -> str:
    """The stream of a job's messages."""
    return f"segmenter:{job_id}"


def progress_while_tagging(done: int, total: int) -> int:
    """The progress of a job of whose articles so many are done."""
    begins, ends = STAGES["segment"].until, STAGES["tag"].until
    return begins + (ends - begins) * done // max(total, 1)


def is_due(done: int, total: int) -> bool:
    """Whether the article that was done last is a reason to tell the receiver."""
    return progress_while_tagging(done, total) // STEP > progress_while_tagging(done - 1, total) // STEP


def tell_progress(job: JobRow, progress: int, sending: Sending) -> Script[None]:
    """Write the message that some articles are done: those that have not been told of."""
    if job.options.callbackurl is None:
        return
    segments = yield from _untold(job)
    body = body_of(JobStatus.PROCESSING, progress, segments)
    yield from _send(job, body, sending)


def tell_end(job: JobRow, sending: Sending, *, key: str) -> Script[None]:
    """Write the last message, with all articles. With the same key, it is written once."""
    if job.options.callbackurl is None:
        return
    untold = yield from _untold(job)
    rows = yield SQL.segments_of_document(document_id=job.document_id)
    segments = [segment_of(row) for row in rows]
    steps = yield SQL.steps_of_jobs(ids=[job.run_id])
    standing = standing_of(job.status, step_standings(steps, len(segments)))
    told = segments if _size_of(segments) <= LARGEST else untold
    yield from _send(job, body_of(job.status, standing.progress, told), sending, key=key)


def _untold(job: JobRow) -> Script[list[JobSegment]]:
    ids = [row["id"] for row in (yield SQL.mark_told(document_id=job.document_id))]
    rows = yield SQL.segments_by_ids(ids=sorted(ids))
    return [segment_of(row) for row in rows]


def _size_of(segments: Sequence[JobSegment]) -> int:
    return sum(len(segment.body.encode()) for segment in segments)


def _send(job: JobRow, body: dict[str, Any], sending: Sending, *, key: str | None = None) -> Script[None]:
    assert job.options.callbackurl is not None
    message = NewMessage(
        stream=stream_of(job.id),
        url=job.options.callbackurl,
        event_type=f"job.{body['status'].lower()}",
        body=body,
        key=key,
    )
    yield from enqueue(sending, message)


def body_of(status: JobStatus, progress: int, segments: Sequence[JobSegment]) -> dict[str, Any]:
    """A message, as JSON."""
    return {"status": status.value, "progress": progress, "segments": [_told(each) for each in segments]}


def _told(segment: JobSegment) -> dict[str, Any]:
    return {
        "id": segment.id,
        "pagenr": segment.pagenr,
        "topic": segment.tags[0] if segment.tags else segment.title,
        "title": segment.title,
        "body": segment.body,
        "group": segment.group,
        "tags": segment.tags,
        "lang": segment.lang,
        "ordinal": segment.ordinal,
        "created": segment.created.isoformat(),
        "updated": segment.updated.isoformat(),
    }
