"""Versions of a URI: which there are, what differs between two, and going back to an earlier one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError
from soliplex.ingester.lib.models import ArtifactType, Database, HistoryAction
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Rows, Script, single
from soliplex.ingester.lib.operations import removals
from soliplex.ingester.lib.operations.recording import Uploaded
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.versions import ChunkChange, rollback
from soliplex.ingester.lib.storage import Artifacts
from soliplex.ingester.lib.wf.views import Paging
from tests.support.documents import SOURCE, hash_of, new_batch, upload
from tests.support.engine import START, Driver, make_statement, rows_of, scalar

ONE, TWO, THREE = b"one\n", b"two\n", b"three\n"


async def put(*contents: bytes, uri: str = "/a.md", batch_id: int | None = None) -> list[Uploaded]:
    """Upload contents to one URI, one after the other."""
    batch = batch_id or await new_batch()
    return [await upload(uri, content, batch) for content in contents]


async def process(driver: Driver, batch_id: int, *, params: str = "test_base", workflow: str = "test_wf") -> None:
    await documents.start_workflows(batch_id, workflow_id=workflow, param_id=params, now=START)
    await driver.drain()


async def config_of(doc_hash: str, step_type: str) -> int:
    return await scalar(
        """SELECT max(s.step_config_id) FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
            WHERE r.doc_id = :hash AND s.step_type = :step_type""",
        hash=doc_hash,
        step_type=step_type,
    )


def chunk(text: str, *headings: str, page: int = 1) -> dict[str, Any]:
    return {"id": text, "content": text, "metadata": {"headings": list(headings), "page_numbers": [page]}}


async def write_artifacts(artifacts: Artifacts, doc_hash: str, text: str, chunks: Sequence[dict[str, Any]]) -> None:
    """What the parse and chunk steps would have left."""
    parsed, cut = await config_of(doc_hash, "parse"), await config_of(doc_hash, "chunk")
    await artifacts.write(doc_hash, ArtifactType.PARSED_MD, parsed, text.encode())
    await artifacts.write(doc_hash, ArtifactType.CHUNKS, cut, json.dumps(chunks).encode())


async def versions(uri: str = "/a.md") -> list[documents.StoredVersion]:
    return (await documents.list_versions(uri, SOURCE)).items


async def test_versions_are_listed_with_what_is_stored_of_them(driver: Driver, artifacts: Artifacts) -> None:
    first, second = await new_batch("first"), await new_batch("second")
    (one,) = await put(ONE, batch_id=first)
    await process(driver, first)
    await write_artifacts(artifacts, one.doc_hash, "one", [])
    await put(TWO, batch_id=second)

    new, old = await versions()
    assert (old.version, old.hash, old.action, old.batch_id) == (1, hash_of(ONE), HistoryAction.CREATED, first)
    assert (new.version, new.hash, new.action, new.batch_id) == (2, hash_of(TWO), HistoryAction.UPDATED, second)
    assert (old.is_current, new.is_current, old.is_stored, new.is_stored) == (False, True, True, True)
    assert (old.file_size, old.mime_type) == (4, "text/markdown")
    assert (old.artifacts, new.artifacts) == ([ArtifactType.CHUNKS, ArtifactType.PARSED_MD], [])
    assert old.process_date <= new.process_date <= utcnow()


async def test_what_steps_did_makes_no_version_and_pages_go_by_versions(database: type[Database]) -> None:
    await put(ONE, TWO, THREE)
    for action in (HistoryAction.PARSED, HistoryAction.CHUNKED):
        await documents.record_history(hash_of(THREE), action)
    assert [each.version for each in await versions()] == [3, 2, 1]
    page = await documents.list_versions("/a.md", SOURCE, paging=Paging(2, 2))
    assert ([each.version for each in page.items], page.total) == ([1], 3)


async def test_artifacts_are_known_of_a_document_whose_runs_were_deleted(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    (one,) = await put(ONE, batch_id=batch_id)
    await process(driver, batch_id)
    await write_artifacts(artifacts, one.doc_hash, "one", [])
    for table in ("runstep", "lifecyclehistory", "workflowrun", "rungroup"):
        await Database.transact(_deleting(table))
    assert (await versions())[0].artifacts == [ArtifactType.CHUNKS, ArtifactType.PARSED_MD]
    assert (await documents.diff_versions("/a.md", SOURCE, 1, 1)).text.unified == ""


@pytest.mark.parametrize(("uri", "source"), [("/b.md", SOURCE), ("/a.md", "elsewhere")])
async def test_an_unknown_uri_has_no_versions(database: type[Database], uri: str, source: str) -> None:
    await put(ONE)
    for asked in (
        documents.list_versions(uri, source),
        documents.diff_versions(uri, source),
        documents.roll_back(uri, source, 1),
    ):
        with pytest.raises(documents.DocumentURINotFoundError, match=f"{uri!r} of source {source!r}"):
            await asked


async def test_two_versions_are_compared_by_line_and_by_chunk(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    one, two = await put(ONE, TWO, batch_id=batch_id)
    await documents.start_document_workflow(one.doc_hash, workflow_id="test_wf", param_id="test_base", now=START)
    await process(driver, batch_id)
    before = [chunk("intro"), chunk("old", "Part", page=2), chunk("end"), chunk("appendix")]
    after = [chunk("intro"), chunk("new", "Part", page=2), chunk("more", "Part", "Deep", page=3), chunk("end")]
    await write_artifacts(artifacts, one.doc_hash, "# Part\n\nold\n\nend", before)
    await write_artifacts(artifacts, two.doc_hash, "# Part\n\nnew\n\nend", after)

    found = await documents.diff_versions("/a.md", SOURCE)
    assert (found.from_version, found.from_hash) == (1, hash_of(ONE))
    assert (found.to_version, found.to_hash) == (2, hash_of(TWO))
    assert found.text.unified.splitlines() == [
        "--- /a.md (version 1)",
        "+++ /a.md (version 2)",
        "@@ -1,5 +1,5 @@",
        " # Part",
        " ",
        "-old",
        "+new",
        " ",
        " end",
    ]
    assert (found.text.added_lines, found.text.removed_lines, found.text.is_same_configuration) == (1, 1, True)
    assert found.chunks is not None
    assert (found.chunks.kept, found.chunks.added, found.chunks.removed) == (2, 2, 2)
    assert [(each.change, each.id) for each in found.chunks.chunks] == [
        (ChunkChange.KEPT, "intro"),
        (ChunkChange.REMOVED, "old"),
        (ChunkChange.ADDED, "new"),
        (ChunkChange.ADDED, "more"),
        (ChunkChange.KEPT, "end"),
        (ChunkChange.REMOVED, "appendix"),
    ]
    added = found.chunks.chunks[3]
    assert (added.headings, added.page_numbers, added.content) == (["Part", "Deep"], [3], "more")
    back = await documents.diff_versions("/a.md", SOURCE, 2, 1)
    assert back.chunks is not None
    assert (back.text.added_lines, back.chunks.added, back.chunks.removed) == (1, 2, 2)


async def test_a_version_that_was_never_parsed_cannot_be_compared(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    one, _ = await put(ONE, TWO, batch_id=batch_id)
    with pytest.raises(documents.NotParsedError, match=r"version 1 of '/a\.md' has no text: it was never parsed"):
        await documents.diff_versions("/a.md", SOURCE)
    await documents.start_document_workflow(one.doc_hash, workflow_id="test_wf", param_id="test_base", now=START)
    await driver.drain()
    await write_artifacts(artifacts, one.doc_hash, "one", [])
    with pytest.raises(documents.NotParsedError, match="version 2"):
        await documents.diff_versions("/a.md", SOURCE)


async def test_versions_that_never_were_are_named(database: type[Database]) -> None:
    await put(ONE)
    with pytest.raises(InvalidInputError, match=r"before version 1 of '/a\.md' there is none"):
        await documents.diff_versions("/a.md", SOURCE)
    for version in (0, 2, 2**40):
        with pytest.raises(documents.VersionNotFoundError, match="it has had only version 1"):
            await documents.roll_back("/a.md", SOURCE, version)


async def test_going_back_adds_a_version_and_starts_the_run_that_follows(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, batch_id=batch_id)
    await process(driver, batch_id)
    await put(TWO, batch_id=batch_id)

    done = await documents.roll_back("/a.md", SOURCE, 1, priority=7, now=START)
    assert (done.version, done.hash, done.rolled_back_to, done.is_changed) == (3, hash_of(ONE), 1, True)
    (run,) = done.runs
    assert (run.workflow_definition_id, run.param_definition_id) == ("test_wf", "test_base")
    assert await rows_of(
        "SELECT run_group_id, doc_id, batch_id, priority, status FROM workflowrun WHERE id = :id",
        id=run.workflow_run_id,
    ) == [(run.run_group_id, hash_of(ONE), batch_id, 7, "PENDING")]
    assert [(each.version, each.hash, each.rolled_back_to) for each in await versions()] == [
        (3, hash_of(ONE), 1),
        (2, hash_of(TWO), None),
        (1, hash_of(ONE), None),
    ]
    assert (await documents.get_batch(batch_id)).completed_date is None
    await driver.drain()
    assert (await documents.get_batch(batch_id)).completed_date is not None


async def test_what_has_the_content_already_is_left_alone(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, TWO, ONE, batch_id=batch_id)
    await process(driver, batch_id)
    for version in (3, 1):
        done = await documents.roll_back("/a.md", SOURCE, version)
        assert (done.version, done.is_changed, done.runs) == (3, False, [])
    assert len(await versions()) == 3


async def test_without_a_workflow_only_the_uri_goes_back(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, TWO, batch_id=batch_id)
    done = await documents.roll_back("/a.md", SOURCE, 1)
    assert (done.is_changed, done.runs) == (True, [])
    started = await documents.start_workflows(batch_id, workflow_id="test_wf", param_id="test_base", now=START)
    assert await rows_of("SELECT doc_id FROM workflowrun") == [(hash_of(ONE),)]
    assert len(started.run_ids) == 1


async def test_what_the_present_content_was_processed_by_counts_where_the_earlier_never_was(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, TWO, batch_id=batch_id)
    await process(driver, batch_id)
    (run,) = (await documents.roll_back("/a.md", SOURCE, 1, now=START)).runs
    assert run.workflow_definition_id == "test_wf"
    (run,) = (await documents.roll_back("/a.md", SOURCE, 2, workflow_id="batch", param_id="default", now=START)).runs
    assert (run.workflow_definition_id, run.param_definition_id) == ("batch", "default")


async def test_every_rag_database_that_must_follow_gets_a_run(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, batch_id=batch_id)
    for workflow in ("test_wf_fail", "test_wf"):
        await process(driver, batch_id, workflow=workflow)
    await put(TWO, batch_id=batch_id)
    await documents.start_workflows(batch_id, workflow_id="batch", param_id="default", now=START)
    runs = (await documents.roll_back("/a.md", SOURCE, 1, now=START)).runs
    assert [(run.workflow_definition_id, run.param_definition_id) for run in runs] == [
        ("test_wf", "test_base"),  # completed, and of the version itself
        ("batch", "default"),  # where the present content goes
    ]


async def test_a_definition_that_is_gone_is_named_and_nothing_changes(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    await put(ONE, batch_id=batch_id)
    await process(driver, batch_id)
    await put(TWO, batch_id=batch_id)
    monkeypatch.setattr(rollback, "_ways", AsyncMock(return_value=[("test_wf", "yesterday's")]))
    with pytest.raises(ConflictError, match=r"not defined any more .*name a workflow and a parameter set"):
        await documents.roll_back("/a.md", SOURCE, 1)
    assert len(await versions()) == 2


async def test_a_version_whose_bytes_are_gone_cannot_come_back(database: type[Database], artifacts: Artifacts) -> None:
    await put(ONE, TWO)
    await artifacts.delete_all(hash_of(ONE))
    assert [each.is_stored for each in await versions()] == [True, False]
    with pytest.raises(documents.VersionGoneError, match=r"version 1 of '/a\.md' is no longer stored: its bytes are"):
        await documents.roll_back("/a.md", SOURCE, 1)
    assert len(await versions()) == 2


async def test_a_version_that_was_cleaned_up_is_said_to_be_gone(database: type[Database], artifacts: Artifacts) -> None:
    await put(ONE, TWO)
    statistics = await documents.cleanup_orphans()
    assert (statistics["deleted_documents"], statistics["deleted_versions"]) == (1, 1)
    assert [each.version for each in await versions()] == [2]
    for asked in (documents.roll_back("/a.md", SOURCE, 1), documents.diff_versions("/a.md", SOURCE, 1)):
        with pytest.raises(documents.VersionGoneError, match="a clean-up of orphans removed it"):
            await asked


async def test_a_version_whose_document_was_deleted_elsewhere_is_said_to_be_gone(database: type[Database]) -> None:
    await put(ONE, TWO)
    await put(ONE, uri="/b.md")
    await documents.delete_document_uri_by_uri("/b.md", SOURCE)
    assert [(each.is_stored, each.artifacts) for each in await versions()] == [(True, []), (False, [])]
    for asked in (documents.roll_back("/a.md", SOURCE, 1), documents.diff_versions("/a.md", SOURCE)):
        with pytest.raises(documents.VersionGoneError, match="the document was deleted since"):
            await asked


async def test_what_is_being_removed_does_not_come_back_at_that_moment(database: type[Database]) -> None:
    await put(ONE, TWO)
    removal = (hash_of(ONE), removals.ARTIFACTS)
    await Database.transact(removals.request_removals([removal], utcnow()))
    await Database.transact(_beginning(hash_of(ONE)))
    with pytest.raises(documents.BeingRemovedError):
        await documents.roll_back("/a.md", SOURCE, 1)


async def test_two_who_go_back_at_once_go_back_once(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, TWO, batch_id=batch_id)
    await process(driver, batch_id)
    done = await asyncio.gather(*(documents.roll_back("/a.md", SOURCE, 1, now=START) for _ in range(6)))
    assert sorted(each.is_changed for each in done) == [False] * 5 + [True]
    assert {each.version for each in done} == {3}
    assert await scalar("SELECT count(*) FROM workflowrun WHERE doc_id = :hash", hash=hash_of(ONE)) == 1


async def test_whoever_goes_elsewhere_at_once_comes_after(driver: Driver) -> None:
    batch_id = await new_batch()
    await put(ONE, TWO, THREE, batch_id=batch_id)
    await process(driver, batch_id)
    done = await asyncio.gather(
        *(documents.roll_back("/a.md", SOURCE, version, now=START) for version in (1, 2)),
        upload("/a.md", b"four\n", batch_id),
    )
    assert sorted(each.version for each in done) == [4, 5, 6]
    assert [each.version for each in await versions()] == [6, 5, 4, 3, 2, 1]


async def test_a_uri_that_is_deleted_meanwhile_is_not_found(
    database: type[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(ONE, TWO)
    look = rollback._ways

    async def delete_and_look(chosen: str, present: str) -> Any:
        await documents.delete_document_uri_by_uri("/a.md", SOURCE)
        return await look(chosen, present)

    monkeypatch.setattr(rollback, "_ways", delete_and_look)
    with pytest.raises(documents.DocumentURINotFoundError):
        await documents.roll_back("/a.md", SOURCE, 1)
    assert await scalar("SELECT count(*) FROM documenturihistory") == 0


async def test_orphans_that_are_cleaned_up_meanwhile_stay_gone(
    database: type[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(ONE, TWO)
    look = rollback._ways

    async def clean_up_and_look(chosen: str, present: str) -> Any:
        await documents.cleanup_orphans()
        return await look(chosen, present)

    monkeypatch.setattr(rollback, "_ways", clean_up_and_look)
    with pytest.raises(documents.VersionGoneError):
        await documents.roll_back("/a.md", SOURCE, 1)
    assert (await versions())[0].hash == hash_of(TWO)


def _deleting(table: str) -> Script[Rows]:
    return single(make_statement("delete", sqlite=f"DELETE FROM {table}", postgres=f"DELETE FROM {table}")())


def _beginning(doc_hash: str) -> Script[Rows]:
    now = utcnow()
    call = SQL.begin_removals(
        target=removals.ARTIFACTS, hashes=[doc_hash], holder="another", now=now, stale_before=now - removals.STALE
    )
    return single(call)
