"""The documents' example of lifecycle events: at a group's end its database is vacuumed, and its checksum written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.definitions import workflow_from_yaml
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.runner import Worker
from tests.support.documents import upload
from tests.support.engine import rows_of
from tests.support.faults import eventually

SHIPPED = Path(__file__).parents[2] / "config" / "workflows" / "batch_split_vacuum.yaml"
PRINTED = """
id: batch_split_vacuum
meta: {}
name: Batch workflow with splitting, vacuum and hash checking
lifecycle_events:
  group_end:
    - name: start span
      method: soliplex.ingester.example.run_end
      retries: 1
      parameters: {}
item_steps:
  validate:
    name: validate document
    retries: 3
    method: soliplex.ingester.lib.workflow.validate_document
    parameters: {}
  parse:
    name: docling parse
    retries: 3
    method: soliplex.ingester.lib.workflow.split_parse_document
    parameters: {}
  chunk:
    name: docling chunk
    retries: 3
    method: soliplex.ingester.lib.workflow.chunk_document
    parameters: {}
  embed:
    name: embeddings
    retries: 3
    method: soliplex.ingester.lib.workflow.embed_document
    parameters: {}
  store:
    name: save to rag
    retries: 3
    method: soliplex.ingester.lib.workflow.save_to_rag
    parameters: {}
"""
PARAMS = """
id: quick
config:
  parse: {parser: fast}
  chunk: {chunk_size: 64}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""


@pytest.fixture(autouse=True)
def registry(tmp_path: Path) -> Iterator[None]:
    for name, text in {"workflows/printed.yaml": PRINTED, "params/quick.yaml": PARAMS}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    use_registry(Registry(tmp_path / "workflows", tmp_path / "params"))
    yield
    use_registry(None)


def test_the_shipped_workflow_does_what_the_printed_one_does() -> None:
    printed, shipped = workflow_from_yaml(PRINTED), workflow_from_yaml(SHIPPED.read_text())
    assert [(step.key, step.method) for step in shipped.steps] == [(step.key, step.method) for step in printed.steps]
    assert shipped.lifecycle_events == printed.lifecycle_events


@pytest.mark.slow
async def test_a_group_that_ends_leaves_a_vacuumed_database_and_its_checksum(database: type[Database]) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    for number in range(3):
        await upload(f"/{number}.md", f"# Chapter {number}\n\nBees leave the hive.\n".encode(), batch_id)
    worker = Worker()
    await worker.start()
    try:
        await documents.start_workflows(batch_id, workflow_id="batch_split_vacuum", param_id="quick")

        async def is_delivered() -> bool:
            query = "SELECT status FROM lifecyclehistory WHERE event = 'group_end'"
            return [row[0] for row in await rows_of(query)] == ["COMPLETED"]

        await eventually(is_delivered, "the end of the group was handled", within=300)
    finally:
        await worker.stop()
    path = Path(rag_path("library"))
    assert re.match(r"[0-9a-f]{64}\b", path.with_name("library.sha256").read_text())
