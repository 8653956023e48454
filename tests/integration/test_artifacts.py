"""Documents and artifacts on real stores, plain and compressed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from soliplex.ingester.lib.config import get_settings, load_settings
from soliplex.ingester.lib.errors import ConfigurationError, NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Database, Document
from soliplex.ingester.lib.storage import (
    Artifacts,
    DocumentTooLargeError,
    Integrity,
    NoRoomError,
    StoreUnavailableError,
    Stray,
    StrayKind,
    envelope,
    find_strays,
    get_artifacts,
    open_artifacts,
    remove_strays,
)
from soliplex.ingester.lib.storage.artifacts import LARGEST_HELD
from soliplex.ingester.lib.storage.blobs import BLOCK
from tests.support.s3 import S3Server, open_s3_server

TEXT = b"# All work and no play\n" * 120_000
"""Several blocks, and easily compressed."""
NOW = timedelta(0)


def hash_of(content: bytes) -> str:
    return f"sha256-{hashlib.sha256(content).hexdigest()}"


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


async def store(artifacts: Artifacts, content: bytes) -> str:
    received = await artifacts.receive(pieces(content), limit=None)
    await artifacts.keep(received)
    return received.hash


async def read(artifacts: Artifacts, doc_hash: str) -> bytes:
    return b"".join([block async for block in artifacts.read_document(doc_hash)])


def spools(artifacts: Artifacts) -> list[Path]:
    return list(artifacts.spool.folder.glob("*"))


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with open_s3_server() as server:
        yield server


@pytest.fixture(params=["fs", "db", "s3"])
def target(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = {"file_store_target": request.param}
    if request.param == "s3":
        found["artifact_s3"] = request.getfixturevalue("s3_server").new_bucket()
    return found


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    shutil.copy(sqlite_template, tmp_path / "documents.db")
    return f"sqlite+aiosqlite:///{tmp_path / 'documents.db'}"


@pytest.fixture(params=["none", "zstd"])
async def artifacts(
    request: pytest.FixtureRequest, target: dict[str, Any], sqlite_url: str
) -> AsyncIterator[Artifacts]:
    await Database.initialize(sqlite_url)
    opened = open_artifacts(load_settings(**target, file_store_compression=request.param))
    yield opened
    await opened.close()
    await Database.close()


@pytest.fixture
async def folder(sqlite_url: str) -> AsyncIterator[Artifacts]:
    """Artifacts in a folder, uncompressed, as by default."""
    await Database.initialize(sqlite_url)
    yield get_artifacts()
    await Database.close()


@pytest.mark.parametrize("content", [b"", b"x", TEXT, os.urandom(100_000)], ids=["empty", "one", "text", "noise"])
async def test_a_document_comes_back_as_it_went_in(artifacts: Artifacts, content: bytes) -> None:
    received = await artifacts.receive(
        pieces(*(content[at : at + 70_000] for at in range(0, len(content), 70_000))), limit=None
    )
    assert (received.hash, received.size) == (hash_of(content), len(content))
    assert content.startswith(received.head)
    assert received.path.read_bytes() == content
    assert await artifacts.keep(received)
    assert spools(artifacts) == []
    assert await read(artifacts, received.hash) == content
    assert await artifacts.document_size(received.hash) == len(content)
    assert await artifacts.has_document(received.hash)
    async with artifacts.document_file(received.hash) as path:
        assert path.read_bytes() == content
    assert spools(artifacts) == []


async def test_the_same_document_is_kept_once(artifacts: Artifacts) -> None:
    first, second = [await artifacts.receive(pieces(TEXT), limit=None) for _ in range(2)]
    assert await artifacts.keep(first)
    assert not await artifacts.keep(second)
    assert spools(artifacts) == []
    assert [blob.key async for blob in artifacts.store.list("")] == [artifacts.layout.document(first.hash)]


async def test_a_spool_stays_until_its_document_is_seen_to_be_kept(artifacts: Artifacts) -> None:
    received = await artifacts.receive(pieces(TEXT), limit=None)
    assert not await artifacts.release(received)
    for _ in range(2):
        await artifacts.keep_copy(received)
        assert spools(artifacts) == [received.path]
        assert await read(artifacts, received.hash) == TEXT
    await artifacts.delete(received.hash, [])
    assert not await artifacts.release(received)
    await artifacts.keep_copy(received)
    assert await artifacts.release(received)
    assert spools(artifacts) == []
    assert await read(artifacts, received.hash) == TEXT


@pytest.mark.parametrize("content", [b"", b"x", b"x" * LARGEST_HELD], ids=["empty", "one", "largest"])
async def test_a_small_document_is_held_and_written_once(artifacts: Artifacts, content: bytes) -> None:
    received = await artifacts.receive(pieces(content), limit=None, hold=True)
    is_held = artifacts.store.capabilities.group_writes is not None and not spools(artifacts)
    assert (received.hash, received.size, received.held) == (
        hash_of(content),
        len(content),
        content if is_held else None,
    )
    assert not await artifacts.release(received)
    for _ in range(2):
        await artifacts.keep_copy(received)
        assert await read(artifacts, received.hash) == content
    await artifacts.delete(received.hash, [])
    assert not await artifacts.release(received)
    await artifacts.keep_copy(received)
    assert await artifacts.release(received)
    assert spools(artifacts) == []
    assert await read(artifacts, received.hash) == content


async def test_a_document_that_is_not_small_is_not_held(folder: Artifacts) -> None:
    received = await folder.receive(pieces(b"x" * LARGEST_HELD, b"x"), limit=None, hold=True)
    assert received.held is None
    assert spools(folder) == [received.path]


async def test_a_held_document_can_be_put_into_a_file_and_kept(folder: Artifacts) -> None:
    held = await folder.receive(pieces(b"hello"), limit=None, hold=True)
    spooled = await folder.as_file(held)
    assert (spooled.held, spooled.path.read_bytes()) == (None, b"hello")
    assert await folder.as_file(spooled) is spooled
    await folder.discard(spooled)
    assert await folder.keep(held)
    assert spools(folder) == []
    assert await folder.verify([held.hash]) == {held.hash: Integrity.OK}


async def test_many_held_documents_are_kept_together_and_one_that_fails_fails_alone(folder: Artifacts) -> None:
    contents = [str(number).encode() for number in range(20)]
    received = [await folder.receive(pieces(content), limit=None, hold=True) for content in contents]
    files = folder.store.capabilities.local_files
    assert files is not None
    # A folder stands where the first is to be, and other bytes where the second is.
    files.path_of(folder.layout.document(received[0].hash)).mkdir(parents=True)
    await folder.store.put(folder.layout.document(received[1].hash), b"damaged")
    outcomes = await asyncio.gather(*map(folder.keep_copy, [*received, received[5]]), return_exceptions=True)
    assert isinstance(outcomes[0], StoreUnavailableError)
    assert outcomes[1:] == [None] * 20
    found = await folder.verify([each.hash for each in received[1:]])
    assert set(found.values()) == {Integrity.OK}
    assert spools(folder) == []


async def test_held_documents_leave_the_last_of_the_disk_free(
    folder: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = await folder.receive(pieces(b"hello"), limit=None, hold=True)
    free = get_settings().file_store_reserve + 4
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=free))
    with pytest.raises(NoRoomError):
        await folder.keep_copy(received)
    assert not await folder.has_document(received.hash)


async def test_what_looks_like_an_envelope_is_packed_though_it_was_held(folder: Artifacts) -> None:
    content = envelope.compress(b"an envelope in an envelope" * 100)
    received = await folder.receive(pieces(content), limit=None, hold=True)
    await folder.keep_copy(received)
    assert await read(folder, received.hash) == content
    assert spools(folder) == []


async def test_keys_are_those_of_the_specification(artifacts: Artifacts) -> None:
    doc_hash = await store(artifacts, b"hello")
    await artifacts.write(doc_hash, ArtifactType.PARSED_MD, 17, b"# hello")
    last = doc_hash[-2:]
    keys = {blob.key async for blob in artifacts.store.list("")}
    assert keys == {f"raw/{last}/{doc_hash}", f"markdown/17/{last}/{doc_hash}"}


async def test_artifacts_are_kept_by_kind_and_config(artifacts: Artifacts) -> None:
    doc_hash = await store(artifacts, b"hello")
    for config in (1, 2):
        for kind in (ArtifactType.CHUNKS, ArtifactType.CUSTOM):
            await artifacts.write(doc_hash, kind, config, f"{kind} {config}".encode() * 1000)
    assert await artifacts.read(doc_hash, ArtifactType.CHUNKS, 2) == b"chunks 2" * 1000
    await artifacts.write(doc_hash, ArtifactType.CHUNKS, 2, b"new")
    assert await artifacts.read(doc_hash, ArtifactType.CHUNKS, 2) == b"new"
    assert await artifacts.has(doc_hash, ArtifactType.CUSTOM, 1)
    assert not await artifacts.has(doc_hash, ArtifactType.EMBEDDINGS, 1)
    with pytest.raises(NotFoundError, match="artifact embeddings of step config 1"):
        await artifacts.read(doc_hash, ArtifactType.EMBEDDINGS, 1)


async def test_deleting_takes_the_document_and_what_its_configs_made(artifacts: Artifacts) -> None:
    doc_hash, other = await store(artifacts, b"one"), await store(artifacts, b"two")
    for each in (doc_hash, other):
        for config in (1, 2, 3):
            await artifacts.write(each, ArtifactType.PARSED_JSON, config, b"{}")
    assert await artifacts.delete(doc_hash, [1, 2]) == 3
    assert await artifacts.has(doc_hash, ArtifactType.PARSED_JSON, 3)
    assert await artifacts.delete_all(doc_hash) == 1
    assert await artifacts.delete_all(doc_hash) == 0
    assert await artifacts.delete_all(other) == 4
    assert [blob async for blob in artifacts.store.list("")] == []


async def test_many_documents_are_deleted_at_once(artifacts: Artifacts) -> None:
    hashes = [await store(artifacts, str(number).encode()) for number in range(20)]
    large = await store(artifacts, os.urandom(5 * BLOCK))
    assert await artifacts.delete_all(large, *hashes[:15], *(hash_of(b"absent") for _ in range(300))) == 16
    assert {blob.key async for blob in artifacts.store.list("")} == set(map(artifacts.layout.document, hashes[15:]))
    with pytest.raises(NotFoundError):
        await artifacts.delete_all("../x")


async def test_what_is_missing_or_damaged_is_told(artifacts: Artifacts) -> None:
    whole, damaged, cut = [await store(artifacts, content) for content in (TEXT, TEXT + b"1", TEXT + b"2")]
    for doc_hash in (damaged, cut):
        key = artifacts.layout.document(doc_hash)
        stored = b"".join([block async for block in artifacts.store.read(key)])
        wrong = stored[:-9] if doc_hash == cut else stored[:-9] + b"?" + stored[-8:]
        await artifacts.store.put(key, wrong)
    missing = hash_of(b"never stored")
    expected = {whole: "ok", damaged: "damaged", cut: "damaged", missing: "missing"}
    assert await artifacts.verify(expected) == expected
    shallow = await artifacts.verify(expected, deep=False)
    assert shallow == {whole: "ok", damaged: "ok", cut: "ok", missing: "missing"}
    assert set(shallow.values()) <= set(Integrity)


async def test_uploading_again_heals_a_document_of_the_wrong_size(artifacts: Artifacts) -> None:
    doc_hash = await store(artifacts, TEXT)
    await artifacts.store.put(artifacts.layout.document(doc_hash), b"a rest")
    assert await artifacts.keep(await artifacts.receive(pieces(TEXT), limit=None))
    assert await artifacts.verify([doc_hash]) == {doc_hash: Integrity.OK}


async def test_a_document_that_is_not_there_is_not_found(artifacts: Artifacts) -> None:
    doc_hash = hash_of(b"never stored")
    assert await artifacts.document_size(doc_hash) is None
    assert not await artifacts.has_document(doc_hash)
    with pytest.raises(NotFoundError, match="document 'sha256-"):
        await read(artifacts, doc_hash)
    with pytest.raises(NotFoundError, match="document 'sha256-"):
        async with artifacts.document_file(doc_hash):
            pass
    assert spools(artifacts) == []


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "sha256-", "sha256-../x", f"sha256-{'A' * 64}", "md5-" + "a" * 32]
)
async def test_what_is_no_hash_names_no_document(folder: Artifacts, name: str) -> None:
    with pytest.raises(NotFoundError):
        await folder.has_document(name)
    with pytest.raises(NotFoundError):
        await folder.write(name, ArtifactType.CHUNKS, 1, b"x")


async def test_compression_can_be_switched_at_any_time(target: dict[str, Any], sqlite_url: str) -> None:
    await Database.initialize(sqlite_url)
    plain = open_artifacts(load_settings(**target))
    packed = open_artifacts(load_settings(**target, file_store_compression="zstd"))
    old, new = await store(plain, TEXT), await store(packed, TEXT + b"!")
    assert await plain.store.size(plain.layout.document(old)) == len(TEXT)
    assert (await packed.store.size(packed.layout.document(new)) or 0) < len(TEXT) / 10
    for artifacts in (plain, packed):
        assert await read(artifacts, old) == TEXT
        assert await read(artifacts, new) == TEXT + b"!"
        assert not await artifacts.keep(await artifacts.receive(pieces(TEXT), limit=None))
        assert not await artifacts.keep(await artifacts.receive(pieces(TEXT, b"!"), limit=None))
    await Database.close()


async def test_a_blob_of_another_store_is_a_document_like_any_other(folder: Artifacts) -> None:
    packed = open_artifacts(load_settings(file_store_compression="zstd"))
    doc_hash = await store(packed, TEXT)
    blob = b"".join([block async for block in packed.store.read(packed.layout.document(doc_hash))])
    assert await read(folder, await store(folder, blob)) == blob
    await folder.write(doc_hash, ArtifactType.CUSTOM, 1, blob)
    assert await folder.read(doc_hash, ArtifactType.CUSTOM, 1) == blob


async def test_a_folder_gives_its_own_file(folder: Artifacts) -> None:
    doc_hash = await store(folder, b"hello")
    async with folder.document_file(doc_hash) as path:
        assert path == get_settings().file_store_dir / "raw" / doc_hash[-2:] / doc_hash
    assert path.exists()


async def test_the_limit_is_the_last_size_that_is_taken(folder: Artifacts) -> None:
    assert (await folder.receive(pieces(b"12345", b"67890"), limit=10)).size == 10
    with pytest.raises(DocumentTooLargeError) as caught:
        await folder.receive(pieces(b"12345", b"67890"), limit=9)
    assert caught.value.limit == 9
    assert len(spools(folder)) == 1


async def test_nothing_is_read_beyond_the_limit(folder: Artifacts) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += BLOCK
            yield bytes(BLOCK)

    with pytest.raises(DocumentTooLargeError):
        await folder.receive(endless(), limit=3 * BLOCK)
    assert taken == 4 * BLOCK
    assert spools(folder) == []


async def test_a_size_that_is_announced_is_refused_before_anything_is_read(folder: Artifacts) -> None:
    async def untouched() -> AsyncIterator[bytes]:
        pytest.fail("it was read")
        yield b""

    with pytest.raises(DocumentTooLargeError):
        await folder.receive(untouched(), limit=10, expected=11)
    with pytest.raises(NoRoomError):
        await folder.receive(untouched(), limit=None, expected=1 << 60)
    assert spools(folder) == []


async def test_the_last_of_the_disk_is_left_free(folder: Artifacts, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = get_settings().file_store_reserve
    free = iter([reserve + 5 * BLOCK, reserve + BLOCK, reserve + BLOCK - 1])
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=next(free)))
    with pytest.raises(NoRoomError) as caught:
        await folder.receive(pieces(*[bytes(BLOCK)] * 3), limit=None)
    assert caught.value.limit == BLOCK - 1
    assert isinstance(caught.value, DocumentTooLargeError)
    assert spools(folder) == []


@pytest.mark.parametrize("error", [ConnectionError("gone"), asyncio.CancelledError()])
async def test_an_upload_that_breaks_off_leaves_nothing(folder: Artifacts, error: BaseException) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(2 * BLOCK)
        yield bytes(2 * BLOCK)
        raise error

    with pytest.raises(type(error)):
        await folder.receive(broken(), limit=None)
    assert spools(folder) == []


async def test_a_cancelled_upload_leaves_nothing(folder: Artifacts) -> None:
    begun = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield bytes(BLOCK)
        yield bytes(BLOCK)
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(folder.receive(stalled(), limit=None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert spools(folder) == []


def open_files(name: str) -> list[Path]:
    return [path for link in Path("/proc/self/fd").iterdir() if name in (path := link.resolve()).name]


async def test_a_reader_that_stops_early_leaves_no_file_open(folder: Artifacts) -> None:
    doc_hash = await store(folder, TEXT)
    async with aclosing(folder.read_document(doc_hash)) as blocks:
        await anext(blocks)
    assert open_files(doc_hash) == []


async def test_memory_stays_flat(folder: Artifacts) -> None:
    import tracemalloc

    async def large() -> AsyncIterator[bytes]:
        for _ in range(256):
            yield bytes(BLOCK)

    tracemalloc.start()
    received = await folder.receive(large(), limit=None)
    await folder.keep(received)
    async for _ in folder.read_document(received.hash):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * BLOCK


async def test_a_folder_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    artifacts = open_artifacts(load_settings(file_store_dir=tmp_path / "file" / "store"))
    with pytest.raises(StoreUnavailableError, match="the fs store does not work: File exists"):
        await artifacts.check()
    with pytest.raises(StoreUnavailableError):
        await artifacts.receive(pieces(b"x"), limit=None)


async def test_a_bucket_that_cannot_be_reached_is_told_of(s3_server: S3Server) -> None:
    gone = s3_server.new_bucket().model_copy(update={"bucket": "no-such-bucket"})
    artifacts = open_artifacts(load_settings(file_store_target="s3", artifact_s3=gone))
    with pytest.raises(StoreUnavailableError, match=r"the s3 store does not work: .*NoSuchBucket"):
        await artifacts.store.put("raw/aa/x", b"x")


async def test_the_store_in_order_says_so(artifacts: Artifacts) -> None:
    await artifacts.check()


def test_another_service_needs_its_options() -> None:
    with pytest.raises(ConfigurationError, match=r"FILE_STORE_OPTIONS: .*container"):
        open_artifacts(load_settings(file_store_target="azblob"))
    options = '{"container": "documents", "endpoint": "http://127.0.0.1:9"}'
    open_artifacts(load_settings(file_store_target="azblob", file_store_options=options))


async def test_artifacts_are_opened_anew_with_the_settings(folder: Artifacts, tmp_path: Path) -> None:
    assert get_artifacts() is folder
    get_settings.cache_clear()
    assert get_artifacts() is not folder


async def test_strays_are_spools_and_blobs_without_rows(artifacts: Artifacts) -> None:
    known, unknown = await store(artifacts, b"known"), await store(artifacts, b"unknown")
    for doc_hash in (known, unknown):
        await artifacts.write(doc_hash, ArtifactType.CHUNKS, 1, b"[]")
    await artifacts.store.put("raw/aa/not-ours", b"x")
    left = await artifacts.receive(pieces(b"left"), limit=None)
    async with Database.session() as session:
        session.add(Document(hash=known, mime_type="text/plain"))
    strays = [stray async for stray in find_strays(artifacts, older_than=NOW - timedelta(seconds=5))]
    assert {(stray.kind, stray.key) for stray in strays} == {
        (StrayKind.SPOOL, left.path.name),
        (StrayKind.BLOB, artifacts.layout.document(unknown)),
        (StrayKind.BLOB, artifacts.layout.artifact(unknown, ArtifactType.CHUNKS, 1)),
    }
    assert await remove_strays(artifacts, strays) == 3
    assert await remove_strays(artifacts, strays) == 0
    assert not await artifacts.has_document(unknown)
    assert await artifacts.verify([known]) == {known: Integrity.OK}


async def test_what_is_young_is_no_stray(folder: Artifacts) -> None:
    await store(folder, b"just arrived")
    await folder.receive(pieces(b"arriving"), limit=None)
    assert [stray async for stray in find_strays(folder)] == []
    old = timedelta(hours=-1)
    assert len([stray async for stray in find_strays(folder, older_than=old)]) == 2


async def test_many_strays_are_found(folder: Artifacts) -> None:
    for number in range(1200):
        doc_hash = hash_of(str(number).encode())
        path = get_settings().file_store_dir / folder.layout.document(doc_hash)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    strays: list[Stray] = [stray async for stray in find_strays(folder, older_than=timedelta(seconds=-5))]
    assert len(strays) == 1200
