"""Deleting: the two cases of a URI, the groups of deleted runs, orphans, removals that are finished later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib import rag
from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Database, ResourceLockKind
from soliplex.ingester.lib.operations import deletion, removals
from soliplex.ingester.lib.storage import Artifacts, StoreUnavailableError
from soliplex.ingester.lib.wf.registry import Registry
from tests.support.documents import SOURCE, new_batch, upload, uploaded
from tests.support.engine import START, Driver, assert_consistent, rows_of, scalar


async def start(batch_id: int, workflow_id: str = "test_wf", param_id: str = "test_base") -> documents.Started:
    return await documents.start_workflows(batch_id, workflow_id=workflow_id, param_id=param_id, now=START)


async def test_the_last_uri_takes_everything_with_it(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    gone, stays = await uploaded(batch_id, "a", "b")
    await upload("a", b"a newer version", batch_id)
    current = await upload("a", b"content of a", batch_id)
    assert current.doc_hash == gone.doc_hash
    started = await start(batch_id)
    await driver.drain()
    config_id = await scalar("SELECT min(step_config_id) FROM runstep")
    await artifacts.write(gone.doc_hash, ArtifactType.PARSED_MD, config_id, b"# a")
    await artifacts.write(stays.doc_hash, ArtifactType.PARSED_MD, config_id, b"# b")
    events = await scalar("SELECT count(*) FROM lifecyclehistory WHERE workflow_run_id = :id", id=started.run_ids[0])

    statistics = await documents.delete_document_uri_by_uri("a", SOURCE)
    assert statistics == {
        "deleted_document_uris": 1,
        "deleted_uri_history": 3,
        "deleted_documents": 2,
        "deleted_workflow_runs": 1,
        "deleted_run_steps": 5,
        "deleted_lifecycle_history": events,
        "total_deleted": 12 + events,
    }
    assert [row[0] for row in await rows_of("SELECT hash FROM document")] == [stays.doc_hash]
    assert not await artifacts.has_document(gone.doc_hash)
    assert not await artifacts.has(gone.doc_hash, ArtifactType.PARSED_MD, config_id)
    assert await artifacts.has_document(stays.doc_hash)
    assert await artifacts.has(stays.doc_hash, ArtifactType.PARSED_MD, config_id)
    assert await scalar("SELECT count(*) FROM documentremoval") == 0
    group = await driver.group(started.run_group.id or 0)
    assert (group.total_runs, group.remaining_runs, group.status) == (1, 0, "COMPLETED")
    with pytest.raises(NotFoundError):
        await documents.document_info(gone.doc_hash)


async def test_with_a_uri_go_the_contents_it_had_before_unless_something_else_leads_to_them(
    driver: Driver, artifacts: Artifacts, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first version was stored, the second was not yet: without the URI nobody would ever remove the first."""
    batch_id = await new_batch()
    first = await upload("a", b"first", batch_id)
    await start(batch_id, param_id="default")
    shared = await upload("a", b"shared", batch_id)
    lives = await upload("a", b"lives elsewhere", batch_id)
    await upload("b", b"shared", batch_id)
    current = await upload("b", b"current of b", batch_id)
    await upload("c", b"lives elsewhere", batch_id)
    await upload("a", b"last", batch_id)
    removed: list[str] = []
    monkeypatch.setattr(rag, "is_absent", AsyncMock(return_value=False))

    async def delete_documents(_path: str, hashes: list[str], *, fence: rag.RagLock) -> int:
        assert await fence.token() > 0
        removed.extend(hashes)
        return len(hashes)

    monkeypatch.setattr(rag, "delete_documents", delete_documents)
    await documents.delete_document_uri_by_uri("a", SOURCE)
    left = {row[0] for row in await rows_of("SELECT hash FROM document")}
    assert left == {shared.doc_hash, lives.doc_hash, current.doc_hash}, "b can be rolled back to the shared one"
    assert removed == [first.doc_hash]


async def test_a_removal_that_fails_in_whatever_way_is_made_later(
    database: type[Database], artifacts: Artifacts, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a")
    await start(batch_id, param_id="default")
    monkeypatch.setattr(rag, "is_absent", AsyncMock(return_value=False))
    monkeypatch.setattr(rag, "delete_documents", AsyncMock(side_effect=ValueError("Table 'chunks' was not found")))
    await documents.delete_document_uri_by_uri("a", SOURCE)
    assert await rows_of("SELECT started_at FROM documentremoval") == [(None,)]
    monkeypatch.setattr(rag, "delete_documents", AsyncMock(return_value=1))
    assert await documents.finish_removals() == 1


async def test_a_document_that_lives_elsewhere_too_stays(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    first = await upload("a", b"hello", batch_id)
    await upload("b", b"hello", batch_id)
    await start(batch_id)
    statistics = await documents.delete_document_uri_by_uri("a", SOURCE)
    assert statistics == {
        "deleted_document_uris": 1,
        "deleted_uri_history": 1,
        "deleted_documents": 0,
        "deleted_workflow_runs": 0,
        "deleted_run_steps": 0,
        "deleted_lifecycle_history": 0,
        "total_deleted": 2,
    }
    assert await artifacts.has_document(first.doc_hash)
    assert [uri.uri for uri in (await documents.document_info(first.doc_hash)).uris] == ["b"]


@pytest.mark.parametrize(("uri", "source"), [("b", SOURCE), ("a", "elsewhere")])
async def test_an_unknown_uri_is_not_found_and_named(database: type[Database], uri: str, source: str) -> None:
    await uploaded(await new_batch(), "a")
    with pytest.raises(documents.DocumentURINotFoundError, match=f"{uri!r} of source {source!r}"):
        await documents.delete_document_uri_by_uri(uri, source)
    assert await scalar("SELECT count(*) FROM documenturi") == 1


async def test_a_group_ends_with_the_deletion_of_its_last_unfinished_run(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b")
    started = await start(batch_id)
    done, waiting = started.run_ids
    for _ in range(5):
        await driver.complete(*[step for step in await driver.claim() if step.run_id == done])
        await driver.finish()
    (doc_hash,) = (await rows_of("SELECT doc_id FROM workflowrun WHERE id = :id", id=waiting))[0]
    (uri,) = (await documents.document_info(doc_hash)).uris
    await documents.delete_document_uri_by_uri(uri.uri, SOURCE)
    group = await driver.group(started.run_group.id or 0)
    assert (group.status, group.total_runs, group.remaining_runs) == ("COMPLETED", 1, 0)
    assert [event.handler_name for event in await driver.events("group_end")] == ["log group end"]
    assert (await documents.get_batch(batch_id)).completed_date is not None


async def test_a_group_ends_with_the_deletion_of_all_its_runs(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b")
    started = await start(batch_id)
    await documents.delete_document_uri_by_uri("a", SOURCE)
    await documents.delete_document_uri_by_uri("b", SOURCE)
    group = await driver.group(started.run_group.id or 0)
    assert (group.status, group.total_runs) == ("COMPLETED", 0)
    assert (await documents.get_batch(batch_id)).completed_date is not None


async def test_a_step_under_way_is_dropped_with_its_document(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b")
    await start(batch_id)
    steps = await driver.claim()
    await documents.delete_document_uri_by_uri("a", SOURCE)
    finished = await driver.complete(*steps)
    assert (len(finished.completed), len(finished.lost)) == (1, 1)


async def test_a_group_that_loses_all_its_runs_keeps_its_status(database: type[Database], artifacts: Artifacts) -> None:
    driver, batch_id = Driver(), await new_batch()
    await uploaded(batch_id, "a")
    started = await start(batch_id)
    await driver.drain()
    await documents.delete_document_uri_by_uri("a", SOURCE)
    group = await driver.group(started.run_group.id or 0)
    assert (group.status, group.total_runs) == ("COMPLETED", 0)
    await assert_consistent()


async def test_many_uris_go_in_as_many_statements_as_few(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, *(f"uri {number}" for number in range(30)))
    await start(batch_id)
    deleted = await documents.delete_uris(SOURCE, [f"uri {number}" for number in range(29)] + ["unknown"])
    assert (deleted.document_uris, deleted.documents, deleted.workflow_runs, deleted.run_steps) == (29, 29, 29, 145)
    assert await scalar("SELECT count(*) FROM documenturi") == 1
    assert await scalar("SELECT count(*) FROM documentremoval") == 0


async def test_deleting_the_same_at_once_counts_it_once(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    await upload("a", b"hello", batch_id)
    await upload("b", b"hello", batch_id)
    await start(batch_id)
    results = await asyncio.gather(
        *(documents.delete_document_uri_by_uri(uri, SOURCE) for uri in "abababab"), return_exceptions=True
    )
    counted = [result for result in results if isinstance(result, dict)]
    assert [result["deleted_document_uris"] for result in counted] == [1, 1]
    assert sum(result["deleted_documents"] for result in counted) == 1
    assert all(isinstance(result, dict | documents.DocumentURINotFoundError) for result in results)


async def test_deleting_while_workflows_start_leaves_no_run_without_its_document(
    driver: Driver, artifacts: Artifacts
) -> None:
    batch_id = await new_batch()
    names = [f"uri {number}" for number in range(12)]
    await uploaded(batch_id, *names)
    await asyncio.gather(
        start(batch_id), *(documents.delete_document_uri_by_uri(name, SOURCE) for name in names[:6]), start(batch_id)
    )
    lost = "SELECT count(*) FROM workflowrun r WHERE NOT EXISTS (SELECT 1 FROM document d WHERE d.hash = r.doc_id)"
    assert await scalar(lost) == 0
    assert await scalar("SELECT count(*) FROM document") == 6


async def test_orphans_go_with_their_history_and_bytes(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    old = await upload("a", b"old", batch_id)
    new = await upload("a", b"new", batch_id)
    assert await documents.cleanup_orphans() == {
        "deleted_documents": 1,
        "deleted_history": 1,
        "deleted_versions": 1,
        "deleted_strays": 0,
    }
    assert not await artifacts.has_document(old.doc_hash)
    assert await artifacts.has_document(new.doc_hash)
    assert [event.version for event in await documents.document_history(new.doc_hash)] == [2]
    assert (await documents.cleanup_orphans())["deleted_documents"] == 0


async def test_an_orphan_that_is_uploaded_at_the_same_time_is_whole_or_gone(
    driver: Driver, artifacts: Artifacts
) -> None:
    batch_id = await new_batch()
    for number in range(6):
        orphan = await upload("a", f"old {number}".encode(), batch_id)
        await upload("a", f"new {number}".encode(), batch_id)
        await asyncio.gather(documents.cleanup_orphans(), upload(f"b{number}", f"old {number}".encode(), batch_id))
        assert len((await documents.document_info(orphan.doc_hash)).uris) == 1
        assert await artifacts.has_document(orphan.doc_hash)


async def test_what_the_store_cannot_delete_now_is_deleted_later(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    (gone,) = await uploaded(batch_id, "a")

    async def refuse(*_hashes: str) -> int:
        raise StoreUnavailableError("fs", "it is away")

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "delete_all", refuse)
        await documents.delete_document_uri_by_uri("a", SOURCE)
    assert await artifacts.has_document(gone.doc_hash)
    assert await documents.finish_removals() == 1
    assert not await artifacts.has_document(gone.doc_hash)


async def test_a_program_that_lives_long_removes_what_was_left_over(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone,) = await uploaded(await new_batch(), "a")
    with monkeypatch.context() as patch:
        patch.setattr(deletion, "finish_removals", AsyncMock())
        await documents.delete_document_uri_by_uri("a", SOURCE)
    assert await artifacts.has_document(gone.doc_hash)
    removed, original = asyncio.Event(), artifacts.delete_all

    async def delete_all(*hashes: str) -> int:
        count = await original(*hashes)
        removed.set()
        return count

    monkeypatch.setattr(artifacts, "delete_all", delete_all)
    async with documents.removals_tended():
        await removed.wait()
    assert not await artifacts.has_document(gone.doc_hash)


async def test_a_removal_whose_process_died_is_taken_over_when_it_is_stale(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    (gone,) = await uploaded(batch_id, "a")

    class KilledError(BaseException):
        pass

    async def die(*_hashes: str) -> int:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "delete_all", die)
        with pytest.raises(KilledError):
            await documents.delete_document_uri_by_uri("a", SOURCE)
    assert await documents.finish_removals() == 0
    monkeypatch.setattr(removals, "STALE", -removals.STALE)
    assert await documents.finish_removals() == 1
    assert not await artifacts.has_document(gone.doc_hash)


async def test_rag_entries_go_with_the_document(
    driver: Driver, artifacts: Artifacts, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    (gone,) = await uploaded(batch_id, "a")
    started = await start(batch_id, param_id="default")
    key = rag.rag_resource_key(rag.rag_path("lancedb"))
    assert [row[0] for row in await rows_of("SELECT resource_key FROM runstep WHERE step_type = 'store'")] == [key]
    path = Path(key.removeprefix("rag:"))
    await asyncio.to_thread(path.mkdir, parents=True)
    deleted: list[tuple[str, list[str]]] = []

    async def delete_documents(db_path: str, hashes: list[str], *, fence: rag.RagLock) -> int:
        assert await fence.token() > 0
        deleted.append((db_path, list(hashes)))
        return 1

    monkeypatch.setattr(rag, "delete_documents", delete_documents)
    async with rag.hold_rag_lock(path, holder_kind=ResourceLockKind.CLI):
        await documents.delete_document_uri_by_uri("a", SOURCE)
        assert deleted == []  # another writes to the database: its turn comes
        assert await rows_of("SELECT doc_hash, target FROM documentremoval") == [(gone.doc_hash, key)]
    assert await documents.finish_removals() == 1
    assert deleted == [(str(path), [gone.doc_hash])]
    assert started.run_ids


async def test_clean_up_of_a_batch_forgets_what_is_missing_or_damaged(driver: Driver, artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    whole, missing, damaged = await uploaded(batch_id, "a", "b", "c")
    await start(batch_id)
    await artifacts.delete_all(missing.doc_hash)
    key = artifacts.layout.document(damaged.doc_hash)
    await artifacts.store.put(key, b"something else")

    found = await documents.validate_storage(batch_id)
    assert (found.total, found.valid, found.missing, found.missing_hashes) == (3, 1, 1, [missing.doc_hash])
    assert (found.damaged_hashes, found.cleanup_stats) == ([damaged.doc_hash], None)

    cleaned = await documents.validate_storage(batch_id, clean_up=True)
    assert cleaned.cleanup_stats is not None
    assert cleaned.cleanup_stats["deleted_documents"] == 2
    assert [uri.doc_hash for uri in (await documents.documents_of_batch(batch_id)).items] == [whole.doc_hash]
    assert (await documents.validate_storage(batch_id)).valid == 1


async def test_deletion_gives_up_on_what_others_change_all_the_time(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await uploaded(await new_batch(), "a")
    facts = iter(range(1000))
    monkeypatch.setattr(deletion, "_facts", lambda _rows: {next(facts)})
    with pytest.raises(ConflictError, match="try again later"):
        await documents.delete_document_uri_by_uri("a", SOURCE)
    assert await scalar("SELECT count(*) FROM documenturi") == 1
