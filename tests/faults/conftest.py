"""Fixtures of the tests of faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.catalog import use_registry
from tests.faults.workflows import FOLDER, make_registry
from tests.support.faults import Fleet, Nursery


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the handlers' journal lies, for this process and those it starts; with the workflows registered here."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    use_registry(make_registry())
    yield folder
    use_registry(None)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
async def fleet(nursery: Nursery, database: type[Database], database_url: str, folder: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(nursery, database_url, folder)
    try:
        yield fleet
    finally:
        await fleet.close()
