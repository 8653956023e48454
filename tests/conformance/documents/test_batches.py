"""Batches and sync state: created, listed, and how far they have come."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database, RunStatus
from soliplex.ingester.lib.operations.fetches import Fetch, start_fetches
from soliplex.ingester.lib.wf.views import Paging
from tests.support.documents import new_batch, upload, uploaded
from tests.support.engine import START, Driver


async def test_a_batch_is_listed_with_what_it_was_given(database: type[Database]) -> None:
    batch_id = await documents.create_batch("sharepoint", "Q4 Financial Reports", {"department": "finance"})
    (batch,) = (await documents.list_batches()).items
    assert (batch.id, batch.name, batch.source) == (batch_id, "Q4 Financial Reports", "sharepoint")
    assert batch.batch_params == {"department": "finance"}
    assert (batch.completed_date, batch.duration) == (None, None)


async def test_batches_come_in_pages_in_their_order(database: type[Database]) -> None:
    ids = [await new_batch(f"batch {number}") for number in range(5)]
    page = await documents.list_batches(paging=Paging(2, 2))
    assert ([batch.id for batch in page.items], page.total, page.total_pages) == (ids[2:4], 5, 3)


async def test_only_the_newest_batch_of_a_source_and_name_can_be_the_unfinished_one(driver: Driver) -> None:
    first = await documents.create_batch("files", "docs")
    await documents.create_batch("files", "other")
    await documents.create_batch("web", "docs")
    assert await documents.unfinished_batch("files", "docs") == first
    newest = await documents.create_batch("files", "docs")
    await uploaded(newest, "a")
    assert await documents.unfinished_batch("files", "docs") == newest
    await documents.start_workflows(newest, workflow_id="test_wf", param_id="test_base", now=START)
    await driver.drain()
    assert await documents.unfinished_batch("files", "docs") is None
    assert await documents.unfinished_batch("nothing", "docs") is None


@pytest.mark.parametrize("name", ["", "   ", "a\x00b", "x" * 256, "\ud800"])
async def test_a_name_that_cannot_be_stored_is_refused_by_field(database: type[Database], name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^name: must"):
        await documents.create_batch("files", name)
    assert (await documents.list_batches()).total == 0


@pytest.mark.parametrize("batch_id", [0, -1, 7, 2**31, 2**70])
async def test_an_unknown_batch_is_not_found(database: type[Database], batch_id: int) -> None:
    for call in (documents.batch_status, documents.start_workflows, documents.documents_of_batch):
        with pytest.raises(NotFoundError, match=r"batch .* does not exist"):
            await call(batch_id)


async def test_the_status_counts_documents_and_runs(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b", "c")
    started = await documents.start_workflows(batch_id, workflow_id="test_wf", param_id="test_base", now=START)
    status = await documents.batch_status(batch_id)
    assert (status.document_count, status.workflow_count, status.parsed, status.remaining) == (
        3,
        {RunStatus.PENDING: 3},
        0,
        3,
    )
    assert [run.id for run in status.workflows] == started.run_ids[::-1]
    await driver.drain()
    status = await documents.batch_status(batch_id)
    assert (status.workflow_count, status.parsed, status.remaining) == ({RunStatus.COMPLETED: 3}, 3, 0)


async def test_a_document_counts_once_however_many_runs_it_has(driver: Driver) -> None:
    batch_id = await new_batch()
    first, *_ = await uploaded(batch_id, "a", "b", "c")
    await upload("another place for a", b"content of a", batch_id)
    for _ in range(2):
        await documents.start_workflows(batch_id, workflow_id="test_wf", param_id="test_base", now=START)
        await driver.drain()
    status = await documents.batch_status(batch_id)
    assert (status.document_count, status.workflow_count) == (3, {RunStatus.COMPLETED: 3})
    assert (status.parsed, status.remaining) == (3, 0)
    await documents.start_document_workflow(first.doc_hash, workflow_id="test_wf", param_id="test_base", now=START)
    status = await documents.batch_status(batch_id)
    assert status.workflow_count == {RunStatus.COMPLETED: 2, RunStatus.PENDING: 1}
    assert (status.parsed, status.remaining) == (2, 1)


async def test_what_is_no_longer_in_a_batch_is_not_counted_there(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b")
    await documents.start_workflows(batch_id, workflow_id="test_wf", param_id="test_base", now=START)
    await driver.drain()
    await upload("a", b"other content", batch_id)
    status = await documents.batch_status(batch_id)
    assert (status.document_count, status.workflow_count) == (2, {RunStatus.COMPLETED: 1})
    assert (status.parsed, status.remaining) == (1, 1)


async def test_an_address_counts_by_its_run_until_it_is_fetched(driver: Driver) -> None:
    batch_id = await new_batch()
    await start_fetches(batch_id, [Fetch(uri="https://example.org/a", source="web")])
    status = await documents.batch_status(batch_id)
    assert (status.document_count, status.workflow_count, status.remaining) == (0, {RunStatus.PENDING: 1}, 0)


async def test_an_unknown_source_has_the_sync_state_of_a_beginning(database: type[Database]) -> None:
    state = await documents.get_sync_state("gitea:admin:repo")
    assert (state.source_id, state.last_commit_sha, state.last_sync_date) == ("gitea:admin:repo", None, None)
    assert (state.branch, state.sync_metadata) == ("main", {})


async def test_sync_metadata_is_merged_and_the_branch_stays(database: type[Database]) -> None:
    await documents.put_sync_state("repo", "abc", branch="trunk", metadata={"files": 3, "by": "me"}, now=START)
    put = await documents.put_sync_state("repo", "def", metadata={"files": 4}, now=START)
    assert await documents.get_sync_state("repo") == put
    assert (put.last_commit_sha, put.branch, put.last_sync_date) == ("def", "trunk", START)
    assert put.sync_metadata == {"files": 4, "by": "me"}


async def test_merging_at_the_same_time_loses_nothing(database: type[Database]) -> None:
    puts = (documents.put_sync_state("repo", "abc", metadata={str(number): number}) for number in range(12))
    await asyncio.gather(*puts)
    state = await documents.get_sync_state("repo")
    assert state.sync_metadata == {str(number): number for number in range(12)}


async def test_a_deleted_sync_state_begins_anew(database: type[Database]) -> None:
    await documents.put_sync_state("repo", "abc")
    await documents.delete_sync_state("repo")
    assert (await documents.get_sync_state("repo")).last_commit_sha is None
    with pytest.raises(NotFoundError, match="sync state 'repo' does not exist"):
        await documents.delete_sync_state("repo")
