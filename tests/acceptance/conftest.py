from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.catalog import use_registry
from tests.support.command_line import CommandLine
from tests.support.http import running_client
from tests.support.rag_databases import fill


@pytest.fixture
def commands(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """`si-cli` and `si-diag` on a fresh database, with the shipped workflows."""
    monkeypatch.setenv("DOC_DB_URL", database_url)
    get_settings.cache_clear()
    use_registry(None)
    yield CommandLine(database_url, monkeypatch, capsys)
    use_registry(None)


@pytest.fixture
async def client(
    database: type[Database], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server without a worker, on a fresh database, with the shipped workflows."""
    monkeypatch.setenv("DOC_DB_URL", database_url)
    get_settings.cache_clear()
    use_registry(None)
    async with running_client(doc_db_url=database_url) as client:
        yield client
    use_registry(None)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RAG database of three documents, to be copied."""
    os.environ.setdefault("LOGFIRE_IGNORE_NO_CONFIG", "1")
    path = tmp_path_factory.mktemp("lancedb") / "papers"
    asyncio.run(fill(path))
    return path


_ON_ONE_DATABASE = frozenset(
    {"test_openapi.py", "test_seed_examples.py", "test_interface.py", "test_bad_input.py", "test_segmenter_input.py"}
)
"""What these try goes through the same code on both databases: on PostgreSQL only where all the time is taken."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in _ON_ONE_DATABASE and item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.slow)
