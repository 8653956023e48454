"""Fences: who has lost the lock of a RAG database changes nothing any more, whatever it was about to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.rag import RagLock, delete_documents, hold_rag_lock, vacuum
from soliplex.ingester.lib.rag.fencing import Fence, FencedTable, FencedTables, SoleWriter, put_up_fences
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.writing import rag_id, write_documents
from soliplex.ingester.lib.wf.errors import LockLostError
from soliplex.ingester.lib.wf.operations import force_release_resource_lock
from tests.integration.test_rag import IDENTITY, counts, document, uris


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "library"


class Late:
    """A writer that has lost its lock, and asks for a token in vain."""

    key = "rag:library"

    def __init__(self, token: int) -> None:
        self._token = token

    async def token(self, above: int = 0) -> int:
        if above:
            raise LockLostError(self.key)
        return self._token


async def tables_of(store: Any, fence: Fence) -> FencedTables:
    return await put_up_fences(store, fence)


async def replace_chunks(tables: FencedTables) -> None:
    await tables.chunks.replace("document_id", [rag_id("sha256-cats"), "whatever"])


async def delete_metas(tables: FencedTables) -> None:
    await tables.metas.replace("id", [rag_id("sha256-cats")])


async def compact(tables: FencedTables) -> None:
    await tables.chunks.maintain(lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=10))


async def put_up_again(tables: FencedTables) -> None:
    await tables.documents.put_up(1)


async def an_id(table: FencedTable, column: str) -> str:
    return min(await table.ids(column))


CHANGES: list[Callable[[FencedTables], Awaitable[None]]] = [replace_chunks, delete_metas, compact, put_up_again]


@pytest.mark.parametrize("is_cleaned", [False, True], ids=["", "and old versions are dropped"])
@pytest.mark.parametrize("change", CHANGES)
async def test_what_was_prepared_before_a_fence_is_refused_after_it(
    db: Path, change: Callable[[FencedTables], Awaitable[None]], is_cleaned: bool
) -> None:
    for name in ("cats", "dogs"):
        await write_documents(db, IDENTITY, [document(name, f"{name} sleep")], fence=SoleWriter())
    async with open_rag(db, None) as rag:
        late = await tables_of(rag.store, Late(100))
        async with open_rag(db, None) as other:
            await tables_of(other.store, SoleWriter())
        if is_cleaned:
            await vacuum(db, fence=SoleWriter())
        with pytest.raises(LockLostError, match="the lock of rag:library has gone to another writer"):
            await change(late)
    assert await counts(db) == (2, 2, 2)


async def test_a_writer_that_opens_the_tables_late_sees_that_its_token_is_old(db: Path) -> None:
    await write_documents(db, IDENTITY, [document("cats", "cats purr")], fence=SoleWriter())
    await write_documents(db, IDENTITY, [document("dogs", "dogs bark")], fence=SoleWriter())
    attempts = [
        write_documents(db, IDENTITY, [document("cats", "cats hiss")], fence=Late(1)),
        delete_documents(db, ["sha256-cats"], fence=Late(1)),
        vacuum(db, fence=Late(1)),
    ]
    for attempt in attempts:
        with pytest.raises(LockLostError):
            await attempt
    assert await uris(db, "purr") == ["/shelf/cats.md", "/shelf/dogs.md"]


async def test_a_database_that_comes_from_elsewhere_is_written_under_larger_tokens(
    database: type[Database], db: Path
) -> None:
    """Its tokens say nothing about this document database, whose own are smaller."""
    for number in range(3):
        await write_documents(db, IDENTITY, [document(f"cats{number}", "cats purr")], fence=SoleWriter())
    async with hold_rag_lock(db, holder_kind=ResourceLockKind.CLI) as lock:
        await write_documents(db, IDENTITY, [document("dogs", "dogs bark")], fence=lock)
    assert await counts(db) == (4, 4, 4)


async def test_a_lock_that_was_broken_lets_nothing_more_be_written(database: type[Database], db: Path) -> None:
    async with hold_rag_lock(db, holder_kind=ResourceLockKind.CLI) as lock:
        await write_documents(db, IDENTITY, [document("cats", "cats purr")], fence=lock)
        await force_release_resource_lock(lock.key, requested_by="test")
        async with hold_rag_lock(db, holder_kind=ResourceLockKind.CLI, max_wait=0) as next_lock:
            await write_documents(db, IDENTITY, [document("dogs", "dogs bark")], fence=next_lock)
        with pytest.raises(LockLostError):
            await write_documents(db, IDENTITY, [document("birds", "birds sing")], fence=lock)
    assert await counts(db) == (2, 2, 2)


async def test_a_writer_that_is_overtaken_between_two_tables_stops_there(
    database: type[Database], db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_documents(db, IDENTITY, [document("old", "the old text")], fence=SoleWriter())
    replace = FencedTable.replace
    calls = 0

    async def overtaken(table: FencedTable, *arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:  # metas and documents are written, items and chunks are not
            await force_release_resource_lock(lock.key, requested_by="test")
            async with hold_rag_lock(db, holder_kind=ResourceLockKind.CLI, max_wait=0) as another:
                new = [document("new", "written by another"), document("more", "and more")]
                await write_documents(db, IDENTITY, new, fence=another)
        return await replace(table, *arguments)

    monkeypatch.setattr(FencedTable, "replace", overtaken)
    async with hold_rag_lock(db, holder_kind=ResourceLockKind.CLI) as lock:
        with pytest.raises(LockLostError):
            await write_documents(db, IDENTITY, [document("new", "written late")], fence=lock)
    monkeypatch.undo()
    assert await counts(db) == (3, 3, 3)
    assert await uris(db, "written by another late", limit=1) == ["/shelf/new.md"]


async def test_fences_keep_rows_indexes_and_columns_as_they_are(db: Path) -> None:
    """Also in a table that has lost a column once: its columns are not numbered from 0 on."""
    await write_documents(db, IDENTITY, [document("cats", "cats purr", "and sleep")], fence=SoleWriter())
    async with open_rag(db, None) as rag:
        table = rag.store.chunks_table
        dataset = await table.to_lance()
        dataset.add_columns({"extra": "1"})
        dataset.drop_columns(["metadata"])
        dataset.add_columns({"metadata": "'{}'"})
        await table.checkout_latest()
        before = (await table.to_arrow()).sort_by("id")
        indexes = [(index.name, index.num_indexed_rows) for index in await table.list_indices()]
        fenced = FencedTable(table, "chunks", SoleWriter())
        await fenced.put_up(1)
        assert (await table.to_arrow()).sort_by("id").to_pylist() == before.to_pylist()
        assert [(index.name, index.num_indexed_rows) for index in await table.list_indices()] == indexes


async def test_two_holders_that_put_up_fences_at_once_do_not_both_hold(db: Path) -> None:
    await write_documents(db, IDENTITY, [document("cats", "cats purr")], fence=SoleWriter())
    async with open_rag(db, None) as rag:
        cats = await an_id((await tables_of(rag.store, SoleWriter())).chunks, "document_id")
    tokens = [500, 501]

    async def attempt(token: int) -> int:
        async with open_rag(db, None) as rag:
            tables = await put_up_fences(rag.store, Late(token))
            await asyncio.sleep(0)
            return await tables.chunks.replace("document_id", [cats])

    outcomes = await asyncio.gather(*map(attempt, tokens), return_exceptions=True)
    replaced = [each for each in outcomes if isinstance(each, int) and each]
    assert len(replaced) <= 1
    assert [each for each in outcomes if not isinstance(each, int | LockLostError)] == []
    assert not isinstance(outcomes[1], LockLostError), "the later holder is never kept out"


async def test_maintenance_of_others_does_not_keep_the_holder_from_writing(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody compacts by the stock command, without a lock: the write is made again on what came of it."""
    for name in ("cats", "dogs", "birds"):
        await write_documents(db, IDENTITY, [document(name, f"{name} sleep")], fence=SoleWriter())
    replace, meddled = FencedTable.replace, False

    async def after_a_compaction(table: FencedTable, column: str, ids: list[str], *rows: Any) -> int:
        nonlocal meddled
        if table.name == "chunks" and not meddled:
            meddled = True
            async with open_rag(db, None) as other:
                dataset = await other.store.chunks_table.to_lance()
                dataset.optimize.compact_files()
                dataset.cleanup_old_versions(older_than=timedelta())
        return await replace(table, column, ids, *rows)

    monkeypatch.setattr(FencedTable, "replace", after_a_compaction)
    await write_documents(
        db, IDENTITY, [document("cats", "cats wake"), document("fish", "fish swim")], fence=SoleWriter()
    )
    assert meddled
    assert await counts(db) == (4, 4, 4)
    assert await uris(db, "wake", limit=1) == ["/shelf/cats.md"]


def test_a_lock_is_a_fence() -> None:
    fence: Fence = RagLock("rag:library", "cli:1")
    assert fence.key == "rag:library"
