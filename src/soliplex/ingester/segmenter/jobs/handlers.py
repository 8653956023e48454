"""What the steps of a job do, and what happens at its begin and end.

A handler that writes something sees in the same transaction that its step is still its own: what a worker does that was
stopped, or whose job was cancelled or has run out of time, changes nothing. So every such write is a checkpoint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final, cast

from soliplex.ingester.lib.answers import JobSegment
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.llm import Chat
from soliplex.ingester.lib.models import ArtifactType, Database, RunStep, WorkflowStepType
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script, datetime_of, json_of, single
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.webhooks import Sending, prepare_sending
from soliplex.ingester.lib.wf.errors import LeaseLost, PermanentError
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.wf.wakeup import work_is_ready
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.step_artifacts import the_step
from soliplex.ingester.segmenter.article_language import Language, Stage, language_of_document
from soliplex.ingester.segmenter.articles import Article
from soliplex.ingester.segmenter.jobs import callbacks
from soliplex.ingester.segmenter.jobs.cutting import CUT, Cut
from soliplex.ingester.segmenter.jobs.describing import Description, describe
from soliplex.ingester.segmenter.jobs.job_options import JobOptions
from soliplex.ingester.segmenter.jobs.job_rows import JobRow, job_row, segment_of
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.sizes import Sizes

_log = logging.getLogger(__name__)

NO_TEXT: Final = "the document holds no text; if its pages are pictures, send it with enable_ocr=true"
NOT_TAGGED: Final = "the job ended before it was tagged"
"""The reason that is given for articles that were not tagged when the job ended, though nothing went wrong with them.
"""


async def segment_document(
    run_step: RunStep,
    run_params: Mapping[str, Any],
    doc_hash: str,
    earlier: Mapping[str, Earlier],
    processes: ProcessPool,
) -> dict[str, Any]:
    """Cut the document into articles; they take the place of those that an earlier attempt made."""
    options = JobOptions.model_validate(run_params["options"])
    cut = await _cut(doc_hash, the_step(earlier, WorkflowStepType.PARSE).config_id, options, processes)
    if not cut.articles:
        raise PermanentError(NO_TEXT)
    ids = await Database.transact(_store(run_step, run_params["documentid"], cut.articles))
    return {"articles": ids, **({"warning": cut.warning} if cut.warning else {})}


async def _cut(doc_hash: str, parsed: int, options: JobOptions, processes: ProcessPool) -> Cut:
    artifacts, sizes = get_artifacts(), Sizes.named(options.article_size, options.maxsize)
    async with (
        artifacts.artifact_file(doc_hash, ArtifactType.PARSED_MD, parsed) as markdown,
        artifacts.artifact_file(doc_hash, ArtifactType.PARSED_JSON, parsed) as document,
    ):
        arguments = {"markdown": markdown, "document": document, "sizes": sizes}
        return cast("Cut", await processes.run(CUT, arguments))


def _store(run_step: RunStep, document_id: int, articles: Sequence[Article]) -> Script[list[int]]:
    yield from _see_held(run_step)
    yield SQL.delete_segments(document_id=document_id)
    rows = yield SQL.insert_segments(
        document_id=document_id, articles=Json([asdict(article) for article in articles]), now=utcnow()
    )
    return [row["id"] for row in sorted(rows, key=lambda row: row["ordinal"])]


async def tag_article(run_step: RunStep, run_params: Mapping[str, Any], item: int, chat: Chat | None) -> dict[str, Any]:
    """Find the tags and the language of an article, and tell the receiver where a message is due."""
    began = time.perf_counter()
    rows = await Database.read(SQL.article_to_tag(id=item))
    if not rows:
        raise NotFoundError("article", item)  # its document was deleted meanwhile
    options, settings, article = JobOptions.model_validate(run_params["options"]), get_settings(), segment_of(rows[0])
    found = await describe(article, options, settings, chat)
    took = round((time.perf_counter() - began) * 1000)
    await Database.transact(_complete(run_step, article, found, took, await prepare_sending(settings)))
    work_is_ready()
    return {"tags": found.tags, "lang": found.language.code, "lang_by": found.language.stage.value}


def _complete(
    run_step: RunStep, article: JobSegment, found: Description, timeit: int, sending: Sending
) -> Script[None]:
    job = yield from _see_held(run_step)
    described = {"tags": Json(found.tags), "lang": found.language.code, "timeit": timeit}
    yield SQL.complete_segment(id=article.id, **described, now=sending.now)
    total = (yield SQL.count_articles(document_id=job.document_id))[0]["articles"]
    # Articles are taken about in their order. Those that are done are counted for a few of them only: counting them for
    # each takes a time that grows with the square of their number.
    if callbacks.is_due(article.ordinal + 1, total):
        yield from _tell_progress(job, sending)


def _tell_progress(job: JobRow, sending: Sending) -> Script[None]:
    counts = (yield SQL.count_segments(document_id=job.document_id))[0]
    # The last article is in the last message, which follows at once.
    if counts["pending"]:
        done = counts["total"] - counts["pending"]
        progress = callbacks.progress_while_tagging(done, counts["total"])
        yield from callbacks.tell_progress(job, progress, sending)


async def publish(run_step: RunStep) -> dict[str, Any]:
    """See how many articles are whole, and the language of most of them. A job of which none is has failed."""
    return await Database.transact(_publish(run_step, get_settings().system_default_language))


def _publish(run_step: RunStep, default_language: str) -> Script[dict[str, Any]]:
    job = yield from _see_held(run_step)
    messages = yield from _fail_the_rest(job)
    counts = (yield SQL.count_segments(document_id=job.document_id))[0]
    if counts["failed"] == counts["total"]:
        problem = next(iter(messages.values()), NOT_TAGGED)
        raise PermanentError(f"none of the {counts['total']} articles could be tagged: {problem}")
    spoken = yield SQL.languages_of_articles(run_id=job.run_id)
    votes = [(Language(row["lang"], Stage(row["lang_by"])), row["characters"]) for row in spoken]
    lang = language_of_document(votes, default_language).code
    return {"articles": counts["total"], "failed": counts["failed"], "lang": lang}


def _fail_the_rest(job: JobRow) -> Script[dict[int, str]]:
    """Mark the articles that were not tagged, each with the reason; gives the reasons of those that were tried."""
    now = utcnow()
    rows = yield SQL.tasks_that_failed(run_id=job.run_id)
    messages = {json_of(row, "input"): str(row["status_message"]) for row in rows}
    for segment_id, message in messages.items():
        yield SQL.note_failure(id=segment_id, message=message, now=now)
    yield SQL.fail_the_rest(document_id=job.document_id, message=NOT_TAGGED, now=now)
    return messages


def _see_held(run_step: RunStep) -> Script[JobRow]:
    """Hold the job's run, and see that the step is still this worker's; LeaseLost otherwise."""
    assert run_step.id is not None
    yield SQL.hold_run(run_id=run_step.workflow_run_id)
    if not (yield SQL.step_is_held(id=run_step.id, lease=run_step.lease_token)):
        raise LeaseLost(run_step.id)
    return (yield from job_of_run(run_step.workflow_run_id))


def job_of_run(run_id: int) -> Script[JobRow]:
    rows = yield SQL.job_by_run(run_id=run_id)
    if not rows:
        raise NotFoundError("job of run", run_id)
    return job_row(rows[0])


async def limit_time(workflow_run_id: int, event_id: int) -> None:
    """The job has begun: from that moment on, however late this is called, it has JOB_TIMEOUT_SECONDS."""
    (event,) = await Database.read(SQL.moment_of_event(id=event_id))
    began = datetime_of(event, "start_date")
    assert began is not None, "every event has a moment"
    deadline = began + timedelta(seconds=get_settings().job_timeout_seconds)
    await Database.transact(single(SQL.set_deadline(run_id=workflow_run_id, deadline=deadline)))


async def tell_end(workflow_run_id: int, event_id: int) -> None:
    """The job has ended, in whatever way: mark what was not tagged, and write the last message."""
    sending = await prepare_sending(get_settings())
    await Database.transact(_tell_end(workflow_run_id, event_id, sending))
    work_is_ready()


def _tell_end(run_id: int, event_id: int, sending: Sending) -> Script[None]:
    yield SQL.hold_run(run_id=run_id)
    job = yield from job_of_run(run_id)
    if not job.status.is_final:
        return  # It was put back by hand before anybody could be told: another end follows.
    yield from _fail_the_rest(job)
    yield from callbacks.tell_end(job, sending, key=f"end {event_id}")
