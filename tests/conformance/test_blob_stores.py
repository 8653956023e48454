"""What every store of bytes does, on every store; what a capability promises, on every store that declares it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import override

import pytest
from sqlmodel import select

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Database, DocumentBytes
from soliplex.ingester.lib.storage import BlobStore, InvalidKeyError, StorageError, StoreUnavailableError
from soliplex.ingester.lib.storage.blobs import BLOCK, Capabilities, GroupLookups, GroupWrites, LocalFiles, NameIndex
from soliplex.ingester.lib.storage.database_blobs import DatabaseBlobs
from soliplex.ingester.lib.storage.fs import FolderBlobs
from soliplex.ingester.lib.storage.memory import MemoryBlobs
from soliplex.ingester.lib.storage.objects import ObjectBlobs, open_operator, s3_options
from tests.support.s3 import S3Server, open_s3_server

STORES = [
    "memory",
    "fs",
    "s3",
    "opendal",
    pytest.param("db-sqlite", marks=pytest.mark.sqlite),
    pytest.param("db-postgres", marks=pytest.mark.postgres),
]
KEY = "raw/3f/sha256-003f"
LARGE = bytes(range(256)) * (9 * BLOCK // 256) + b"the end"


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with open_s3_server() as server:
        yield server


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore | str:
    """A store, or the URL of the database that is to be one."""
    match request.param:
        case "memory":
            return MemoryBlobs()
        case "fs":
            return FolderBlobs(tmp_path / "store")
        case "s3":
            server: S3Server = request.getfixturevalue("s3_server")
            options = s3_options(server.new_bucket(), "some/prefix")
            return ObjectBlobs("s3", open_operator("s3", options, setting="ARTIFACT_S3"))
        case "opendal":
            options = {"root": str(tmp_path / "store"), "atomic_write_dir": str(tmp_path / "waiting")}
            return ObjectBlobs("fs", open_operator("fs", options, setting="FILE_STORE_OPTIONS"))
        case "db-postgres":
            return request.getfixturevalue("postgres_url")
        case _:
            shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "documents.db")
            return f"sqlite+aiosqlite:///{tmp_path / 'documents.db'}"


@pytest.fixture
async def store(opened: BlobStore | str) -> AsyncIterator[BlobStore]:
    if not isinstance(opened, str):
        yield opened
        return
    await Database.initialize(opened)
    yield DatabaseBlobs({"raw": ArtifactType.DOC, "markdown": ArtifactType.PARSED_MD})
    await Database.close()


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[[bytes], Path]:
    """Files that can be handed over; on the file system of the folder store, as its spool is."""
    numbers = iter(range(1000))

    def write(content: bytes) -> Path:
        path = tmp_path / f"file-{next(numbers)}"
        path.write_bytes(content)
        return path

    return write


async def content_of(store: BlobStore, key: str) -> bytes:
    return b"".join([block async for block in store.read(key)])


async def keys_of(store: BlobStore, prefix: str = "") -> dict[str, int]:
    return {blob.key: blob.size async for blob in store.list(prefix)}


@pytest.mark.parametrize("content", [b"", b"x", b"\x00\xff\n" * 100, LARGE], ids=["empty", "one", "binary", "large"])
async def test_what_was_put_is_read(store: BlobStore, content: bytes, file_of: Callable[[bytes], Path]) -> None:
    await store.put("raw/aa/bytes", content)
    await store.put_file("raw/aa/file", file_of(content))
    assert await content_of(store, "raw/aa/bytes") == content
    assert await content_of(store, "raw/aa/file") == content
    assert await store.size("raw/aa/bytes") == len(content)
    assert await store.size("raw/aa/file") == len(content)


async def test_a_second_link_to_a_stored_file_is_handed_over_too(store: BlobStore, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"hello")
    second.hardlink_to(first)
    await store.put_file(KEY, first)
    await store.put_file(KEY, second)
    assert not second.exists()
    assert await content_of(store, KEY) == b"hello"


class FailingFile(BytesIO):
    """Reads one part, and then no more."""

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError("the disk is broken")
        return super().read(size)


async def test_a_file_that_was_stored_is_handed_over(store: BlobStore, file_of: Callable[[bytes], Path]) -> None:
    path = file_of(b"hello")
    await store.put_file(KEY, path)
    assert not path.exists()


async def test_a_file_that_cannot_be_read_to_its_end_is_not_stored(
    store: BlobStore, file_of: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(LARGE)
    if isinstance(store, FolderBlobs):
        monkeypatch.setattr("soliplex.ingester.lib.storage.fs.sync", _refuse)
    monkeypatch.setattr(Path, "read_bytes", _refuse)
    monkeypatch.setattr(Path, "open", lambda *_args, **_options: FailingFile(LARGE))
    with pytest.raises((OSError, StorageError)):
        await store.put_file(KEY, path)
    monkeypatch.undo()
    assert await store.size(KEY) is None
    assert await keys_of(store) == {}
    assert path.exists()


def _refuse(_path: Path) -> None:
    raise OSError("the disk is broken")


async def test_a_large_blob_is_read_in_pieces(store: BlobStore) -> None:
    await store.put(KEY, LARGE)
    sizes = [len(block) async for block in store.read(KEY)]
    assert sum(sizes) == len(LARGE)
    assert max(sizes) <= 4 * BLOCK


async def test_putting_again_replaces(store: BlobStore, file_of: Callable[[bytes], Path]) -> None:
    await store.put(KEY, LARGE)
    await store.put_file(KEY, file_of(b"short"))
    assert await content_of(store, KEY) == b"short"
    assert await keys_of(store) == {KEY: 5}
    await store.put_file(KEY, file_of(LARGE))
    assert await content_of(store, KEY) == LARGE


async def test_putting_the_same_at_the_same_time_is_harmless(
    store: BlobStore, file_of: Callable[[bytes], Path]
) -> None:
    await asyncio.gather(*(store.put_file(KEY, file_of(LARGE)) for _ in range(4)))
    assert await content_of(store, KEY) == LARGE
    assert await keys_of(store) == {KEY: len(LARGE)}


async def test_all_that_is_put_at_the_same_time_is_there(store: BlobStore) -> None:
    contents = {f"raw/{number % 7}/{number}": bytes([number]) * number for number in range(100)}
    await asyncio.gather(*(store.put(key, content) for key, content in contents.items()))
    assert {key: await content_of(store, key) for key in contents} == contents


async def test_a_blob_that_cannot_be_put_fails_alone(tmp_path: Path) -> None:
    store = FolderBlobs(tmp_path)
    await store.put("raw/file", b"in the way")
    good, bad, fine = await asyncio.gather(
        *(store.put(key, b"x") for key in ("raw/a", "raw/file/below", "raw/b")), return_exceptions=True
    )
    assert (good, fine) == (None, None)
    assert isinstance(bad, StoreUnavailableError)
    assert list(store.incoming.iterdir()) == []


async def test_what_is_not_there_is_not_found(store: BlobStore) -> None:
    await store.put("raw/3f/another", b"x")
    assert await store.size(KEY) is None
    with pytest.raises(NotFoundError):
        await content_of(store, KEY)
    assert await store.size("raw/3f") is None
    with pytest.raises(NotFoundError):
        await content_of(store, "raw/3f")


async def test_deleting_tells_how_many_were_there(store: BlobStore) -> None:
    await store.put(KEY, LARGE)
    await store.put("markdown/1/3f/sha256-003f", b"# text")
    await store.put("markdown/12/3f/sha256-003f", b"# other text")
    assert await store.delete([KEY, "markdown/1/3f/sha256-003f", "markdown/2/3f/sha256-003f"]) == 2
    assert await store.delete([KEY]) == 0
    assert await store.delete([]) == 0
    assert await keys_of(store) == {"markdown/12/3f/sha256-003f": 12}


async def test_many_are_deleted_at_once(store: BlobStore) -> None:
    keys = [f"raw/{number % 7}/blob-{number}" for number in range(60)]
    for key in keys:
        await store.put(key, b"x")
    absent = [f"raw/0/absent-{number}" for number in range(600)]
    assert await store.delete([*keys[:50], *absent]) == 50
    assert set(await keys_of(store)) == set(keys[50:])


async def test_listing_stays_below_its_folder(store: BlobStore) -> None:
    blobs = {"raw/aa/one": b"1", "raw/ab/two": LARGE, "rawer/aa/three": b"333", "r_w/aa/four": b"4444"}
    for key, content in blobs.items():
        await store.put(key, content)
    sizes = {key: len(content) for key, content in blobs.items()}
    assert await keys_of(store) == sizes
    assert await keys_of(store, "raw") == {key: sizes[key] for key in ("raw/aa/one", "raw/ab/two")}
    assert await keys_of(store, "raw/ab") == {"raw/ab/two": len(LARGE)}
    assert await keys_of(store, "r_w") == {"r_w/aa/four": 4}
    assert await keys_of(store, "nothing") == {}


async def test_folders_are_those_right_below(store: BlobStore) -> None:
    for key in ("markdown/1/3f/a", "markdown/12/3f/a", "markdown/12/40/b", "raw/3f/a"):
        await store.put(key, b"x")
    assert await store.folders("markdown") == ["1", "12"]
    assert await store.folders("") == ["markdown", "raw"]
    assert await store.folders("chunks") == []


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../x", "raw/../x", "raw//x", "raw/.hidden", "raw/", "a\\b", "a\x00b", "a\nb", "raw#1/x"]
)
async def test_a_key_that_would_leave_the_store_is_refused(store: BlobStore, key: str) -> None:
    with pytest.raises(InvalidKeyError):
        await store.put(key, b"x")
    with pytest.raises(InvalidKeyError):
        await store.size(key)
    with pytest.raises(InvalidKeyError):
        await store.delete([key])
    with pytest.raises(InvalidKeyError):
        await content_of(store, key)


async def test_a_reader_never_sees_half_a_blob(store: BlobStore, file_of: Callable[[bytes], Path]) -> None:
    first, second = b"1" * 3 * BLOCK, b"2" * 3 * BLOCK
    await store.put(KEY, first)
    writing = asyncio.create_task(store.put_file(KEY, file_of(second)))
    seen = {await content_of(store, KEY) for _ in range(5)}
    await writing
    assert seen <= {first, second}
    assert await content_of(store, KEY) == second


async def test_a_reader_may_stop_early(store: BlobStore) -> None:
    await store.put(KEY, LARGE)
    blocks = store.read(KEY)
    assert LARGE.startswith(await anext(blocks))
    await blocks.aclose()
    await store.put(KEY, b"free")
    assert await content_of(store, KEY) == b"free"


async def test_a_store_in_order_says_so(store: BlobStore) -> None:
    await store.check()


def declared[T](capability: T | None) -> T:
    """The capability; a store that does not declare it is not asked."""
    if capability is None:
        pytest.skip("this store does not declare it")
    return capability


@pytest.fixture
def local_files(store: BlobStore) -> LocalFiles:
    return declared(store.capabilities.local_files)


@pytest.fixture
def group_writes(store: BlobStore) -> GroupWrites:
    return declared(store.capabilities.group_writes)


@pytest.fixture
def group_lookups(store: BlobStore) -> GroupLookups:
    return declared(store.capabilities.group_lookups)


@pytest.fixture
def name_index(store: BlobStore) -> NameIndex:
    return declared(store.capabilities.name_index)


def test_every_capability_is_declared_by_a_store_of_this_suite(tmp_path: Path) -> None:
    stores: list[BlobStore] = [FolderBlobs(tmp_path), DatabaseBlobs({})]
    for capability in fields(Capabilities):
        assert any(getattr(store.capabilities, capability.name) is store for store in stores), capability.name


async def test_a_local_file_holds_the_blob(store: BlobStore, local_files: LocalFiles) -> None:
    assert not local_files.path_of(KEY).exists()
    await store.put(KEY, LARGE)
    assert local_files.path_of(KEY).read_bytes() == LARGE
    with pytest.raises(InvalidKeyError):
        local_files.path_of("../x")


async def test_a_linked_file_is_stored_and_stays(
    store: BlobStore, local_files: LocalFiles, file_of: Callable[[bytes], Path]
) -> None:
    path = file_of(b"hello")
    for _ in range(2):
        assert await local_files.link_file(KEY, path)
        assert path.read_bytes() == b"hello"
        assert await content_of(store, KEY) == b"hello"
    assert not await local_files.link_file(KEY, file_of(b"of another size"))
    assert await content_of(store, KEY) == b"hello"


async def test_a_file_is_released_only_if_its_blob_is_there(
    store: BlobStore, local_files: LocalFiles, file_of: Callable[[bytes], Path]
) -> None:
    path = file_of(b"hello")
    assert not await local_files.release_file(KEY, path)
    assert path.exists()
    await store.put(KEY, b"hello")
    assert await local_files.release_file(KEY, path)
    assert not path.exists()
    assert await content_of(store, KEY) == b"hello"


async def test_a_group_is_written_and_what_is_there_stays(store: BlobStore, group_writes: GroupWrites) -> None:
    await store.put("raw/aa/same", b"same")
    await store.put("raw/aa/other", b"of another size")
    contents = {f"raw/{number % 7}/{number}": bytes([number]) * number for number in range(30)}
    written = await asyncio.to_thread(group_writes.write_all, contents | {"raw/aa/same": b"same", "raw/aa/other": b"x"})
    assert written == dict.fromkeys([*contents, "raw/aa/same"], True) | {"raw/aa/other": False}
    assert {key: await content_of(store, key) for key in contents} == contents
    assert await content_of(store, "raw/aa/other") == b"of another size"
    with pytest.raises(InvalidKeyError):
        await asyncio.to_thread(group_writes.write_all, {"../x": b"x"})


async def test_a_group_is_looked_up_in_its_order(store: BlobStore, group_lookups: GroupLookups) -> None:
    await store.put(KEY, b"hello")
    await store.put("raw/40/empty", b"")
    assert await group_lookups.have(["raw/3f/absent", KEY, "raw/3f", "raw/40/empty"]) == [False, True, False, True]
    with pytest.raises(InvalidKeyError):
        await group_lookups.have(["../x"])


async def test_blobs_are_deleted_by_name_wherever_they_lie(store: BlobStore, name_index: NameIndex) -> None:
    for key in (KEY, "markdown/1/3f/sha256-003f", "raw/40/sha256-0040"):
        await store.put(key, LARGE)
    assert await name_index.delete_named(["sha256-003f", "sha256-absent"]) == 2
    assert await keys_of(store) == {"raw/40/sha256-0040": len(LARGE)}


async def test_folders_are_told_by_the_names_they_hold(store: BlobStore, name_index: NameIndex) -> None:
    for key in ("markdown/1/3f/a", "markdown/12/3f/a", "markdown/12/40/b", "m_rkdown/2/3f/a", "raw/3f/a"):
        await store.put(key, LARGE if key == "markdown/12/3f/a" else b"x")
    assert await name_index.folders_of(["a", "absent"], "markdown") == {"a": {"1", "12"}}
    assert await name_index.folders_of(["b"], "m_rkdown") == {}


async def test_a_blob_replaced_while_it_is_read_is_not_mixed_with_the_new_one(database: type[Database]) -> None:
    store = DatabaseBlobs({"raw": ArtifactType.DOC}, part=1000)
    await store.put(KEY, b"1" * 3500)
    blocks = store.read(KEY)
    assert await anext(blocks) == b"1" * 1000
    await store.put(KEY, b"2" * 3500)
    with pytest.raises(StoreUnavailableError, match="replaced while it was read"):
        await anext(blocks)
    assert await content_of(store, KEY) == b"2" * 3500


async def test_rows_of_a_database_are_found_by_hash_and_kind(database: type[Database]) -> None:
    await DatabaseBlobs({"raw": ArtifactType.DOC}).put(KEY, b"hello")
    async with database.session(read_only=True) as session:
        (row,) = await session.exec(select(DocumentBytes))
    assert (row.hash, row.artifact_type, row.storage_root) == ("sha256-003f", "document", "raw/3f")
    assert (row.file_size, row.file_bytes) == (5, b"hello")
