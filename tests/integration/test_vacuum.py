"""Compacting real RAG databases: by a workflow's end, and beside another process that writes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.models import Database, ResourceLockKind
from soliplex.ingester.lib.rag import hold_rag_lock, vacuum
from soliplex.ingester.lib.rag.database_files import all_databases
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.inventory import database_info
from soliplex.ingester.lib.rag.writing import write_documents
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.wf.views import list_locks
from tests.integration.test_pipeline import BEES, BREAD, put, registry, uris
from tests.integration.test_rag import IDENTITY, counts, document
from tests.support.engine import rows_of
from tests.support.faults import eventually

__all__ = ["registry"]

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ROOT = Path(__file__).parents[2]


async def test_a_workflow_that_ends_with_a_vacuum_compacts_and_writes_the_checksum(worker: Worker) -> None:
    batch_id = await documents.create_batch("shelf", "first")
    for number, content in enumerate((BEES, BREAD)):
        await put(batch_id, f"/{number}.md", content)
        await documents.start_workflows(batch_id, workflow_id="batch_split_vacuum", param_id="quick")
        await eventually(lambda: _ends_are_handled(number + 1), "the group's end is handled", within=300)  # noqa: B023  awaited here

    info = await database_info("library")
    assert (info.documents.count, info.documents.versions, info.chunks.versions) == (2, 1, 1)
    record = await all_databases().recorded("library")
    assert record is not None
    assert record.checksum == await all_databases().checksum("library")
    assert (await list_locks()).items == []
    assert await uris("sourdough rye flour") != []
    assert await all_databases().checksum("library") == record.checksum, "searching changes nothing"


async def _ends_are_handled(count: int) -> bool:
    ended = await rows_of("SELECT status FROM lifecyclehistory WHERE event = 'group_end' AND status = 'COMPLETED'")
    return len(ended) == count


async def test_a_vacuum_and_a_writer_in_another_process_exclude_one_another(
    database: type[Database], database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "library"
    await write_documents(path, IDENTITY, [document("old", "text")], fence=SoleWriter())
    command = (sys.executable, "-m", "tests.support.rag_writer_main", database_url, str(path), "3")
    writer = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"ready\n"
    finished = asyncio.create_task(writer.communicate())
    ours: list[tuple[float, float]] = []
    while not finished.done():
        async with hold_rag_lock(path, holder_kind=ResourceLockKind.LIFECYCLE, max_wait=60) as lock:
            began = time.monotonic()
            await vacuum(path, fence=lock)
            ours.append((began, time.monotonic()))
    theirs = [tuple(each) for each in json.loads((await finished)[0])]
    held = sorted([*ours, *theirs])
    assert (len(theirs), bool(ours)) == (3, True)
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(held))
    assert await counts(path) == (4, 4, 4)
