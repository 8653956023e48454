"""Uploads: deduplicated content, versions of URIs, history, and many at the same time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from sqlmodel import select

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database, DocumentURI, HistoryAction
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.operations import deletion, recording, uploading
from soliplex.ingester.lib.operations.recording import Change, Uploaded
from soliplex.ingester.lib.operations.uploading import NewDocument
from soliplex.ingester.lib.storage import Artifacts, DocumentTooLargeError, Received, find_strays
from tests.support.documents import SOURCE, hash_of, new_batch, pieces, upload
from tests.support.engine import rows_of, scalar


async def stored_bytes(artifacts: Artifacts, doc_hash: str) -> bytes:
    return b"".join([block async for block in artifacts.read_document(doc_hash)])


async def assert_every_document_is_stored(artifacts: Artifacts) -> None:
    hashes = [row[0] for row in await rows_of("SELECT hash FROM document")]
    assert set((await artifacts.verify(hashes)).values()) <= {"ok"}
    assert not artifacts.spool.folder.exists() or not list(artifacts.spool.folder.iterdir())


async def test_a_new_document_has_bytes_a_row_a_uri_and_a_history(
    database: type[Database], artifacts: Artifacts
) -> None:
    batch_id = await new_batch()
    ingested = await upload("/a/report.txt", b"hello", batch_id, meta={"author": "me"})
    assert (ingested.doc_hash, ingested.version, ingested.change) == (hash_of(b"hello"), 1, Change.CREATED)
    assert await stored_bytes(artifacts, ingested.doc_hash) == b"hello"
    found = await documents.document_info(ingested.doc_hash)
    assert (found.document.mime_type, found.document.file_size, found.document.doc_meta) == (
        "text/plain",
        5,
        {"author": "me"},
    )
    assert [(uri.uri, uri.source, uri.version, uri.batch_id) for uri in found.uris] == [
        ("/a/report.txt", SOURCE, 1, batch_id)
    ]
    (event,) = await documents.document_history(ingested.doc_hash)
    assert (event.action, event.version, event.batch_id, event.doc_uri_id) == (
        HistoryAction.CREATED,
        1,
        batch_id,
        ingested.uri_id,
    )
    await assert_every_document_is_stored(artifacts)


async def test_the_same_again_changes_nothing(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    first = await upload("a", b"hello", batch_id)
    again = await upload("a", b"hello", batch_id)
    assert (again.change, again.uri_id, again.version) == (Change.NOTHING, first.uri_id, 1)
    assert len(await documents.document_history(first.doc_hash)) == 1
    await assert_every_document_is_stored(artifacts)


async def test_one_content_at_two_uris_is_one_document(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    first, second = await upload("a", b"hello", batch_id), await upload("b", b"hello", batch_id)
    assert first.doc_hash == second.doc_hash
    assert await scalar("SELECT count(*) FROM document") == 1
    assert len((await documents.document_info(first.doc_hash)).uris) == 2


async def test_new_content_is_a_new_version_in_the_batch_it_came_with(
    database: type[Database], artifacts: Artifacts
) -> None:
    first_batch, second_batch = await new_batch("one"), await new_batch("two")
    first = await upload("a", b"old", first_batch)
    second = await upload("a", b"new", second_batch)
    assert (second.change, second.version, second.uri_id) == (Change.UPDATED, 2, first.uri_id)
    assert (await documents.documents_of_batch(first_batch)).total == 0
    (uri,) = (await documents.documents_of_batch(second_batch)).items
    assert (uri.doc_hash, uri.version) == (second.doc_hash, 2)
    (updated,) = await documents.document_history(second.doc_hash)
    assert (updated.action, updated.version, updated.batch_id) == (HistoryAction.UPDATED, 2, second_batch)
    (created,) = await documents.document_history(first.doc_hash)
    assert (created.action, created.version, created.batch_id) == (HistoryAction.CREATED, 1, first_batch)


async def test_the_same_content_in_another_batch_moves_there(database: type[Database], artifacts: Artifacts) -> None:
    first_batch, second_batch = await new_batch("one"), await new_batch("two")
    await upload("a", b"hello", first_batch)
    moved = await upload("a", b"hello", second_batch)
    assert (moved.change, moved.batch_id, moved.version) == (Change.MOVED, second_batch, 1)
    assert (await documents.documents_of_batch(second_batch)).total == 1


async def test_metadata_is_merged(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    await upload("a", b"hello", batch_id, meta={"title": "old", "author": "me"})
    again = await upload("b", b"hello", batch_id, meta={"title": "new", "städte": ["Köln", None, 1.5]})
    found = await documents.document_info(again.doc_hash)
    assert found.document.doc_meta == {"title": "new", "author": "me", "städte": ["Köln", None, 1.5]}


async def test_what_steps_did_is_history_of_every_uri(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    first = await upload("a", b"hello", batch_id)
    await upload("b", b"hello", batch_id)
    assert await documents.record_history(first.doc_hash, HistoryAction.PARSED, meta={"pages": 2}) == 2
    actions = Counter(event.action for event in await documents.document_history(first.doc_hash))
    assert actions == {HistoryAction.CREATED: 2, HistoryAction.PARSED: 2}


@pytest.mark.parametrize(
    ("field", "new"),
    [
        ("source_uri", NewDocument(uri="", source="s", batch_id=1)),
        ("source_uri", NewDocument(uri="a\x00b", source="s", batch_id=1)),
        ("source_uri", NewDocument(uri="x" * 2049, source="s", batch_id=1)),
        ("source", NewDocument(uri="a", source="ä" * 128, batch_id=1)),
        ("doc_meta", NewDocument(uri="a", source="s", batch_id=1, meta={"x": "a\x00b"})),
        ("doc_meta", NewDocument(uri="a", source="s", batch_id=1, meta={"x": float("nan")})),
        ("doc_meta", NewDocument(uri="a", source="s", batch_id=1, meta={"\udfff": 1})),
        ("mime_type", NewDocument(uri="a", source="s", batch_id=1, mime_type="x" * 300)),
    ],
)
async def test_what_cannot_be_stored_is_refused_by_field_and_leaves_nothing(
    database: type[Database], artifacts: Artifacts, field: str, new: NewDocument
) -> None:
    await new_batch()
    with pytest.raises(InvalidInputError) as caught:
        await documents.upload_document(pieces(b"hello"), new)
    assert caught.value.field == field
    received = await artifacts.receive(pieces(b"hello"), limit=None)
    with pytest.raises(InvalidInputError):
        await documents.upload_received(received, new)
    assert not received.path.exists()
    assert await scalar("SELECT count(*) FROM document") == 0


async def test_the_longest_uri_fits_into_the_index(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    uri = "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(682))  # hardly compressible
    ingested = await upload(uri, b"hello", batch_id, source="ä" * 127)
    assert ingested.change is Change.CREATED


async def test_an_unknown_batch_is_noticed_before_any_byte_is_read(
    database: type[Database], artifacts: Artifacts
) -> None:
    async def unread() -> AsyncIterator[bytes]:
        raise AssertionError("was read")
        yield b""

    with pytest.raises(NotFoundError, match="batch 99"):
        await documents.upload_document(unread(), NewDocument(uri="a", source="s", batch_id=99))


async def test_too_large_a_document_leaves_nothing(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    new = NewDocument(uri="a", source="s", batch_id=batch_id)
    with pytest.raises(DocumentTooLargeError):
        await documents.upload_document(pieces(b"x" * 60, b"x" * 60), new, limit=100)
    assert await scalar("SELECT count(*) FROM documenturi") == 0
    await assert_every_document_is_stored(artifacts)


async def test_uploads_of_one_uri_at_once_each_make_a_version(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    made = await asyncio.gather(*(upload("a", f"version {number}".encode(), batch_id) for number in range(10)))
    assert sorted(each.version for each in made) == list(range(1, 11))
    assert Counter(each.change for each in made) == {Change.CREATED: 1, Change.UPDATED: 9}
    last = max(made, key=lambda each: each.version)
    (uri,) = (await documents.documents_of_batch(batch_id)).items
    assert (uri.doc_hash, uri.version) == (last.doc_hash, 10)
    assert await scalar("SELECT count(*) FROM documenturihistory") == 10
    await assert_every_document_is_stored(artifacts)


async def test_uploads_of_one_content_at_once_make_one_document(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    made = await asyncio.gather(
        *(upload(f"uri {number}", b"same", batch_id, meta={str(number): number}) for number in range(10))
    )
    assert len({each.doc_hash for each in made}) == 1
    found = await documents.document_info(made[0].doc_hash)
    assert found.document.doc_meta == {str(number): number for number in range(10)}
    assert len(found.uris) == 10
    await assert_every_document_is_stored(artifacts)


async def test_the_same_uri_and_content_at_once_is_one_version(database: type[Database], artifacts: Artifacts) -> None:
    batch_id = await new_batch()
    made = await asyncio.gather(*(upload("a", b"same", batch_id) for _ in range(8)))
    assert Counter(each.change for each in made) == {Change.CREATED: 1, Change.NOTHING: 7}
    await assert_every_document_is_stored(artifacts)


async def test_uploads_at_once_are_recorded_together_and_each_for_itself(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id, other = await new_batch(), await new_batch()
    await upload("changed", b"old", batch_id)
    await upload("moved", b"moved", other)
    await upload("same", b"same", batch_id, meta={"a": 1, "b": 1})
    groups: list[int] = []
    script = recording.recorded

    def counted(arrivals: Sequence[recording.Arrival], *args: Any, **options: Any) -> Any:
        groups.append(len(arrivals))
        return script(arrivals, *args, **options)

    monkeypatch.setattr(recording, "recorded", counted)
    arrivals = [
        arrival("changed", b"new", batch_id),
        arrival("moved", b"moved", batch_id),
        arrival("same", b"same", batch_id, meta={"b": 2}),
        arrival("nowhere", b"nowhere", 99),
        *(arrival(f"uri {number}", f"content {number}".encode(), batch_id) for number in range(10)),
        arrival("changed", b"newer", batch_id),
        arrival("another", b"new", batch_id),
    ]
    made = await asyncio.gather(*map(recording.record, arrivals), return_exceptions=True)
    assert groups == [14, 2]
    assert isinstance(made[3], NotFoundError)
    changes = [each.change for each in made if isinstance(each, Uploaded)]
    created, updated = Change.CREATED, Change.UPDATED
    assert changes == [updated, Change.MOVED, Change.NOTHING, *[created] * 10, updated, created]
    assert [each.version for each in made if isinstance(each, Uploaded) and each.uri == "changed"] == [2, 3]
    assert await scalar("SELECT count(*) FROM documenturi") == 14
    assert await scalar("SELECT count(*) FROM documenturihistory") == 3 + 13
    assert await scalar("SELECT count(*) FROM document WHERE hash = '" + hash_of(b"nowhere") + "'") == 0
    found = await documents.document_info(hash_of(b"same"))
    assert found.document.doc_meta == {"a": 1, "b": 2}


async def test_a_document_that_spoils_its_group_spoils_nothing_but_itself(
    database: type[Database], artifacts: Artifacts
) -> None:
    batch_id = await new_batch()
    good = [arrival(f"uri {number}", f"content {number}".encode(), batch_id) for number in range(4)]
    bad = replace(arrival("bad", b"bad", batch_id), size=-1)
    made = await asyncio.gather(*map(recording.record, [*good, bad]), return_exceptions=True)
    assert [type(each) for each in made[:4]] == [Uploaded] * 4
    assert isinstance(made[4], asyncpg.CheckViolationError | sqlite3.IntegrityError)
    assert await scalar("SELECT count(*) FROM documenturi") == 4


async def test_uploads_do_not_wait_for_one_that_must_wait(database: type[Database], artifacts: Artifacts) -> None:
    if not Database.is_postgres():
        pytest.skip("SQLite has one writer, for whom all wait")
    batch_id = await new_batch()
    await upload("held", b"old", batch_id)
    async with Database.session() as session:
        await session.exec(select(DocumentURI).where(DocumentURI.uri == "held").with_for_update())
        waiting = asyncio.create_task(upload("held", b"new", batch_id))
        others = await asyncio.gather(*(upload(f"uri {n}", f"content {n}".encode(), batch_id) for n in range(5)))
        assert [each.change for each in others] == [Change.CREATED] * 5
        assert not waiting.done()
    assert (await waiting).change is Change.UPDATED
    await assert_every_document_is_stored(artifacts)


async def test_deleting_and_uploading_at_once_never_loses_bytes_of_a_document(
    database: type[Database], artifacts: Artifacts
) -> None:
    batch_id = await new_batch()
    await upload("0", b"contested", batch_id)

    async def delete(uri: str) -> None:
        # It may be deleted before it is uploaded.
        with suppress(documents.DocumentURINotFoundError):
            await documents.delete_document_uri_by_uri(uri, SOURCE)

    for number in range(1, 9):
        await asyncio.gather(
            delete(str(number - 1)), upload(str(number), b"contested", batch_id), delete(str(number - 2))
        )
    await assert_every_document_is_stored(artifacts)
    assert await stored_bytes(artifacts, hash_of(b"contested")) == b"contested"


def arrival(uri: str, content: bytes, batch_id: int, meta: dict[str, Any] | None = None) -> recording.Arrival:
    return recording.Arrival(
        doc_hash=hash_of(content),
        size=len(content),
        mime_type="text/plain",
        uri=uri,
        source=SOURCE,
        batch_id=batch_id,
        meta=meta or {},
    )


class PausedAt:
    """Lets a call wait at its beginning until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.reached, self.may_go = asyncio.Event(), asyncio.Event()
        original = getattr(owner, name)

        async def paused(*args: object, **options: object) -> object:
            self.reached.set()
            await self.may_go.wait()
            return await original(*args, **options)

        monkeypatch.setattr(owner, name, paused)


async def test_an_upload_waits_for_a_removal_that_has_begun(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    await upload("a", b"contested", batch_id)
    pause = PausedAt(monkeypatch, artifacts, "delete_all")
    deleting = asyncio.create_task(documents.delete_document_uri_by_uri("a", SOURCE))
    await pause.reached.wait()

    looked_again = asyncio.Event()
    original = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if asyncio.current_task() is deleting:
            await original(seconds)
        else:
            looked_again.set()
            await asyncio.wait([deleting])

    monkeypatch.setattr(uploading.asyncio, "sleep", sleep)
    arriving = asyncio.create_task(upload("b", b"contested", batch_id))
    await looked_again.wait()
    pause.may_go.set()
    await deleting
    assert (await arriving).change is Change.CREATED
    await assert_every_document_is_stored(artifacts)


async def test_bytes_that_a_removal_took_before_the_rows_are_kept_once_more(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    await upload("a", b"contested", batch_id)
    original = artifacts.keep_copy

    async def keep_and_lose(received: Received) -> None:
        monkeypatch.setattr(artifacts, "keep_copy", original)
        await original(received)
        await documents.delete_document_uri_by_uri("a", SOURCE)
        assert not await artifacts.has_document(received.hash)

    monkeypatch.setattr(artifacts, "keep_copy", keep_and_lose)
    assert (await upload("b", b"contested", batch_id)).change is Change.CREATED
    await assert_every_document_is_stored(artifacts)


async def test_content_that_came_back_is_not_removed(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    first = await upload("a", b"contested", batch_id)

    async def later(removals: object) -> int:
        return 0

    monkeypatch.setattr(deletion, "finish_removals", later)
    await documents.delete_document_uri_by_uri("a", SOURCE)
    await upload("b", b"contested", batch_id)
    assert await documents.finish_removals() == 1
    assert await scalar("SELECT count(*) FROM documentremoval") == 0
    assert await stored_bytes(artifacts, first.doc_hash) == b"contested"


async def test_a_crash_before_the_rows_leaves_bytes_that_a_clean_up_finds(
    database: type[Database], artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()

    class CrashError(Exception):
        pass

    def crash(*args: object, **options: object) -> object:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(recording, "recorded", crash)
        with pytest.raises(CrashError):
            await upload("a", b"hello", batch_id)
    assert await artifacts.has_document(hash_of(b"hello"))
    later = utcnow() + timedelta(days=2)
    assert [stray.size async for stray in find_strays(artifacts, now=later)] == [5]

    monkeypatch.setattr(deletion, "find_strays", lambda store: find_strays(store, now=later))
    statistics = await documents.cleanup_orphans()
    assert statistics == {"deleted_documents": 0, "deleted_history": 0, "deleted_versions": 0, "deleted_strays": 1}
    assert not await artifacts.has_document(hash_of(b"hello"))
