"""Fixtures every test may ask for.

`database` gives a test a fresh, migrated database on SQLite and on PostgreSQL: a copy of a template, made in
milliseconds. The PostgreSQL server is one the tests bring themselves, shared by all test processes of a run;
TEST_POSTGRES_URL names another.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# Container images often set it; then every process that a test starts compiles all it imports anew.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False
# Before pydantic: haiku.rag brings a plugin of logfire that every first use of pydantic would import, for two seconds.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")
# What tests start reads a few small documents: to import docling in a second process takes longer than to read them.
os.environ.setdefault("ISOLATION_PROCESSES", "1")

import hypothesis
import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from tests.support import forked
from tests.support.databases import (
    PostgresServer,
    folder_in_memory,
    make_postgres_template,
    make_sqlite_template,
    open_server,
    server_folder,
)

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

BOTH = [pytest.param("sqlite", marks=pytest.mark.sqlite), pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(autouse=True)
def clean_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees this machine's settings, nor another test's."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    for name in ("DOC_DB_URL", "API_KEY", "OPENAI_API_KEY", "DOCLING_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with server_folder() as folder, open_server(folder) as server:
        yield server


_shared = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Before several test processes start, bring up what they share; environment variables tell them of it."""
    if folder := folder_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))
    is_controller = getattr(config.option, "numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    if is_controller and "TEST_POSTGRES_URL" not in os.environ:
        folder = _shared.enter_context(server_folder())
        server = _shared.enter_context(open_server(folder))
        os.environ["TEST_POSTGRES_URL"] = server.url_of("postgres")
        _shared.callback(os.environ.pop, "TEST_POSTGRES_URL")
    if is_controller:
        forked.open_nursery()


def pytest_unconfigure() -> None:
    _shared.close()
    forked.close_nursery()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sqlite_template(tmp_path_factory.mktemp("template") / "template.db")


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    return make_postgres_template(postgres_server)


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, migrated database, on each kind in turn."""
    if request.param == "sqlite":
        path = tmp_path / "documents.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite+aiosqlite:///{path}"
    else:
        template = request.getfixturevalue("postgres_template")
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.copy_of(template) as url:
            yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[type[Database]]:
    """The open database."""
    await Database.initialize(database_url)
    yield Database
    await Database.close()


@pytest.fixture(params=BOTH)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database in which nothing has been created yet, on each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.copy_of("template0") as url:
            yield url


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests ran on each database."""
    ran = Counter[str]()
    for report in terminalreporter.stats.get("passed", []):
        for kind in ("sqlite", "postgres"):
            ran[kind] += kind in report.keywords
    terminalreporter.write_line(f"of these, {ran['sqlite']} ran on SQLite and {ran['postgres']} on PostgreSQL")
