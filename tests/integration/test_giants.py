"""Documents of very many chunks: they have calls of their own, and go through the steps piece by piece."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import batched
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from soliplex.ingester.lib.models import ArtifactType, Database, Document
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.writing import rag_id
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.handlers import StepContext, resolve
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.workflow import arrays, chunking, embedding, storing
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.arrays import writing_pieces
from soliplex.ingester.lib.workflow.weighing import characters_of, chunks_of
from tests.support.engine import rows_of
from tests.support.giant_main import PARAMS, Told, text_of
from tests.support.pipelines import ROOT, outcomes, registry_with, start

INDEXED = """
import asyncio, random, resource, string, sys
from soliplex.ingester.lib.rag.opening import import_early
import_early()
import lancedb, pyarrow
from lancedb.index import FTS

def words(chunks):
    dice = random.Random(1)
    for _ in range(chunks):
        yield " ".join("".join(dice.choices(string.ascii_lowercase, k=7)) for _ in range(60))

async def main():
    database = await lancedb.connect_async(sys.argv[1])
    table = await database.create_table("chunks", pyarrow.table({"content": list(words(60_000))}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await table.create_index("content", config=FTS(with_position=True))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main())
"""

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def registry(tmp_path: Path) -> Iterator[None]:
    use_registry(registry_with(tmp_path / "params", PARAMS))
    yield
    use_registry(None)


async def ingest(files: dict[str, bytes]) -> list[Any]:
    """The ids of the runs and the hashes of their documents, in the order of their URIs."""
    batch_id = await start(files, "batch")
    ended = await outcomes(batch_id)
    assert {found.status for found in ended.values()} == {"COMPLETED"}, ended
    query = """SELECT r.id, r.doc_id FROM workflowrun r JOIN documenturi u ON u.doc_hash = r.doc_id
                WHERE r.batch_id = :id ORDER BY u.uri"""
    return await rows_of(query, id=batch_id)


async def embeddings_of(doc_hash: str) -> list[dict[str, Any]]:
    ((config_id,),) = await rows_of(
        """SELECT DISTINCT s.step_config_id FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
            WHERE r.doc_id = :hash AND s.step_type = 'embed'""",
        hash=doc_hash,
    )
    return json.loads(await get_artifacts().read(doc_hash, ArtifactType.EMBEDDINGS, config_id))


async def stored_of(doc_hash: str) -> dict[str, Any]:
    """What the RAG database holds of a document."""
    async with open_rag(rag_path("library"), None, read_only=True) as rag:
        where = f"document_id = '{rag_id(doc_hash)}'"
        chunks = await rag.store.chunks_table.query().where(where).to_list()
        items = await rag.store.document_items_table.query().where(where).to_list()
        (row,) = await rag.store.documents_table.query().where(f"id = '{rag_id(doc_hash)}'").to_list()
    told = ("content", "content_fts", "metadata", "order")
    return {
        "chunks": [
            ([each[name] for name in told], list(each["vector"])) for each in sorted(chunks, key=itemgetter("order"))
        ],
        "items": [(each["self_ref"], each["text"]) for each in sorted(items, key=itemgetter("position"))],
        "content": row["content"],
    }


def claimed(rows: list[Any]) -> Any:
    """Steps of these runs, as far as their weight is concerned."""
    return cast("Any", [SimpleNamespace(run_id=run_id, run={"doc_id": doc_hash}) for run_id, doc_hash in rows])


async def test_steps_weigh_what_the_steps_before_them_told_or_what_their_file_lets_one_guess(worker: Worker) -> None:
    files = {"a.txt": b"One chunk.\n", "b.txt": text_of(40_000)}
    first = await ingest(files)
    chunks = [len(await embeddings_of(doc_hash)) for _, doc_hash in first]
    assert chunks[0] == 1
    assert chunks[1] > 100
    assert await chunks_of(claimed(first)) == chunks
    assert await characters_of(claimed(first)) == [10, pytest.approx(40_000, rel=0.01)]
    # Where all was made before, the chunk step says nothing.
    again = await ingest(files)
    assert await chunks_of(claimed(again)) == [0, 200]
    assert await chunks_of(claimed([(again[0][0], "sha256-gone")])) == [0]


def test_the_steps_of_documents_are_weighed() -> None:
    for name in ("chunk_document", "embed_document", "save_to_rag"):
        assert resolve(f"soliplex.ingester.lib.workflow.{name}").batch_weights is not None, name


@ON_SQLITE
async def test_a_document_that_goes_through_in_pieces_gets_the_same_chunks_and_vectors(
    database: type[Database], worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(30_000)
    ((_, whole),) = await ingest({"whole.txt": text})
    monkeypatch.setattr(chunking, "LARGE", 100)
    monkeypatch.setattr(embedding, "LONG", 100)
    monkeypatch.setattr(storing, "LONG", 100)
    monkeypatch.setattr(storing, "LARGE", 100)
    monkeypatch.setattr(arrays, "BLOCK", 1000)
    monkeypatch.setattr("soliplex.ingester.lib.workflow.embedding.read_pieces.__kwdefaults__", {"size": 10})
    # The same text but for its last word, so that it is another document.
    ((_, in_pieces),) = await ingest({"arrays.txt": text + b" once more"})
    found, expected = await embeddings_of(in_pieces), await embeddings_of(whole)
    assert len(found) > 50
    assert {each["document_id"] for each in found} == {in_pieces}
    assert {each["document_uri"] for each in found} == {"/arrays.txt"}
    told = ("id", "content", "order", "metadata", "embedding")
    assert [[each[name] for name in told] for each in found[:-1]] == [
        [each[name] for name in told] for each in expected[: len(found) - 1]
    ]
    stored, as_expected = await stored_of(in_pieces), await stored_of(whole)
    assert len(stored["chunks"]) == len(found)
    assert stored["chunks"][:-1] == as_expected["chunks"][: len(found) - 1]
    assert len(stored["items"]) == len(as_expected["items"]) > 50
    assert stored["items"][:-1] == as_expected["items"][:-1]
    assert stored["content"].startswith(as_expected["content"][:1000])
    assert list(get_artifacts().spool.folder.iterdir()) == []


@pytest.mark.slow
@ON_SQLITE
def test_the_memory_of_a_worker_does_not_grow_with_the_document(database_url: str, tmp_path: Path) -> None:
    """Six megabytes of text in 20,000 chunks: their vectors alone would be 190 MiB of objects, their JSON as much."""
    command = [sys.executable, "-m", "tests.support.giant_main", database_url, str(tmp_path), "6000000"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    told = Told(**json.loads(done.stdout.splitlines()[-1]))
    grown = {step: round(peak - told.before_mib) for step, peak in told.peak_mib.items()}
    assert told.chunks > 15_000
    # Before chunks went through in pieces, it was 430 for embed, and 760 for store.
    assert grown["chunk"] < 150, grown
    assert grown["embed"] < 300, grown
    assert grown["store"] < 550, grown


class _Embedder:
    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[number / 3 for number in range(len(text), len(text) + 256)] for text in texts]


@asynccontextmanager
async def _fake_embedder(_options: object) -> AsyncGenerator[_Embedder]:
    yield _Embedder()


async def test_what_is_held_of_a_giant_is_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_facts: object) -> None: ...

    monkeypatch.setattr(embedding, "open_cached_embedder", _fake_embedder)
    monkeypatch.setattr(embedding, "record_histories", nothing)
    doc_hash, count = "sha256-" + "1" * 64, 6_000
    async with writing_pieces(doc_hash, ArtifactType.CHUNKS, 1) as made:
        for some in batched(range(count), 1000):
            await made.add(
                [
                    {"id": str(number), "content": f"passage {number} " * 20, "order": number, "metadata": {}}
                    for number in some
                ]
            )
    arguments = {
        "doc_hash": doc_hash,
        "doc": Document(hash=doc_hash, mime_type="text/plain", file_size=1, doc_meta={}),
        "places": [],
        "earlier": {"chunk": Earlier(1, {}), "embed": Earlier(2, {})},
        "step_params": {"provider": "wordllama"},
        "run_step": SimpleNamespace(step_config_id=2),
    }
    tracemalloc.start()
    try:
        step = StepContext(cast("Any", None), arguments)
        assert await embedding.embed_document([step]) == [{"embeddings": count}]  # pyright: ignore[reportCallIssue]  as wrapped
        embedded = tracemalloc.get_traced_memory()[1] >> 20
        tracemalloc.reset_peak()
        async with get_artifacts().artifact_file(doc_hash, ArtifactType.EMBEDDINGS, 2) as path:
            chunks = storing.StoredChunks(path)
            assert sum(1 for _ in chunks) == chunks.count == count
        read = tracemalloc.get_traced_memory()[1] >> 20
    finally:
        tracemalloc.stop()
    # All vectors at once would be 48 MiB of objects, and 30 MiB of JSON.
    assert max(embedded, read) < 40, (embedded, read)


@pytest.mark.slow
def test_an_index_of_words_takes_bounded_memory_however_many_there_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INDEXED, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    assert int(done.stdout) < 700
