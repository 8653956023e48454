"""Going back to an earlier version, through the shipped workflow and a real worker: what is found is what was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.models import Database, RunStatus
from soliplex.ingester.lib.operations import NewDocument, RolledBack
from soliplex.ingester.lib.search import SearchKind, search_documents
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.runner import Worker
from tests.support.documents import pieces
from tests.support.engine import rows_of, scalar
from tests.support.faults import eventually

ROOT = Path(__file__).parents[2]
PARAMS = """
id: quick
name: Quick
config:
  parse: {parser: PARSER}
  chunk: {chunk_size: 32}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
INTRODUCTION = """# The office

We are a small team in an old house by the river, with a garden, a workshop and a kitchen where everybody cooks in turn.

"""
AT_NINE, AT_NOON = "The team meets on Monday at nine.", "e team meets on Thursday at noon."
MONDAY = f"{INTRODUCTION}## Meetings\n\n{AT_NINE}\n".encode()
THURSDAY = f"{INTRODUCTION}## Meetings\n\nTh{AT_NOON}\n".encode()
SHELF = "shelf"


@pytest.fixture(params=["fast", pytest.param("local", marks=pytest.mark.slow)], autouse=True)
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "quick.yaml").write_text(PARAMS.replace("PARSER", request.param))
    use_registry(Registry(ROOT / "config" / "workflows", tmp_path / "params"))
    yield
    use_registry(None)


async def put(batch_id: int, uri: str, content: bytes) -> str:
    new = NewDocument(uri=uri, source=SHELF, batch_id=batch_id)
    return (await documents.upload_document(pieces(content), new)).doc_hash


async def process(batch_id: int) -> None:
    await documents.start_workflows(batch_id, workflow_id="batch", param_id="quick")
    await all_runs_end()


async def all_runs_end() -> None:
    async def have_ended() -> bool:
        return await scalar("SELECT count(*) FROM workflowrun WHERE completed_date IS NULL") == 0

    await eventually(have_ended, "all runs have ended", within=300)


async def outputs_of(done: RolledBack) -> dict[str, Any]:
    """The outputs of the steps of the run that followed."""
    (run,) = done.runs
    rows = await rows_of(
        "SELECT workflow_step_name, status, CAST(output AS text) FROM runstep WHERE workflow_run_id = :id",
        id=run.workflow_run_id,
    )
    assert {status for _, status, _ in rows} == {RunStatus.COMPLETED}, rows
    return {name: json.loads(output) for name, _, output in rows}


async def found(question: str) -> list[tuple[str | None, str]]:
    """Where the question is answered, and how the answer ends."""
    hits = await search_documents(question, database="library", kind=SearchKind.TEXT)
    return [(hit.uri, hit.snippet[-len(AT_NINE) :]) for hit in hits]


async def test_what_was_is_found_again_and_nothing_is_parsed_or_embedded_for_it(worker: Worker) -> None:
    batch_id = await documents.create_batch(SHELF, "first")
    for content in (MONDAY, THURSDAY):
        await put(batch_id, "/office.md", content)
        await process(batch_id)
    assert await found("Monday") == []
    assert await found("Thursday") == [("/office.md", AT_NOON)]
    diff = await documents.diff_versions("/office.md", SHELF)
    assert diff.chunks is not None
    assert diff.chunks.kept >= 1
    assert (diff.chunks.added, diff.chunks.removed) == (1, 1)
    embedded = await scalar("SELECT count(*) FROM cachedembedding")

    done = await documents.roll_back("/office.md", SHELF, 1)
    await all_runs_end()
    assert await found("Monday") == [("/office.md", AT_NINE)]
    assert await found("Thursday") == []
    outputs = await outputs_of(done)
    assert all(outputs[step]["skipped"] for step in ("parse", "chunk", "embed")), outputs
    assert await scalar("SELECT count(*) FROM cachedembedding") == embedded
    assert [each.rolled_back_to for each in (await documents.list_versions("/office.md", SHELF)).items] == [
        1,
        None,
        None,
    ]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_version_that_is_overtaken_before_it_is_stored_stays_out(database: type[Database]) -> None:
    """Runs of three versions end in any order; what is found is what the URI has."""
    batch_id = await documents.create_batch(SHELF, "first")
    for content in (MONDAY, THURSDAY):
        await put(batch_id, "/office.md", content)
        await documents.start_workflows(batch_id, workflow_id="batch", param_id="quick")
    await documents.roll_back("/office.md", SHELF, 1)
    worker = Worker()
    await worker.start()
    await all_runs_end()
    await worker.stop()
    assert await found("Thursday") == []
    assert await found("Monday") == [("/office.md", AT_NINE)]
    reasons = await rows_of(
        """SELECT CAST(s.output AS text) FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id
            WHERE s.step_type = 'store' AND r.doc_id <> (SELECT doc_hash FROM documenturi)"""
    )
    assert [json.loads(output)["reason"] for (output,) in reasons] == [
        "another version has taken its place: it lives at no URI any more"
    ]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_content_that_lives_elsewhere_too_is_found_there_only(worker: Worker) -> None:
    batch_id = await documents.create_batch(SHELF, "first")
    await put(batch_id, "/copy.md", THURSDAY)
    for content in (MONDAY, THURSDAY):
        await put(batch_id, "/office.md", content)
        await process(batch_id)
    assert await found("Thursday") == [("/office.md", AT_NOON)]
    await documents.roll_back("/office.md", SHELF, 1)
    await all_runs_end()
    assert await found("Monday") == [("/office.md", AT_NINE)]
    assert await found("Thursday") == [("/copy.md", AT_NOON)]
