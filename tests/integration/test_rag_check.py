"""Holding a RAG database beside what the runs have stored in it, and mending what a crash has left."""

from __future__ import annotations

import importlib
from typing import Any

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.operations import RagCheck, check_rag, repair_rag
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity, open_rag
from soliplex.ingester.lib.rag.writing import rag_id, write_documents
from soliplex.ingester.lib.wf.runner import Worker
from tests.integration.test_pipeline import BEES, BREAD, process, put, registry, uris
from tests.integration.test_rag import document
from tests.support.engine import rows_of
from tests.support.faults import eventually

__all__ = ["registry"]

NOTE = b"The meeting is on Monday.\n"


async def table(name: str) -> Any:
    connection = await importlib.import_module("lancedb").connect_async(rag_path("library"))
    return await connection.open_table(name)


async def ended() -> bool:
    rows = await rows_of("SELECT status FROM rungroup")
    return all(status == "COMPLETED" for (status,) in rows)


async def test_what_is_half_there_missing_or_stale_is_told_and_mended(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    bees, bread = await put(batch_id, "/bees.md", BEES), await put(batch_id, "/bread.md", BREAD)
    note = await put(batch_id, "/note.md", NOTE)
    tea = await put(batch_id, "/tea.md", b"Tea needs three minutes.\n")
    await process(batch_id)
    path = rag_path("library")
    assert await check_rag(path) == _whole(await check_rag(path))

    await (await table("documents")).delete(f"id = '{rag_id(bees)}'")
    for name, column in (("documents", "id"), ("document_meta", "id"), ("document_items", "document_id")):
        await (await table(name)).delete(f"{column} = '{rag_id(bread)}'")
    await (await table("chunks")).delete(f"document_id = '{rag_id(bread)}'")
    chunks = await table("chunks")
    (chunk,) = await chunks.query().where(f"document_id = '{rag_id(note)}'").to_list()
    await chunks.add([chunk])
    await chunks.delete(f"document_id = '{rag_id(tea)}'")
    async with open_rag(path, None, read_only=True) as rag:
        recorded = rag.store.stored_embedding
    identity = EmbeddingIdentity(recorded.provider, recorded.name, recorded.vector_dim)
    await write_documents(path, identity, [_without_chunks()], fence=SoleWriter())

    found = await check_rag(path)
    assert found.half == sorted([rag_id(bees), rag_id(note), rag_id(tea)])
    assert (found.missing, found.stale) == ([rag_id(bread)], [rag_id("sha256-stranger")])

    done = await repair_rag(found)
    assert (done.stored_again, done.deleted, len(done.run_group_ids)) == (4, 1, 1)
    await eventually(ended, "all is stored again", within=300)
    assert (await check_rag(path)).is_whole
    assert await uris("sourdough rye flour", limit=1) == ["/bread.md"]
    parsed = await rows_of(
        "SELECT CAST(s.output AS text) FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id"
        " WHERE r.run_group_id = :id AND s.step_type IN ('parse', 'embed')",
        id=done.run_group_ids[0],
    )
    assert len(parsed) == 8
    assert all("skipped" in output for (output,) in parsed), "nothing is parsed or embedded again"


def _without_chunks() -> Any:
    return document("stranger")


def _whole(found: RagCheck) -> RagCheck:
    assert found.is_whole
    assert found.documents == 4
    return found


async def test_what_rows_are_left_of_a_document_that_nobody_knows_is_deleted(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    bees = await put(batch_id, "/bees.md", BEES)
    await process(batch_id)
    chunks = await table("chunks")
    (chunk, *_) = await chunks.query().where(f"document_id = '{rag_id(bees)}'").to_list()
    await chunks.add([{**chunk, "id": "lost", "document_id": "0000"}])
    found = await check_rag(rag_path("library"))
    assert (found.half, found.missing, found.stale) == (["0000"], [], [])
    assert (await repair_rag(found)).deleted == 1
    assert (await check_rag(rag_path("library"))).is_whole


async def test_documents_that_others_have_put_there_are_left_alone(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    await put(batch_id, "/bees.md", BEES)
    await process(batch_id)
    meta = await table("document_meta")
    (row,) = await meta.query().to_list()
    await meta.add([{**row, "id": "1111", "uri": "/theirs.md", "metadata": "{}"}])
    (content,) = await (await table("documents")).query().to_list()
    await (await table("documents")).add([{**content, "id": "1111"}])
    assert (await check_rag(rag_path("library"))).is_whole
