"""Cancelling, retrying and deleting jobs. All of it is in the database: any server can do it, whoever does the work."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from soliplex.ingester.lib.answers import Job, JobStatus
from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations.deletion import delete_uris
from soliplex.ingester.lib.webhooks import forget_stream
from soliplex.ingester.lib.wf.operations import cancel_run_at_once, delete_run_group, retry_run
from soliplex.ingester.segmenter.jobs.callbacks import stream_of
from soliplex.ingester.segmenter.jobs.new_jobs import SOURCE
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.jobs.views import find_job, get_job
from soliplex.ingester.segmenter.jobs.workflow import WORKFLOW_ID

AT_ONCE: Final = 500
"""Documents without a job that are deleted together."""


async def cancel_job(job_id: str) -> Job:
    """Cancel a job: it is CANCELED when this returns. ConflictError: it has ended already."""
    found = await find_job(job_id)
    if found.status.is_final or not await cancel_run_at_once(found.run_id):
        job = await get_job(job_id)
        raise ConflictError(f"job {job_id} is {job.status} already")
    return await get_job(job_id)


async def retry_job(job_id: str) -> Job:
    """Let a job that failed or was cancelled go on where it ended, with all of its time."""
    found = await find_job(job_id)
    if found.status not in {JobStatus.FAILED, JobStatus.CANCELED}:
        raise ConflictError(f"job {job_id} is {found.status}: only one that is FAILED or CANCELED can be retried")
    await retry_run(found.run_id)
    return await get_job(job_id)


async def delete_job(job_id: str) -> None:
    """Delete a job with its document, its articles and the messages about them; one that runs is stopped first.

    The run goes last: if this is cut short, the job is still there to be deleted once more.
    """
    found = await find_job(job_id)
    await cancel_run_at_once(found.run_id)
    await delete_uris(SOURCE, [found.uri])
    await Database.transact(forget_stream(stream_of(job_id)))
    with suppress(NotFoundError):  # another deletes it at the same time
        # Where nobody else had the same bytes, the run went with the document, and its group is empty.
        await delete_run_group(found.group_id)
    # The handler of the job's end may have written its message meanwhile; now that the run is gone, it writes none.
    await Database.transact(forget_stream(stream_of(job_id)))


async def delete_documents_without_jobs() -> int:
    """Delete the documents and articles of jobs whose runs are gone, pruned for instance; gives how many documents.

    A job's document and its run are created by one transaction, and `delete_job` deletes the run last: so a document
    without a run is one whose run was deleted.
    """
    deleted = 0
    while rows := await Database.read(
        SQL.documents_without_jobs(source=SOURCE, workflow_id=WORKFLOW_ID, limit=AT_ONCE)
    ):
        gone = await delete_uris(SOURCE, [row["uri"] for row in rows])
        deleted += gone.document_uris
        if not gone.document_uris:
            break  # another process deletes them at this moment
    return deleted
