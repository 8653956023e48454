"""A process that is killed between bytes and rows: no row speaks of it, and a clean-up finds what it left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.operations import deletion
from soliplex.ingester.lib.storage import StrayKind, find_strays, get_artifacts
from tests.support.documents import SOURCE, hash_of, new_batch, upload
from tests.support.engine import scalar


async def test_what_a_killed_upload_leaves_is_found_and_removed(
    database: type[Database], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await new_batch()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.ingest_main", database_url, str(batch_id), "killed", env=os.environ.copy()
    )
    assert await process.wait() == -signal.SIGKILL
    artifacts, killed = get_artifacts(), hash_of(b"killed")
    assert await scalar("SELECT count(*) FROM document") == 0
    assert await scalar("SELECT count(*) FROM documenturi") == 0
    assert await artifacts.has_document(killed)

    later = utcnow() + timedelta(days=2)
    strays = [stray.kind async for stray in find_strays(artifacts, now=later)]
    assert strays == [StrayKind.BLOB]  # it is small, and was held
    monkeypatch.setattr(deletion, "find_strays", lambda store: find_strays(store, now=later))
    assert (await documents.cleanup_orphans())["deleted_strays"] == 1
    assert not await artifacts.has_document(killed)
    assert [stray async for stray in find_strays(artifacts, now=later)] == []


async def test_the_same_upload_again_heals_what_the_killed_one_left(
    database: type[Database], database_url: str
) -> None:
    batch_id = await new_batch()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.ingest_main", database_url, str(batch_id), "killed", env=os.environ.copy()
    )
    await process.wait()
    await upload("/killed", b"killed", batch_id)
    (uri,) = (await documents.documents_of_source(SOURCE)).items
    assert (uri.doc_hash, (await documents.validate_storage(batch_id)).valid) == (hash_of(b"killed"), 1)
