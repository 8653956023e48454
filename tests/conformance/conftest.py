"""Fixtures of the engine's conformance tests: every test of an operation runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.registry import Registry
from tests.support.databases import PostgresServer
from tests.support.engine import Driver, assert_consistent, registry_in_use


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    with registry_in_use() as registry:
        yield registry


@pytest.fixture
async def driver(database: type[Database]) -> AsyncIterator[Driver]:
    """Drives the engine on a fresh database; when the test is over, every invariant must hold."""
    yield Driver()
    await assert_consistent(database)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    with postgres_server.copy_of(postgres_template) as url:
        yield url


@pytest.fixture
async def postgres_driver(postgres_url: str) -> AsyncIterator[Driver]:
    """As `driver`, for what only several connections at once can show."""
    await Database.initialize(postgres_url)
    yield Driver()
    await assert_consistent()
    await Database.close()
