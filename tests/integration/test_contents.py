"""One content at several places: found in each of its sources and batches, cited with all of them, embedded once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib import rag
from soliplex.ingester.lib.models import ArtifactType, ResourceLockKind, RunStatus
from soliplex.ingester.lib.operations import NewDocument
from soliplex.ingester.lib.operations.placing import others_at_places
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.metadata import Placement
from soliplex.ingester.lib.rag.writing import rag_id
from soliplex.ingester.lib.search import Hit, Scope, SearchKind, search_documents, stored_chunk
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.operations import delete_run_group
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.workflow import storing
from soliplex.ingester.segmenter.jobs.job_options import JobOptions
from soliplex.ingester.segmenter.jobs.new_jobs import Sender, start_job
from tests.support.documents import hash_of, pieces
from tests.support.engine import rows_of, scalar
from tests.support.faults import eventually
from tests.support.stores_agree import disagreements

ROOT = Path(__file__).parents[2]
PARAMS = """
id: quick
name: Quick
config:
  parse: {parser: fast}
  chunk: {chunk_size: 32}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
BEES = b"# A year with one hive\n\nOn the first warm day the bees leave the hive.\n"
PLAIN = b"On the first warm day the bees leave the hive.\n"
BREAD = b"# Bread\n\nSourdough needs rye flour, water and five days of patience.\n"


@pytest.fixture(autouse=True)
def registry(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "quick.yaml").write_text(PARAMS)
    use_registry(Registry(ROOT / "config" / "workflows", tmp_path / "params"))
    yield
    use_registry(None)


async def put(source: str, uri: str, content: bytes, batch_id: int | None = None) -> int:
    """Upload; gives the batch."""
    batch_id = batch_id or await documents.create_batch(source, uri)
    await documents.upload_document(pieces(content), NewDocument(uri=uri, source=source, batch_id=batch_id))
    return batch_id


async def process(batch_id: int) -> int:
    """Gives the run group."""
    started = await documents.start_workflows(batch_id, workflow_id="batch", param_id="quick")
    await all_runs_end()
    return started.run_group.id or 0


async def all_runs_end() -> None:
    async def have_ended() -> bool:
        return await scalar("SELECT count(*) FROM workflowrun WHERE completed_date IS NULL") == 0

    await eventually(have_ended, "all runs have ended", within=300)
    assert {row[0] for row in await rows_of("SELECT status FROM workflowrun")} == {RunStatus.COMPLETED}


async def ingest(source: str, uri: str, content: bytes) -> int:
    batch_id = await put(source, uri, content)
    await process(batch_id)
    return batch_id


async def hits(question: str = "bees", **scope: Any) -> list[Hit]:
    return await search_documents(question, database="library", kind=SearchKind.TEXT, scope=Scope(**scope))


async def cited(question: str = "bees", **scope: Any) -> list[str | None]:
    return [hit.uri for hit in await hits(question, **scope)]


async def all_is_right() -> None:
    """Nothing waits to be told, and the RAG database says what the rows say."""
    await documents.finish_removals(patience=60)
    assert await rows_of("SELECT doc_hash, target FROM documentremoval") == []
    assert await disagreements(rag_path("library")) == []


async def test_a_content_of_two_sources_is_found_in_both_and_cited_with_both(worker: Worker) -> None:
    alpha = await ingest("alpha", "/a/bees.md", BEES)
    embedded = await scalar("SELECT count(*) FROM cachedembedding")
    beta = await ingest("beta", "/b/bees.md", BEES)
    assert await cited(source="alpha") == ["/a/bees.md"]
    assert await cited(source="beta") == ["/b/bees.md"]
    assert await cited(batch_id=alpha) == ["/a/bees.md"]
    assert await cited(batch_id=beta) == ["/b/bees.md"]
    assert await cited(uri_prefix="/a/") == ["/a/bees.md"]
    assert await cited(source="alpha", uri_prefix="/b/") == []
    (hit,) = await hits(source="alpha")
    assert hit.sources == ["beta", "alpha"]
    assert [(each.uri, each.source, each.batch_id) for each in hit.places] == [
        ("/b/bees.md", "beta", beta),
        ("/a/bees.md", "alpha", alpha),
    ]
    assert await scalar("SELECT count(*) FROM cachedembedding") == embedded
    outputs = await rows_of("SELECT CAST(output AS text) FROM runstep WHERE step_type = 'embed' ORDER BY id")
    assert [json.loads(output).get("skipped") for (output,) in outputs] == [None, True]
    await all_is_right()


async def test_it_is_told_which_databases_have_a_document_and_which_have_lost_it(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.md", BEES)
    (held,) = await documents.databases_holding(hash_of(BEES))
    assert (held.db, held.is_there, held.chunks > 0, held.problem) == ("library", True, True, None)
    assert held.updated_at is not None
    shutil.rmtree(rag_path("library"))
    (gone,) = await documents.databases_holding(hash_of(BEES))
    assert (gone.is_there, gone.problem) == (False, "the database is not there, or has been deleted")


async def test_a_deleted_uri_is_cited_no_more_and_the_others_are(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.txt", PLAIN)
    await ingest("alpha", "/a/copy.txt", PLAIN)
    await ingest("beta", "/b/hives.txt", PLAIN)
    assert {hit.title for hit in await hits()} == {"hives.txt"}

    await documents.delete_document_uri_by_uri("/b/hives.txt", "beta")
    (hit,) = await hits()
    assert (hit.uri, hit.title, hit.sources) == ("/a/copy.txt", "copy.txt", ["alpha"])
    assert [place.uri for place in hit.places] == ["/a/copy.txt", "/a/bees.txt"]
    assert await cited(source="beta") == []
    await all_is_right()

    await documents.delete_document_uri_by_uri("/a/bees.txt", "alpha")
    assert [[place.uri for place in hit.places] for hit in await hits(source="alpha")] == [["/a/copy.txt"]]
    await all_is_right()
    await documents.delete_document_uri_by_uri("/a/copy.txt", "alpha")
    assert await hits() == []
    await all_is_right()


async def test_an_entry_from_before_a_deletion_is_found_by_the_next(worker: Worker) -> None:
    """A locked database keeps the entry, the document comes back meanwhile, and nothing tells of the entry any more."""
    await ingest("alpha", "/bees.md", BEES)
    async with rag.hold_rag_lock(rag_path("library"), holder_kind=ResourceLockKind.CLI):
        await documents.delete_document_uri_by_uri("/bees.md", "alpha")
        await put("alpha", "/bees.md", BEES)
    await documents.finish_removals(patience=60)
    await documents.delete_document_uri_by_uri("/bees.md", "alpha")
    await all_is_right()
    assert await hits() == []


async def test_a_uri_that_comes_to_a_batch_whose_run_has_ended_counts_too(worker: Worker) -> None:
    """Its content was processed in this group already: no run follows that could tell the RAG database."""
    batch_id = await ingest("alpha", "/bees.md", BEES)
    await put("alpha", "/copy.md", BEES, batch_id)
    await process(batch_id)
    await documents.finish_removals(patience=60)
    assert [[place.uri for place in hit.places] for hit in await hits()] == [["/copy.md", "/bees.md"]]
    assert await cited(uri_prefix="/bees") == ["/bees.md"]
    await all_is_right()


async def test_what_is_uploaded_and_deleted_while_a_store_writes_is_told_afterwards(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has looked where the content lives, and then that changes."""
    await ingest("beta", "/b/bees.md", BEES)
    real, meanwhile = storing.write_documents, list[str]()

    async def write_documents(*args: Any, **options: Any) -> None:
        if not meanwhile:
            meanwhile.append("now")
            await put("gamma", "/c/bees.md", BEES)
            await documents.delete_document_uri_by_uri("/b/bees.md", "beta")
        await real(*args, **options)

    monkeypatch.setattr(storing, "write_documents", write_documents)
    await ingest("alpha", "/a/bees.md", BEES)
    assert meanwhile
    await all_is_right()
    assert [hit.sources for hit in await hits()] == [["gamma", "alpha"]]
    assert await cited(source="beta") == []


async def test_a_change_of_places_waits_for_whoever_writes_to_the_database(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.md", BEES)
    await ingest("beta", "/b/bees.md", BEES)
    async with rag.hold_rag_lock(rag_path("library"), holder_kind=ResourceLockKind.CLI):
        await documents.delete_document_uri_by_uri("/b/bees.md", "beta")
        assert await scalar("SELECT count(*) FROM documentremoval") == 1
    await all_is_right()
    assert await cited() == ["/a/bees.md"]


async def test_content_that_came_back_before_its_entry_was_removed_stays(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.md", BEES)
    async with rag.hold_rag_lock(rag_path("library"), holder_kind=ResourceLockKind.CLI):
        await documents.delete_document_uri_by_uri("/a/bees.md", "alpha")
        batch_id = await put("beta", "/b/bees.md", BEES)
    await process(batch_id)
    await all_is_right()
    assert await cited(source="beta") == ["/b/bees.md"]


async def test_going_back_gives_each_content_its_places(worker: Worker) -> None:
    batch_id = await ingest("alpha", "/one.md", BEES)
    await put("alpha", "/one.md", BREAD, batch_id)
    await put("alpha", "/two.md", BREAD, batch_id)
    await put("beta", "/three.md", BEES, batch_id)
    await process(batch_id)
    assert await cited("bees") == ["/three.md"]
    assert await cited("sourdough", uri_prefix="/one") == ["/one.md"]

    await documents.roll_back("/one.md", "alpha", 1)
    await all_runs_end()
    assert await cited("bees", source="alpha") == ["/one.md"]
    assert await cited("sourdough") == ["/two.md"]
    assert await cited("sourdough", uri_prefix="/one") == []
    await all_is_right()


async def test_going_back_to_what_the_database_holds_is_seen_at_once(worker: Worker) -> None:
    """Both contents are there already, and no run is left that knows how they were processed."""
    batch_id = await ingest("alpha", "/one.md", BEES)
    await put("beta", "/three.md", BEES, batch_id)
    await put("alpha", "/one.md", BREAD, batch_id)
    await process(batch_id)
    for (group_id,) in await rows_of("SELECT id FROM rungroup"):
        await delete_run_group(group_id)
    done = await documents.roll_back("/one.md", "alpha", 1)
    assert done.runs == []
    assert await cited("bees", source="alpha") == ["/one.md"]
    assert await cited("sourdough") == []


async def test_the_id_of_a_hit_is_that_of_the_chunk_in_the_artifact(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.md", BEES)
    (hit,) = await hits()
    assert hit.doc_hash
    ((config_id,),) = await rows_of("SELECT step_config_id FROM runstep WHERE step_type = 'chunk'")
    chunks = json.loads(await get_artifacts().read(hit.doc_hash, ArtifactType.CHUNKS, config_id))
    assert {chunk["id"]: chunk["content"] for chunk in chunks}[hit.chunk_id] == hit.content
    found = await stored_chunk(hit.chunk_id or "", database="library")
    assert (found.content, [each.doc_hash for each in found.documents]) == (hit.content, [hit.doc_hash])


async def test_entries_go_with_a_document_whose_run_group_was_deleted_before(worker: Worker) -> None:
    batch_id = await put("alpha", "/a/bees.md", BEES)
    await put("alpha", "/a/bread.md", BREAD, batch_id)
    group_id = await process(batch_id)
    await delete_run_group(group_id)
    await documents.delete_document_uri_by_uri("/a/bees.md", "alpha")
    assert await cited("bees") == []
    assert await cited("sourdough") == ["/a/bread.md"]
    assert await rows_of("SELECT doc_hash, target FROM documentremoval") == []


async def test_entries_go_even_if_the_database_was_locked_when_the_document_went(worker: Worker) -> None:
    """What told of the database is gone by then: that it holds the document was written down before."""
    group_id = await process(await put("alpha", "/a/bees.md", BEES))
    await delete_run_group(group_id)
    async with rag.hold_rag_lock(rag_path("library"), holder_kind=ResourceLockKind.CLI):
        await documents.delete_document_uri_by_uri("/a/bees.md", "alpha")
    assert await cited("bees") == ["/a/bees.md"]
    await all_is_right()
    assert await cited("bees") == []


async def test_a_document_that_is_said_to_live_elsewhere_is_told_and_mended(worker: Worker) -> None:
    """As older versions wrote it: with one place of two."""
    alpha = await ingest("alpha", "/a/bees.md", BEES)
    await ingest("beta", "/b/bees.md", BEES)
    await all_is_right()
    path = rag_path("library")
    (hit,) = await hits()
    assert (await documents.check_rag(path)).is_whole
    place = Placement("/a/bees.md", "alpha", alpha)
    async with rag.hold_rag_lock(path, holder_kind=ResourceLockKind.CLI) as lock:
        await rag.place_documents(path, {hit.doc_hash or "": [place]}, others_at_places, fence=lock)
    assert await cited(source="beta") == []
    found = await documents.check_rag(path)
    assert (found.misplaced, found.half, found.missing, found.stale) == ([rag_id(hit.doc_hash or "")], [], [], [])
    done = await documents.repair_rag(found)
    assert (done.placed, done.run_group_ids, done.left) == (1, [], [])
    assert (await documents.check_rag(path)).is_whole
    assert await cited(source="beta") == ["/b/bees.md"]


async def test_a_note_of_a_store_that_cannot_be_read_stops_no_deletion(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.md", BEES)
    ((doc_hash, config_id),) = await rows_of(
        "SELECT r.doc_id, s.step_config_id FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id"
        " WHERE s.step_type = 'store'"
    )
    await get_artifacts().write(doc_hash, ArtifactType.RAG, config_id, b"[not json")
    await documents.delete_document_uri_by_uri("/a/bees.md", "alpha")
    assert await cited("bees") == []
    await all_is_right()


async def test_a_segmentation_job_of_a_content_is_no_place_of_it(worker: Worker) -> None:
    await ingest("alpha", "/a/bees.md", BEES)
    received = await get_artifacts().receive(pieces(BEES), limit=None, hold=True)
    await start_job(received, filename="bees.md", options=JobOptions(), sender=Sender())
    await all_runs_end()
    await ingest("beta", "/b/bees.md", BEES)
    assert [hit.sources for hit in await hits()] == [["beta", "alpha"]]
    assert await cited(source="segmenter") == []
    assert [each.source for each in await documents.list_sources()] == ["alpha", "beta"]

    await documents.delete_document_uri_by_uri("/a/bees.md", "alpha")
    await documents.delete_document_uri_by_uri("/b/bees.md", "beta")
    await all_is_right()
    assert await hits() == [], "what only a job still has is not found"
    assert await scalar("SELECT count(*) FROM document") == 1
