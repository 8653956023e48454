"""The comparison of the stores with the database finds every way in which they can disagree, and no other."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.rag.writing import rag_id
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.runner import Worker
from tests.support.engine import scalar
from tests.support.faults import eventually
from tests.support.pipelines import SOURCE, outcomes, put, registry_with, start
from tests.support.stores_agree import Kind, compare, compare_blobs, disagreements

PARAMS = """
  parse: {parser: fast}
  chunk: {chunk_size: 32}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def registry(tmp_path: Path) -> Iterator[None]:
    use_registry(registry_with(tmp_path / "params", PARAMS))
    yield
    use_registry(None)


def text(word: str, paragraphs: int = 4) -> bytes:
    return "\n\n".join(
        f"# Part {n}\n\nOf {word} it is said {n} times. " + "More. " * 20 for n in range(paragraphs)
    ).encode()


async def hold(**words: str) -> dict[str, str]:
    """Documents that were uploaded and stored, one for each word; gives their hashes."""
    batch_id = await start({name: text(word) for name, word in words.items()}, "batch")
    ended = await outcomes(batch_id)
    assert {outcome.status for outcome in ended.values()} == {"COMPLETED"}, ended
    return {name: await hash_at(name) for name in words}


async def hash_at(name: str) -> str:
    return await scalar("SELECT doc_hash FROM documenturi WHERE uri = :uri", uri=f"/{name}")


async def table(name: str) -> Any:
    import lancedb

    connection: Any = await lancedb.connect_async(rag_path("library"))
    return await connection.open_table(name)


async def test_stores_agree_after_versions_deletions_and_going_back(worker: Worker) -> None:
    await hold(a="apples", b="beetles", c="cellos")
    await hold(a="almonds", d="dahlias")
    await documents.delete_document_uri_by_uri("/b", SOURCE)
    await documents.roll_back("/a", SOURCE, 1)
    await hold(e="eagles")
    await all_runs_end()

    found = await compare(rag_path("library"))
    assert found.findings == []
    assert (found.expected, found.found) == (4, 4)
    await documents.cleanup_orphans()
    assert (await compare_blobs()).findings == []
    assert (await compare(rag_path("library"))).findings == []


async def all_runs_end() -> None:
    async def have_ended() -> bool:
        return await scalar("SELECT count(*) FROM workflowrun WHERE completed_date IS NULL") == 0

    await eventually(have_ended, "all runs have ended", within=300)


@SQLITE
async def test_what_is_on_its_way_is_held_against_nobody(worker: Worker) -> None:
    """A new version that nobody has processed yet: the old one may still be found, and the new one not yet."""
    await hold(a="apples")
    batch_id = await documents.create_batch(SOURCE, "second")
    await put("a", text("almonds"), batch_id)
    assert await disagreements(rag_path("library")) == []


type Damage = Callable[[str], Awaitable[None]]


def without(name: str, where: str = "{column} = '{id}'") -> Damage:
    async def damage(document_id: str) -> None:
        column = "document_id" if name in {"chunks", "document_items"} else "id"
        await (await table(name)).delete(where.format(column=column, id=document_id))

    return damage


def twice(name: str) -> Damage:
    async def damage(document_id: str) -> None:
        opened = await table(name)
        await opened.add(await opened.query().limit(1).to_arrow())

    return damage


async def no_rows_at_all(document_id: str) -> None:
    for name in ("documents", "document_meta", "document_items", "chunks"):
        await without(name)(document_id)


async def no_database(document_id: str) -> None:
    shutil.rmtree(rag_path("library"))


async def no_table(document_id: str) -> None:
    shutil.rmtree(Path(rag_path("library")) / "documents.lance")


async def chunks_of_nobody(document_id: str) -> None:
    await (await table("chunks")).update(
        {"document_id": rag_id("sha256-nobody")}, where=f"document_id = '{document_id}'"
    )


async def another_text(document_id: str) -> None:
    await (await table("chunks")).update({"content": "other words"}, where=f"document_id = '{document_id}'")


async def another_place(document_id: str) -> None:
    await (await table("document_meta")).update({"uri": "/elsewhere"}, where=f"id = '{document_id}'")


DAMAGES: list[tuple[Damage, set[Kind], str]] = [
    (without("documents"), {Kind.HALF}, "is not in documents"),
    (without("document_meta"), {Kind.HALF}, "is not in document_meta"),
    (without("document_items"), {Kind.HALF}, "is not in document_items"),
    (without("chunks"), {Kind.HALF}, "is not in chunks"),
    (without("chunks", "\"order\" = 0 and {column} = '{id}'"), {Kind.HALF}, "lacks 1 of its"),
    (without("document_items", "position = 0 and {column} = '{id}'"), {Kind.HALF}, "and was parsed into"),
    (twice("documents"), {Kind.DOUBLED}, "documents has 2 rows"),
    (twice("document_meta"), {Kind.DOUBLED}, "document_meta has 2 rows"),
    (twice("document_items"), {Kind.DOUBLED}, "document_items has 2 rows"),
    (twice("chunks"), {Kind.DOUBLED}, "chunks has 2 rows"),
    (no_rows_at_all, {Kind.LOST}, "is in no table"),
    (no_database, {Kind.LOST}, "there is no database"),
    (no_table, {Kind.LOST}, "its table documents cannot be read"),
    (chunks_of_nobody, {Kind.HALF, Kind.STALE}, "which has no row"),
    (another_text, {Kind.HALF, Kind.DIFFERENT}, "chunks that its embeddings do not have"),
    (another_place, {Kind.DIFFERENT}, "is said to live at /elsewhere"),
]


@SQLITE
async def test_every_damage_to_a_rag_database_is_named(worker: Worker, tmp_path: Path) -> None:
    hashes = await hold(a="apples", b="beetles")
    library, before = Path(rag_path("library")), tmp_path / "before"
    shutil.move(library, before)
    for damage, kinds, words in DAMAGES:
        shutil.copytree(before, library)
        assert await disagreements(library) == []
        await damage(rag_id(hashes["a"]))
        found = await compare(library)
        assert set(found.counts()) == kinds, found.findings
        assert words in "\n".join(map(str, found.findings))
        shutil.rmtree(library, ignore_errors=True)


@SQLITE
async def test_a_document_that_was_deleted_and_is_still_there_is_stale(worker: Worker, tmp_path: Path) -> None:
    await hold(a="apples", b="beetles")
    shutil.copytree(rag_path("library"), tmp_path / "before")
    await documents.delete_document_uri_by_uri("/a", SOURCE)
    assert await disagreements(rag_path("library")) == []
    shutil.rmtree(rag_path("library"))
    shutil.copytree(tmp_path / "before", rag_path("library"))
    found = await compare(rag_path("library"))
    assert found.counts() == {Kind.STALE: 1}, found.findings


@SQLITE
async def test_the_old_version_beside_the_new_one_is_stale(worker: Worker, tmp_path: Path) -> None:
    """As after a restore of older versions of the tables: the new document is lost, and the old one back."""
    old = await hold(a="apples", b="beetles")
    shutil.copytree(rag_path("library"), tmp_path / "before")
    new = await hold(a="almonds")
    shutil.rmtree(rag_path("library"))
    shutil.copytree(tmp_path / "before", rag_path("library"))
    found = await compare(rag_path("library"))
    assert found.counts() == {Kind.STALE: 1, Kind.LOST: 1}, found.findings
    said = "\n".join(map(str, found.findings))
    assert f"stale: {old['a']}" in said
    assert f"lost: {new['a']}" in said


@SQLITE
async def test_bytes_that_are_missing_damaged_or_nobodys_are_named(worker: Worker) -> None:
    hashes = await hold(a="apples", b="beetles", c="cellos")
    assert (await compare_blobs()).findings == []
    artifacts = get_artifacts()
    raw = {name: artifacts.layout.document(doc_hash) for name, doc_hash in hashes.items()}
    await artifacts.store.delete([raw["a"]])
    await artifacts.store.put(raw["b"], b"other bytes")
    await artifacts.store.put(artifacts.layout.document(f"sha256-{'0' * 64}"), b"nobody's")
    config_id = await scalar("SELECT min(step_config_id) FROM runstep WHERE step_type = 'chunk'")
    await artifacts.store.delete([artifacts.layout.artifact(hashes["c"], ArtifactType.CHUNKS, config_id)])
    found = await compare_blobs()
    assert found.counts() == {Kind.LOST: 2, Kind.DIFFERENT: 1, Kind.STALE: 1}, found.findings
    assert (found.expected, found.found) == (3, 2)
