"""Segmentation jobs by a worker, on each database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.answers import DocumentStatus, Job, JobStatus
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.enums import SegmentStatus
from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import single
from soliplex.ingester.lib.operations import cleanup_orphans, delete_documents
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf import references
from soliplex.ingester.lib.wf.extensions import tidy
from soliplex.ingester.lib.wf.operations import Pool, Retention, claim_steps, prune_history
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from soliplex.ingester.lib.wf.views import Paging
from soliplex.ingester.lib.workflow import parsing
from soliplex.ingester.segmenter.jobs import callbacks, handlers, views
from soliplex.ingester.segmenter.jobs.changing import cancel_job, delete_job, retry_job
from soliplex.ingester.segmenter.jobs.describing import Description
from soliplex.ingester.segmenter.jobs.job_options import JobOptions
from soliplex.ingester.segmenter.jobs.new_jobs import Sender, start_job
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.jobs.standing import STAGES
from tests.support.documents import pieces
from tests.support.engine import rows_of, scalar
from tests.support.faults import eventually
from tests.support.harmful_parsers import METHOD
from tests.support.segmenting import THREE

PAGE = Paging(1, 50)
SMALL = JobOptions(article_size="small")


@pytest.fixture(autouse=True)
def quick_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_PARSE", METHOD)


@pytest.fixture
async def worker(database: type[Database]) -> AsyncIterator[Worker]:
    worker = Worker(WorkerConfig.from_settings(get_settings()))
    await worker.start()
    yield worker
    await worker.stop()


async def started(content: bytes = THREE, options: JobOptions = SMALL, name: str = "harbours.md") -> str:
    received = await get_artifacts().receive(pieces(content), limit=None, hold=True)
    return (await start_job(received, filename=name, options=options, sender=Sender("192.0.2.1", "request"))).jobid


async def ended(job_id: str) -> Job:
    async def is_final() -> bool:
        return (await views.get_job(job_id)).status.is_final

    await eventually(is_final, "the job has ended")
    return await views.get_job(job_id)


async def test_a_document_becomes_articles_and_the_job_tells_all_about_it(worker: Worker) -> None:
    job = await ended(await started())
    assert (job.status, job.progress, job.processing_stage, job.errormessage) == (JobStatus.COMPLETED, 100, None, None)
    assert (job.ip, job.correlation_id, job.maxsize, job.callbackurl) == ("192.0.2.1", "request", 5000, None)
    assert job.timeit is not None
    document = await views.get_document(job.documentid)
    assert (document.status, document.filename, document.filesize) == (
        DocumentStatus.PROCESSED,
        "harbours.md",
        len(THREE),
    )
    assert document.lang == "en"
    articles = (await views.list_segments(job.documentid)).segments
    assert [article.ordinal for article in articles] == list(range(len(articles)))
    assert "".join(article.body for article in articles).split() == THREE.decode().split()
    assert {article.status for article in articles} == {SegmentStatus.COMPLETED}
    assert {article.lang for article in articles} == {"en"}
    assert all(len(article.tags) == 1 for article in articles)
    assert await views.get_segment(articles[0].id) == articles[0]
    jobs, documents = await views.list_jobs(PAGE), await views.list_documents(PAGE)
    assert (jobs.items, jobs.total, documents.items, documents.total) == ([job], 1, [document], 1)
    assert (await views.list_jobs(PAGE, JobStatus.FAILED)).items == []
    assert (await views.list_jobs(PAGE, JobStatus.COMPLETED)).total == 1


async def test_two_jobs_on_the_same_bytes_are_two_documents_that_are_parsed_once(worker: Worker) -> None:
    first, second = await ended(await started()), await ended(await started())
    assert first.documentid != second.documentid
    assert await scalar("SELECT count(*) FROM document") == 1
    outputs = [row[0] for row in await rows_of("SELECT CAST(output AS text) FROM runstep WHERE step_type = 'parse'")]
    assert sum('"skipped"' in output.replace(" ", "") for output in outputs) == 1
    other = await ended(await started(options=SMALL.model_copy(update={"pdf_parsing_backend": "pypdfium2"})))
    parsed = await rows_of("SELECT DISTINCT step_config_id FROM runstep WHERE step_type = 'parse'")
    assert (other.status, len(parsed)) == (JobStatus.COMPLETED, 2)

    await delete_job(first.id)

    with pytest.raises(NotFoundError):
        await views.get_job(first.id)
    with pytest.raises(NotFoundError):
        await views.get_document(first.documentid)
    assert await scalar("SELECT count(*) FROM segment WHERE document_id = :id", id=first.documentid) == 0
    assert (await views.get_job(second.id)).status is JobStatus.COMPLETED
    assert (await views.list_segments(second.documentid)).segments
    assert (await cleanup_orphans())["deleted_documents"] == 0, "the bytes are still in use"
    await delete_job(second.id)
    await delete_job(other.id)
    for table in ("document", "documenturi", "segment", "workflowrun", "rungroup", "runstep"):
        assert await scalar(f"SELECT count(*) FROM {table}") == 0, table


async def test_a_job_without_text_fails_with_all_that_is_known_and_can_be_retried(worker: Worker) -> None:
    job = await ended(await started(b"<html><body><p> </p></body></html>", name="empty.html"))
    assert (job.status, job.processing_stage) == (JobStatus.FAILED, "segmenting")
    assert job.errormessage is not None
    assert "holds no text" in job.errormessage
    assert "Traceback" in job.errormessage
    assert (await views.get_document(job.documentid)).status is DocumentStatus.NEW
    assert [each.id for each in (await views.list_jobs(PAGE, JobStatus.FAILED)).items] == [job.id]
    with pytest.raises(ConflictError):
        await cancel_job(job.id)
    assert not (await retry_job(job.id)).status.is_final
    assert (await ended(job.id)).status is JobStatus.FAILED
    with pytest.raises(NotFoundError):
        await retry_job("nonsense")


async def test_a_job_that_has_not_begun_is_cancelled_and_retried(database: type[Database]) -> None:
    job_id = await started()
    assert (await views.get_job(job_id)).status is JobStatus.NEW
    cancelled = await cancel_job(job_id)
    assert (cancelled.status, cancelled.progress, cancelled.errormessage) == (JobStatus.CANCELED, 0, None)
    assert (await views.get_document(cancelled.documentid)).status is DocumentStatus.CANCELED
    with pytest.raises(ConflictError):
        await cancel_job(job_id)
    assert (await retry_job(job_id)).status in {JobStatus.NEW, JobStatus.PENDING}
    worker = Worker(WorkerConfig.from_settings(get_settings()))
    await worker.start()
    try:
        assert (await ended(job_id)).status is JobStatus.COMPLETED
        with pytest.raises(ConflictError):
            await retry_job(job_id)
    finally:
        await worker.stop()


async def test_articles_go_with_their_document_whoever_deletes_it(worker: Worker) -> None:
    job = await ended(await started())
    ((doc_hash,),) = await rows_of("SELECT hash FROM document")
    await delete_documents([doc_hash])
    assert await scalar("SELECT count(*) FROM segment") == 0
    with pytest.raises(NotFoundError):
        await views.get_job(job.id)


async def test_articles_and_document_of_a_job_go_when_its_run_is_pruned(worker: Worker) -> None:
    old = await ended(await started())

    async def no_event_is_open() -> bool:
        return (await prune_history(Retention(ended=timedelta()), now=utcnow() + timedelta(days=1))).groups == 1

    await eventually(no_event_is_open, "the job's group was pruned")
    young = await started(name="young.md")
    await tidy()
    with pytest.raises(NotFoundError):
        await views.get_document(old.documentid)
    assert await scalar("SELECT count(*) FROM segment WHERE document_id = :id", id=old.documentid) == 0
    assert (await ended(young)).status is JobStatus.COMPLETED, "a job that has its run keeps its document"
    assert (await views.list_segments((await views.get_job(young)).documentid)).segments


CALLED_BACK = SMALL.model_copy(update={"callbackurl": "http://127.0.0.1:9/nobody"})


async def messages_of(job_id: str) -> list[dict[str, Any]]:
    """What was written for the receiver, in its order."""
    query = "SELECT body FROM webhookmessage WHERE stream = :stream ORDER BY sequence"
    return [json.loads(body) for (body,) in await rows_of(query, stream=f"segmenter:{job_id}")]


async def told_the_end(job_id: str) -> list[dict[str, Any]]:
    """The messages, once the last of them says how the job ended."""
    final = (await views.get_job(job_id)).status.value

    async def is_told() -> bool:
        return [message["status"] for message in await messages_of(job_id)][-1:] == [final]

    await eventually(is_told, "the end is told")
    return await messages_of(job_id)


async def test_articles_that_are_too_many_for_the_last_message_are_all_told_once(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "LARGEST", 1500)
    job = await ended(await started(options=CALLED_BACK))
    messages = await told_the_end(job.id)
    assert [message["status"] for message in messages].count("COMPLETED") == 1
    told = [article["id"] for message in messages for article in message["segments"]]
    articles = (await views.list_segments(job.documentid)).segments
    assert sorted(told) == [article.id for article in articles]
    assert len(articles) > 2


async def test_an_article_that_is_tagged_twice_since_its_worker_died_stays_as_it_was_told_of(worker: Worker) -> None:
    job = await ended(await started(options=CALLED_BACK))
    await told_the_end(job.id)
    before = await rows_of("SELECT id, tags, lang, is_told FROM segment")
    for article_id, *_ in before:
        again = SQL.complete_segment(id=article_id, tags=Json(["other"]), lang="xx", timeit=1, now=utcnow())
        await Database.transact(single(again))
    assert await rows_of("SELECT id, tags, lang, is_told FROM segment") == before


async def test_an_article_that_was_told_of_untagged_is_told_of_again_when_a_retry_has_tagged_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "LARGEST", 1500)
    begun = asyncio.Event()

    async def never(*_: object) -> Description:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as blocked:
        blocked.setattr(handlers, "describe", never)
        job_id = await started(options=CALLED_BACK)
        await begun.wait()
        await cancel_job(job_id)
        before = await told_the_end(job_id)
    assert [article["tags"] for message in before for article in message["segments"]] == [[], [], []]
    nothing_tagged = STAGES["segment"].until
    assert {message["progress"] for message in before} == {(await views.get_job(job_id)).progress} == {nothing_tagged}
    await retry_job(job_id)
    assert (await ended(job_id)).status is JobStatus.COMPLETED
    after = (await told_the_end(job_id))[len(before) :]
    assert [len(article["tags"]) for message in after for article in message["segments"]] == [1, 1, 1]


async def test_what_is_unusual_is_told_though_the_list_of_articles_is_too_large_for_its_row(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "LARGE", 100)
    job = await ended(await started(options=JobOptions(article_size="small", maxsize=24)))
    assert job.status is JobStatus.COMPLETED
    (warning,) = job.warnings
    assert "longer than maxsize 24" in warning


async def test_an_article_that_says_too_little_has_the_language_of_its_document(worker: Worker) -> None:
    text = "# Die Pumpe\n\n" + "Die Pumpe wird im Herbst geleert und im Winter in den Keller gestellt. " * 12
    job = await ended(await started(f"{text}\n\n# Kontakt\n\n```\n{'x = 17 + 4\n' * 90}```\n".encode()))
    articles = (await views.list_segments(job.documentid)).segments
    assert [(article.title, article.lang) for article in articles] == [("Die Pumpe", "de"), ("Kontakt", "de")]
    assert (await views.get_document(job.documentid)).lang == "de"


@pytest.mark.usefixtures("database")
async def test_the_time_of_a_job_counts_from_its_begin_however_late_it_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await started()
    begin = utcnow()
    (step,) = (await claim_steps("me", Pool(), 1, now=begin)).steps
    [(event_id,)] = await rows_of("SELECT id FROM lifecyclehistory WHERE event = 'item_start'")
    monkeypatch.setattr(handlers, "utcnow", lambda: begin + timedelta(hours=1))

    await handlers.limit_time(step.run_id, event_id)

    latest = begin + timedelta(seconds=get_settings().job_timeout_seconds)
    assert await scalar(f"SELECT count(*) FROM workflowrun WHERE deadline <= '{latest.replace(tzinfo=None)}'") == 1
