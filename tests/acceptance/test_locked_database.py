"""A SQLite database that another process holds: commands wait as they are told to, and then say who holds it."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.troubles import holders_of, in_words, is_busy
from soliplex.ingester.lib.wf.links import insist

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True),
]

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
connection.execute("CREATE TABLE held (id)")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def database_file(database_url: str) -> Path:
    return Path(database_url.partition("///")[2])


@pytest.fixture
def holder(database: type[Database], database_file: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun to write, and does not end."""
    command = [sys.executable, "-c", HOLD, str(database_file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("command", ["worker --drain", "ingest {folder}", "db-init", "retry 1", "serve --port 0"])
def test_a_command_says_who_holds_the_database(
    holder: subprocess.Popen[str], database_url: str, tmp_path: Path, command: str
) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/a.txt").write_text("a paper")
    settings = {"DOC_DB_URL": database_url, "DATA_DIR": str(tmp_path / "data"), "SQLITE_BUSY_TIMEOUT_SECONDS": "0.2"}
    ended = subprocess.run(
        [sys.executable, "-m", "soliplex.ingester.cli", *command.format(folder=tmp_path / "papers").split()],
        env={**os.environ, **settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout
    last = ended.stderr.splitlines()[-1]
    assert re.search(
        rf"error: the database .* is locked by process {holder.pid} .*0\.2 seconds; .*SQLITE_BUSY_TIMEOUT_SECONDS", last
    )


def test_whoever_only_reads_holds_nothing(database: type[Database], database_file: Path) -> None:
    with closing(sqlite3.connect(database_file)) as reader:
        reader.execute("SELECT count(*) FROM runstep").fetchone()
        assert holders_of(database_file) == []


async def test_a_worker_insists_while_another_writes(
    database: type[Database], database_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it finds the database locked: questions are answered all the while."""
    monkeypatch.setattr("soliplex.ingester.lib.wf.links.LONGEST_PAUSE", 0.01)
    other = sqlite3.connect(database_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    attempts = 0

    async def attempt() -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 10:
            other.execute("ROLLBACK")
        mine = sqlite3.connect(database_file, isolation_level=None, timeout=0)
        try:
            mine.execute("BEGIN IMMEDIATE")
        finally:
            mine.close()
        return attempts

    assert await insist(attempt) == 10
    other.close()


def test_only_troubles_of_the_database_become_words(database_url: str) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    wrapped = RuntimeError("while storing")
    wrapped.__cause__ = full
    told = in_words(wrapped, database_url, waited=1)
    assert told is not None
    assert "is full; make room" in str(told)
    assert not is_busy(wrapped)
    assert in_words(ValueError("a bug"), database_url, waited=1) is None
