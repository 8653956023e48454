"""Indexes of a real RAG database, which grow with it: nothing is lost, little is read one by one."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import scratch
from soliplex.ingester.lib.rag import indexes
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.readers import Reader, read
from soliplex.ingester.lib.rag.searching import Scope, SearchKind, search
from soliplex.ingester.lib.rag.upkeep import vacuum
from soliplex.ingester.lib.rag.writing import NewRagDocument, write_documents
from tests.integration.test_rag import IDENTITY, document, embed, vector

WORDS = [f"word{number}" for number in range(200)]


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few hundred chunks behave like a hundred thousand."""
    monkeypatch.setattr(indexes, "EXACT_UP_TO", 300)
    monkeypatch.setattr(indexes, "LATE_TEXTS", 40)
    monkeypatch.setattr(indexes, "LATE_ROWS", 100)


def commits(count: int) -> Iterator[list[NewRagDocument]]:
    """Of 100 chunks each; every chunk holds a word of its own."""
    chance = random.Random(5)
    for commit in range(count):
        yield [
            document(
                f"d{commit}x{number}",
                *(" ".join([*chance.sample(WORDS, 6), f"only{commit}x{number}x{order}"]) for order in range(20)),
                source=f"s{number}",
            )
            for number in range(5)
        ]


async def states(db: Path) -> dict[str, Any]:
    async with open_rag(db, None, read_only=True) as rag:
        return {index.name: index for index in await rag.store.chunks_table.list_indices()}


async def test_indexes_follow_what_is_written(db: Path) -> None:
    found: dict[str, Any] = {}
    for number, documents in enumerate(commits(6)):
        await write_documents(db, IDENTITY, documents, fence=SoleWriter())
        found = await states(db)
        assert found["content_fts_idx"].num_unindexed_rows < 40
        assert ("vector_idx" in found) == (number >= 3)
    assert found["content_fts_idx"].num_segments <= 3
    assert found["vector_idx"].index_type == "IvfSq"
    assert found["vector_idx"].num_unindexed_rows <= 100

    for place in ("0x0x0", "3x4x19", "5x2x7"):
        (hit,) = await search(db, f"only{place}", embed, kind=SearchKind.TEXT)
        assert hit.snippet.endswith(f"only{place}")
        best = (await search(db, hit.snippet, embed, kind=SearchKind.VECTOR))[0]
        assert best.snippet == hit.snippet
    within = await search(db, "word1 word2", embed, limit=100, scope=Scope(source="s3"))
    assert {hit.source for hit in within} == {"s3"}

    await vacuum(db, fence=SoleWriter())
    merged = await states(db)
    assert {index.num_segments for index in merged.values()} == {1}
    assert {index.num_unindexed_rows for index in merged.values()} == {0}
    assert len(await search(db, "only3x4x19", embed, kind=SearchKind.TEXT)) == 1


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses, in a process that has no folder of its own yet."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for kept in (scratch._common, scratch.own_folder):
        kept.cache_clear()
    yield folder
    for kept in (scratch._common, scratch.own_folder):
        kept.cache_clear()


async def test_what_lance_leaves_of_an_index_is_in_the_folder_that_goes_with_the_process(
    db: Path, temporary: Path
) -> None:
    scratch.lend_folder()
    lent = Path(os.environ["TMPDIR"])
    shutil.rmtree(lent)  # as systems do that remove what is old
    for documents in commits(4):
        await write_documents(db, IDENTITY, documents, fence=SoleWriter())
    assert "vector_idx" in await states(db)
    assert names_in(lent) != []
    assert names_in(temporary) == [lent.parent.name]
    assert tempfile.gettempdir() == str(temporary)


async def test_the_index_finds_what_comparing_all_vectors_finds(db: Path) -> None:
    for documents in commits(5):
        await write_documents(db, IDENTITY, documents, fence=SoleWriter())
    questions = [" ".join(random.Random(number).sample(WORDS, 4)) for number in range(20)]
    shared = 0
    for question in questions:
        found = {hit.rag_chunk_id for hit in await search(db, question, embed, kind=SearchKind.VECTOR, limit=10)}
        shared += len(found & await read(db, lambda reader, asked=question: exact(reader, asked)))
    assert shared / (10 * len(questions)) >= 0.95


async def exact(reader: Reader, question: str) -> set[str]:
    query = reader.chunks.query().nearest_to(vector(question)).column("vector").distance_type("cosine")
    return {row["id"] for row in await query.bypass_vector_index().limit(10).to_list()}


async def test_a_failing_index_leaves_what_was_written(
    db: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Any) -> None:
        raise RuntimeError("no space for an index")

    monkeypatch.setattr(indexes, "_tend_vectors", fail)
    await write_documents(db, IDENTITY, [document("cats", "cats purr")], fence=SoleWriter())
    assert "searches will be slower" in caplog.text
    assert [hit.title for hit in await search(db, "purr", embed)] == ["Cats"]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "library"
