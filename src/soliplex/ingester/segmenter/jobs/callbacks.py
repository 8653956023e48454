"""What a job's receiver is told.

    {"status", "progress", "segments": [{"id", "pagenr", "topic", "title", "body", "group", "tags", "lang", …}]}

While articles are being tagged, a message holds those that no message before it held; there are about ten of them, so
that a book does not flood its receiver. The last one, whatever the end, holds all articles; where they are too many for
a message, those that no message before it held, and where these are too many, the first of them come in messages of
progress right before it. So every article is told, whatever its length; of one that no message can hold, all but its
body. Messages are rows, written by the transaction that makes the progress; those of a job are sent in their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from soliplex.ingester.lib.answers import JobSegment, JobStatus
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks import LARGEST_BODY, NewMessage, Sending, enqueue
from soliplex.ingester.segmenter.jobs.job_rows import JobRow, segment_of
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.jobs.standing import DONE, STAGES, Standing, standing_of, step_standings

STEP: Final = 5
"""Percent of progress between two messages."""
LARGEST: Final = 8 << 20
"""Bytes of articles, as JSON, that one message holds; one that is larger by itself goes alone."""
_LARGEST_ARTICLE: Final = LARGEST_BODY - (1 << 20)
"""Bytes of an article's body, as JSON, beside which there is room for all else that a message holds."""


def stream_of(job_id: str) -> str:
    """The stream of a job's messages."""
    return f"segmenter:{job_id}"


def progress_while_tagging(done: int, total: int) -> int:
    """The progress of a job, by how many of its articles are done."""
    begins, ends = STAGES["segment"].until, STAGES["tag"].until
    return begins + (ends - begins) * done // max(total, 1)


def is_due(number: int, total: int) -> bool:
    """Whether that the article of this number, counted from 1, is done is a reason to tell the receiver."""
    return progress_while_tagging(number, total) // STEP > progress_while_tagging(number - 1, total) // STEP


def tell_progress(job: JobRow, progress: int, sending: Sending) -> Script[None]:
    """Write the message that some articles are done: those that have not been told of."""
    if job.options.callbackurl is None:
        return
    for portion in portions((yield from _untold(job))):
        yield from _send(job, body_of(JobStatus.PROCESSING, progress, portion), sending)


def tell_end(job: JobRow, sending: Sending, *, key: str) -> Script[None]:
    """Write the last message, with all articles. With the same key, it is written once."""
    if job.options.callbackurl is None:
        return
    untold = yield from _untold(job)
    standing = yield from _standing_of(job)
    *before, last = (yield from _all_in_one(job)) or portions(untold) or [[]]
    for portion in before:
        yield from _send(job, body_of(JobStatus.PROCESSING, min(standing.progress, DONE - 1), portion), sending)
    yield from _send(job, body_of(job.status, standing.progress, last), sending, key=key)


def _standing_of(job: JobRow) -> Script[Standing]:
    articles = (yield SQL.count_articles(document_id=job.document_id))[0]["articles"]
    steps = yield SQL.steps_of_jobs(ids=[job.run_id])
    return standing_of(job.status, step_standings(steps, articles))


def _all_in_one(job: JobRow) -> Script[list[list[JobSegment]] | None]:
    """All articles of the job as the only portion; None where they are more than that."""
    # A character takes a byte at least: so articles that are too many are not even read.
    if (yield SQL.characters_of_document(document_id=job.document_id))[0]["characters"] > LARGEST:
        return None
    rows = yield SQL.segments_of_document(document_id=job.document_id)
    found = portions([segment_of(row) for row in rows])
    return found if len(found) == 1 else None


def _untold(job: JobRow) -> Script[list[JobSegment]]:
    ids = [row["id"] for row in (yield SQL.mark_told(document_id=job.document_id))]
    rows = yield SQL.segments_by_ids(ids=sorted(ids))
    return [segment_of(row) for row in rows]


def portions(segments: Sequence[JobSegment]) -> list[list[JobSegment]]:
    """The articles in their order, as many together as a message holds."""
    found, room = list[list[JobSegment]](), 0
    for segment in segments:
        size = _size_of(_told(segment))
        if size > room:
            found.append([])
            room = LARGEST
        found[-1].append(segment)
        room -= size
    return found


def _size_of(value: Any) -> int:
    """Bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


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
        "body": segment.body if _size_of(segment.body) <= _LARGEST_ARTICLE else None,
        "group": segment.group,
        "tags": segment.tags,
        "lang": segment.lang,
        "ordinal": segment.ordinal,
        "created": segment.created.isoformat(),
        "updated": segment.updated.isoformat(),
    }
