"""An upload whose process is killed: what is stored is whole or not there, and clean-up finds the rest."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.storage import Artifacts, Integrity, Stray, find_strays, get_artifacts, remove_strays
from tests.support.faults import ROOT
from tests.support.upload_main import ARTIFACT, CONFIG, CONTENT

HASH = f"sha256-{hashlib.sha256(CONTENT).hexdigest()}"
ALL_AGES = timedelta(seconds=-60)
POINTS = {
    "receiving": Integrity.MISSING,
    "received": Integrity.MISSING,
    "document_safe": Integrity.MISSING,
    "document_before_rename": Integrity.MISSING,
    "document_after_rename": Integrity.OK,
    "artifact_safe": Integrity.OK,
    "artifact_before_rename": Integrity.OK,
    "artifact_after_rename": Integrity.OK,
    "end": Integrity.OK,
}


@pytest.fixture(params=["none", "zstd"])
def artifacts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Artifacts:
    monkeypatch.setenv("FILE_STORE_COMPRESSION", request.param)
    get_settings.cache_clear()
    return get_artifacts()


async def upload_and_die(point: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.upload_main", point, cwd=ROOT, env=dict(os.environ)
    )
    assert await process.wait() == -signal.SIGKILL


async def nothing_known(_hashes: object) -> set[str]:
    return set()


async def strays_of(artifacts: Artifacts) -> list[Stray]:
    return [stray async for stray in find_strays(artifacts, older_than=ALL_AGES, known=nothing_known)]


def files_in(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


async def again() -> AsyncIterator[bytes]:
    yield CONTENT


@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_upload_leaves_whole_blobs_and_strays_that_are_found(artifacts: Artifacts, point: str) -> None:
    await upload_and_die(point)
    assert await artifacts.verify([HASH]) == {HASH: POINTS[point]}
    if point in {"artifact_after_rename", "end"}:
        assert await artifacts.read(HASH, ArtifactType.PARSED_MD, CONFIG) == ARTIFACT
    else:
        with pytest.raises(NotFoundError):
            await artifacts.read(HASH, ArtifactType.PARSED_MD, CONFIG)

    strays = await strays_of(artifacts)
    assert strays
    assert await remove_strays(artifacts, strays) == len(strays)
    assert files_in(get_settings().file_store_dir) == 0

    assert await artifacts.keep(await artifacts.receive(again(), limit=None))
    assert await artifacts.verify([HASH]) == {HASH: Integrity.OK}
