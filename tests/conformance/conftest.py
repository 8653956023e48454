"""Fixtures of the engine's conformance tests: every test of an operation runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.registry import Registry
from tests.conftest import BOTH
from tests.support.databases import PostgresServer
from tests.support.engine import Driver, assert_consistent, registry_in_use


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    with registry_in_use() as registry:
        yield registry


@pytest.fixture(scope="session")
def reused_postgres(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    with postgres_server.copy_of(postgres_template) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, reused_postgres: str) -> str:
    """An empty database. Emptying one takes half the time of making one, and these tests are hundreds."""
    postgres_server.empty(reused_postgres)
    return reused_postgres


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    path = tmp_path / "documents.db"
    shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
async def driver(database: type[Database]) -> AsyncIterator[Driver]:
    """Drives the engine on an empty database; when the test is over, every invariant must hold."""
    yield Driver()
    await assert_consistent(database)


@pytest.fixture
async def postgres_driver(postgres_url: str) -> AsyncIterator[Driver]:
    """As `driver`, for what only several connections at once can show."""
    await Database.initialize(postgres_url)
    yield Driver()
    await assert_consistent()
    await Database.close()
