"""Documents of very many chunks: they have calls of their own, and go through the steps piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from soliplex.ingester.lib.models import ArtifactType, Database
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.handlers import resolve
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.workflow import chunking, pieces
from soliplex.ingester.lib.workflow.weighing import characters_of, chunks_of
from tests.support.engine import rows_of
from tests.support.giant_main import PARAMS, text_of
from tests.support.pipelines import outcomes, registry_with, start

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
    for name in ("chunk_document", "embed_document"):
        assert resolve(f"soliplex.ingester.lib.workflow.{name}").batch_weights is not None, name


@ON_SQLITE
async def test_a_document_that_goes_through_in_pieces_gets_the_same_chunks_and_vectors(
    database: type[Database], worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(30_000)
    ((_, whole),) = await ingest({"whole.txt": text})
    monkeypatch.setattr(chunking, "LARGE", 100)
    monkeypatch.setattr(pieces, "LONG", 100)
    monkeypatch.setattr("soliplex.ingester.lib.workflow.embedding.read_pieces.__kwdefaults__", {"size": 10})
    # The same text but for its last word, so that it is another document.
    ((_, in_pieces),) = await ingest({"pieces.txt": text + b" once more"})
    found, expected = await embeddings_of(in_pieces), await embeddings_of(whole)
    assert len(found) > 50
    assert {each["document_id"] for each in found} == {in_pieces}
    assert {each["document_uri"] for each in found} == {"/pieces.txt"}
    told = ("id", "content", "order", "metadata", "embedding")
    assert [[each[name] for name in told] for each in found[:-1]] == [
        [each[name] for name in told] for each in expected[: len(found) - 1]
    ]
    assert list(get_artifacts().spool.folder.iterdir()) == []
