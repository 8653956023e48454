"""Documents on their way through the shipped workflow, by a real worker: into a RAG database, out of it by search."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import HistoryAction, ResourceLockKind, RunStatus
from soliplex.ingester.lib.operations import NewDocument
from soliplex.ingester.lib.parsing.coverage import Coverage
from soliplex.ingester.lib.parsing.parsed_files import About
from soliplex.ingester.lib.rag.locking import hold_rag_lock, rag_path
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.rag.upkeep import is_absent
from soliplex.ingester.lib.search import SearchKind, search_documents
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.workflow import parsing as parse_step
from tests.support.engine import rows_of
from tests.support.faults import eventually
from tests.support.files import pdf

ROOT = Path(__file__).parents[2]
PARAMS = """
id: quick
name: Quick
config:
  parse: {parser: fast}
  chunk: {chunk_size: 64}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
BEES = b"# A year with one hive\n\n## Spring\n\nOn the first warm day the bees leave the hive.\n"
# One database will do: what differs between them is tested where the statements are.
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

BREAD = b"# Bread\n\nSourdough needs rye flour, water and five days of patience.\n"


@pytest.fixture(autouse=True)
def registry(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "quick.yaml").write_text(PARAMS)
    use_registry(Registry(ROOT / "config" / "workflows", tmp_path / "params"))
    yield
    use_registry(None)


async def put(batch_id: int, uri: str, content: bytes) -> str:
    async def blocks() -> AsyncIterator[bytes]:
        yield content

    new = NewDocument(uri=uri, source="shelf", batch_id=batch_id)
    return (await documents.upload_document(blocks(), new)).doc_hash


async def process(batch_id: int) -> dict[str, Any]:
    """Run the workflow over a batch; gives the status of each step by document and name, with its output."""
    started = await documents.start_workflows(batch_id, workflow_id="batch", param_id="quick")
    await eventually(lambda: _is_complete(batch_id), "the batch is complete", within=300)
    rows = await rows_of(
        """SELECT r.doc_id, s.workflow_step_name, s.status, CAST(s.output AS text), s.status_message
             FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id WHERE r.run_group_id = :id""",
        id=started.run_group.id,
    )
    return {f"{doc} {step}": (status, output or message) for doc, step, status, output, message in rows}


async def _is_complete(batch_id: int) -> bool:
    return (await rows_of("SELECT completed_date FROM documentbatch WHERE id = :id", id=batch_id))[0][0] is not None


async def uris(question: str, **options: Any) -> list[str | None]:
    return [hit.uri for hit in await search_documents(question, database="library", **options)]


async def count_documents() -> int:
    async with open_rag(rag_path("library"), None, read_only=True) as rag:
        return await rag.count_documents()


async def test_of_a_file_of_blanks_the_store_step_says_that_there_is_nothing_to_index(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    blank = await put(batch_id, "/garden/blank.md", b"  \n\n   \n")
    await put(batch_id, "/kitchen/bread.md", BREAD)
    steps = await process(batch_id)
    status, output = steps[f"{blank} store"]
    assert (status, '"nothing_to_index":true' in output.replace(" ", "")) == (RunStatus.COMPLETED, True)
    (group_id,) = (row[0] for row in await rows_of("SELECT id FROM rungroup"))
    assert await documents.with_nothing_to_index(group_id) == ["/garden/blank.md"]


async def test_documents_are_found_by_what_they_say(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    bees = await put(batch_id, "/garden/bees.md", BEES)
    await put(batch_id, "/kitchen/bread.md", BREAD)
    steps = await process(batch_id)
    assert {status for status, _ in steps.values()} == {RunStatus.COMPLETED}, steps

    for kind in SearchKind:
        hits = await search_documents("when do bees leave their hive", database="library", kind=kind)
        assert (hits[0].uri, hits[0].doc_hash, hits[0].source) == ("/garden/bees.md", bees, "shelf")
    history = {row.action.value for row in await documents.document_history(bees)}
    assert history == {"created", "parsed", "chunked", "embedded", "ingested"}

    # The same again does nothing but store.
    again = await process(batch_id)
    assert all("skipped" in again[f"{bees} {step}"][1] for step in ("parse", "chunk", "embed")), again
    assert await count_documents() == 2


@ON_SQLITE
async def test_a_pdf_tells_how_much_of_its_text_was_read(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    doc_hash = await put(batch_id, "/leaflet.pdf", pdf("Bees leave the hive on warm days.", "They come back at dusk."))
    steps = await process(batch_id)
    output = json.loads(steps[f"{doc_hash} parse"][1])
    assert (output["coverage"], output["words"], output["missing_words"]) == (1.0, 12, 0)
    parsed = [row for row in await documents.document_history(doc_hash) if row.action is HistoryAction.PARSED]
    assert parsed[0].histmeta["coverage"] == 1.0


@pytest.mark.parametrize(("bound", "is_told"), [("0.97", True), ("0.5", False), ("0", False)])
def test_a_pdf_that_lost_text_is_warned_of(monkeypatch: pytest.MonkeyPatch, bound: str, is_told: bool) -> None:
    monkeypatch.setenv("PARSE_COVERAGE_WARNING", bound)
    get_settings.cache_clear()
    about = About(1, 100, None, coverage=Coverage(words=100, missing=40, short_pages=(1,)))
    warnings = list(parse_step._too_little("sha256-0", about))
    assert bool(warnings) is is_told
    assert all("40 of the 100 words" in warning for warning in warnings)


@ON_SQLITE
async def test_a_changed_document_takes_the_place_of_the_old(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    await put(batch_id, "/note.md", b"The meeting is on Monday.\n")
    await process(batch_id)
    await put(batch_id, "/note.md", b"The meeting is on Thursday.\n")
    await process(batch_id)
    assert await count_documents() == 1
    (hit,) = await search_documents("meeting", database="library")
    assert hit.snippet == "The meeting is on Thursday."


@ON_SQLITE
async def test_a_deleted_document_is_found_no_more(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    await put(batch_id, "/garden/bees.md", BEES)
    await put(batch_id, "/kitchen/bread.md", BREAD)
    await process(batch_id)
    await documents.delete_document_uri_by_uri("/garden/bees.md", "shelf")
    assert await uris("bees hive", kind=SearchKind.TEXT) == []
    assert await uris("sourdough", kind=SearchKind.TEXT) == ["/kitchen/bread.md"]


@ON_SQLITE
async def test_what_cannot_be_read_fails_alone_and_says_why(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "mixed")
    broken = await put(batch_id, "/broken.pdf", b"%PDF-1.7\n1 0 obj\n<<")
    empty = await put(batch_id, "/empty.txt", b"")
    good = await put(batch_id, "/kitchen/bread.md", BREAD)
    steps = await process(batch_id)
    assert steps[f"{good} store"][0] == RunStatus.COMPLETED, steps
    for doc_hash, words in {broken: "the PDF is cut off", empty: "the document is empty"}.items():
        status, reason = steps[f"{doc_hash} validate"]
        assert (status, steps[f"{doc_hash} parse"][0]) == (RunStatus.FAILED, RunStatus.CANCELLED)
        assert reason.startswith(words)


@ON_SQLITE
async def test_vectors_of_another_model_fail_alone_beside_documents_of_the_same_claim(
    worker: Worker, tmp_path: Path
) -> None:
    other = PARAMS.replace("quick", "other").replace("wordllama}", "wordllama, vector_dim: 128}")
    (tmp_path / "params" / "other.yaml").write_text(other)
    first = await documents.create_batch("shelf", "first")
    await put(first, "/garden/bees.md", BEES)
    await process(first)
    batches = {param: await documents.create_batch("shelf", param) for param in ("other", "quick")}
    async with hold_rag_lock(rag_path("library"), holder_kind=ResourceLockKind.CLI):
        for param, batch_id in batches.items():
            await put(batch_id, f"/{param}.md", BREAD + param.encode())
            await documents.start_workflows(batch_id, workflow_id="batch", param_id=param)
        embedded = "SELECT count(*) FROM runstep WHERE workflow_step_name = 'embed' AND status = 'COMPLETED'"
        await eventually(lambda: _is(embedded, 3), "both wait for the database")
    for batch_id in batches.values():
        await eventually(lambda one=batch_id: _is_complete(one), "the batch is complete", within=300)
    rows = await rows_of("SELECT batch_id, status, status_message FROM workflowrun ORDER BY id")
    assert [(batch_id, status) for batch_id, status, _ in rows[1:]] == [
        (batches["other"], RunStatus.FAILED),
        (batches["quick"], RunStatus.COMPLETED),
    ]
    assert "another model than wordllama with 128 dimensions" in rows[1][2]


async def _is(query: str, count: int) -> bool:
    return (await rows_of(query))[0][0] == count


@ON_SQLITE
async def test_without_rag_nothing_is_stored(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_RAG", "false")
    get_settings.cache_clear()
    batch_id = await documents.create_batch("shelf", "first")
    doc_hash = await put(batch_id, "/kitchen/bread.md", BREAD)
    steps = await process(batch_id)
    assert "DO_RAG" in steps[f"{doc_hash} store"][1]
    assert await is_absent(rag_path("library"))
