"""Writers of a RAG database that are killed or stopped anywhere in it: nothing is lost, doubled, or put back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.rag import delete_documents, hold_rag_lock, rag_resource_key
from soliplex.ingester.lib.rag.opening import RagUnusableError
from soliplex.ingester.lib.rag.writing import write_documents
from soliplex.ingester.lib.wf.operations import force_release_resource_lock
from tests.integration.test_rag import IDENTITY, document, uris
from tests.support.faults import eventually
from tests.support.rag_fault_main import CHANGES, CREATIONS, FENCES, Order

ROOT = Path(__file__).parents[2]
LONG = 100.0


class Writers:
    """Processes that write, and what they tell."""

    def __init__(self, nursery: subprocess.Popen[str], url: str, folder: Path) -> None:
        self._nursery = nursery
        self._url = url
        self._folder = folder
        self._heard: Counter[Path] = Counter()

    def begin(self, path: Path, texts: dict[str, str], **options: Any) -> Path:
        """Let a process write; gives the file in which it tells of itself."""
        told = self._folder / f"writer{len(self._heard)}.txt"
        self._heard[told] = 0
        order = Order(told=str(told), url=self._url, path=str(path), texts=texts, **options)
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(f"{json.dumps(asdict(order))}\n")
        self._nursery.stdin.flush()
        return told

    async def told(self, writer: Path) -> list[str]:
        """The next that it tells."""
        await eventually(lambda: _is_longer(writer, self._heard[writer]), f"{writer.name} tells more", within=LONG)
        line = writer.read_text(encoding="utf-8").splitlines()[self._heard[writer]]  # noqa: ASYNC240  a short file
        self._heard[writer] += 1
        return line.split()

    async def struck(self, path: Path, texts: dict[str, str], **options: Any) -> tuple[Path, int]:
        """A writer that has come to its point, and its process."""
        writer = self.begin(path, texts, **options)
        words = await self.told(writer)
        assert words[:2] == ["reached", options["point"]], words
        if options.get("fault", "die") == "die":
            assert await self.told(writer) == ["ended", "-9"]
        return writer, int(words[2])


async def _is_longer(told: Path, lines: int) -> bool:
    return told.exists() and told.read_text(encoding="utf-8").count("\n") > lines  # noqa: ASYNC240  a short file


@pytest.fixture(scope="session")
def rag_nursery() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.rag_fault_main"]
    nursery = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True)
    yield nursery
    nursery.kill()
    nursery.communicate()


@pytest.fixture
def writers(rag_nursery: subprocess.Popen[str], database: type[Database], database_url: str, tmp_path: Path) -> Writers:
    return Writers(rag_nursery, database_url, tmp_path)


async def take_over(path: Path) -> None:
    """As the reaper does with the locks of a dead worker."""
    await force_release_resource_lock(rag_resource_key(path), requested_by="test")


async def store(path: Path, texts: dict[str, str], gone: list[str] | None = None) -> None:
    async with hold_rag_lock(path, holder_kind=ResourceLockKind.CLI, max_wait=LONG) as lock:
        documents = [document(name, text) for name, text in texts.items()]
        await write_documents(path, IDENTITY, documents, fence=lock, gone=gone or [])


async def contents(path: Path) -> dict[str, str]:
    """The text of each document, which must stand in all tables, and once."""
    import lancedb

    connection = await lancedb.connect_async(path)
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in ("documents", "document_meta", "document_items", "chunks"):
        table = await connection.open_table(name)
        columns = [column for column in (await table.schema()).names if column not in {"vector", "docling_document"}]
        rows[name] = (await table.query().select(columns).to_arrow()).to_pylist()
    metas = {
        row["id"]: json.loads(row["metadata"])["doc_hash"].removeprefix("sha256-") for row in rows["document_meta"]
    }
    assert len(metas) == len(rows["document_meta"])
    assert sorted(row["id"] for row in rows["documents"]) == sorted(metas)
    for name in ("document_items", "chunks"):
        assert sorted(row["document_id"] for row in rows[name]) == sorted(metas), name
    texts = {metas[row["document_id"]]: row["content"] for row in rows["chunks"]}
    assert {metas[row["document_id"]]: row["text"] for row in rows["document_items"]} == texts
    assert {metas[row["id"]]: row["content"] for row in rows["documents"]} == texts
    return texts


async def test_a_store_that_is_killed_anywhere_is_completed_by_the_next(writers: Writers, tmp_path: Path) -> None:
    for number, point in enumerate([*FENCES, *CHANGES]):
        path = tmp_path / f"library{number}"
        await store(path, {"old": "the old text", "other": "stays"})
        texts = {"new": "the new text", "other": "has changed"}
        await writers.struck(path, texts, gone=["sha256-old"], point=point)
        await take_over(path)
        await store(path, texts, ["sha256-old"])
        assert await contents(path) == texts, point
        assert await uris(path, "the new text", limit=1) == ["/shelf/new.md"]


async def test_a_store_that_is_killed_anywhere_leaves_nothing_when_its_documents_are_deleted(
    writers: Writers, tmp_path: Path
) -> None:
    for number, point in enumerate(CHANGES[:4]):
        path = tmp_path / f"library{number}"
        await store(path, {"other": "stays"})
        await writers.struck(path, {"new": "the new text"}, point=point)
        await take_over(path)
        async with hold_rag_lock(path, holder_kind=ResourceLockKind.CLI) as lock:
            await delete_documents(path, ["sha256-new"], fence=lock)
        assert await contents(path) == {"other": "stays"}, point


async def test_a_store_that_is_stopped_anywhere_changes_nothing_after_another_has_stored(
    writers: Writers, tmp_path: Path
) -> None:
    """It goes on when all is done; whatever it wanted to do then, the other has the last word."""
    for number, point in enumerate([*FENCES, *CHANGES]):
        path = tmp_path / f"library{number}"
        await store(path, {"old": "the old text", "other": "stays"})
        late = {"new": "written late", "other": "changed late", "never": "stored by nobody else"}
        writer, pid = await writers.struck(path, late, gone=["sha256-old"], point=point, fault="stop")
        await take_over(path)
        texts = {"new": "the new text", "other": "has changed", "more": "and more"}
        # What the late one has begun to store is nobody's business any more: as after the deletion of a document.
        await store(path, texts, ["sha256-old", "sha256-never"])
        os.kill(pid, signal.SIGCONT)
        assert await writers.told(writer) == ["lost"], point
        assert await writers.told(writer) == ["ended", "0"]
        assert await contents(path) == texts, point


async def test_a_store_that_is_stopped_anywhere_changes_nothing_after_a_deletion(
    writers: Writers, tmp_path: Path
) -> None:
    """The deletion finds nothing of the document, and yet the late store must not bring it."""
    for number, point in enumerate([*FENCES[:1], *CHANGES[:4]]):
        path = tmp_path / f"library{number}"
        await store(path, {"other": "stays"})
        writer, pid = await writers.struck(path, {"new": "the new text"}, point=point, fault="stop")
        await take_over(path)
        async with hold_rag_lock(path, holder_kind=ResourceLockKind.CLI) as lock:
            await delete_documents(path, ["sha256-new"], fence=lock)
        os.kill(pid, signal.SIGCONT)
        assert await writers.told(writer) == ["lost"], point
        assert await contents(path) == {"other": "stays"}, point


async def test_a_creation_that_is_killed_anywhere_is_finished_by_the_next_store(
    writers: Writers, tmp_path: Path
) -> None:
    for number, point in enumerate(CREATIONS):
        path = tmp_path / f"library{number}"
        await writers.struck(path, {"new": "the new text"}, point=point)
        with pytest.raises(RagUnusableError, match=f"the RAG database {path.name} cannot be used: "):
            await uris(path, "the new text")
        await take_over(path)
        for _ in range(2):  # the second opens what the first has finished
            await store(path, {"new": "the new text"})
        assert await contents(path) == {"new": "the new text"}, point
        assert await uris(path, "the new text") == ["/shelf/new.md"]


async def test_a_creation_that_is_stopped_anywhere_breaks_nothing_when_it_goes_on(
    writers: Writers, tmp_path: Path
) -> None:
    for number, point in enumerate(CREATIONS):
        path = tmp_path / f"library{number}"
        writer, pid = await writers.struck(path, {"late": "written late"}, point=point, fault="stop")
        await take_over(path)
        await store(path, {"new": "the new text"})
        os.kill(pid, signal.SIGCONT)
        words = await writers.told(writer)
        assert words[0] in {"lost", "failed"}, words
        assert await contents(path) == {"new": "the new text"}, point
        await store(path, {"more": "and more"})
        assert await contents(path) == {"new": "the new text", "more": "and more"}, point


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_folder_of_a_table_without_a_version_is_a_creation_that_was_cut_short(
    database: type[Database], tmp_path: Path
) -> None:
    """As a disk that was full leaves it."""
    path = tmp_path / "library"
    (path / "documents.lance" / "_transactions").mkdir(parents=True)
    with pytest.raises(ConflictError, match="the RAG database library cannot be used"):
        await uris(path, "text")
    await store(path, {"new": "the new text"})
    assert await contents(path) == {"new": "the new text"}
