"""`si-cli vacuum-all` gives back what deleted documents left in their database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from tests.support.command_line import CommandLine

KEPT, DELETED = 20, 180
ON_SQLITE = pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)


async def store_and_delete() -> None:
    """Blobs in the database, as FILE_STORE_TARGET=db keeps them; most of them are deleted."""
    insert = sa.text(
        "INSERT INTO documentbytes (hash, artifact_type, storage_root, file_size, file_bytes) "
        "VALUES (:hash, 'document', 'raw', 20000, :content)"
    ).bindparams(sa.bindparam("content", type_=sa.LargeBinary))
    async with Database.engine().begin() as connection:
        rows = [{"hash": f"sha256-{number}", "content": bytes(20_000)} for number in range(KEPT + DELETED)]
        await connection.execute(insert, rows)
    async with Database.engine().begin() as connection:
        gone = sa.text("DELETE FROM documentbytes WHERE hash = :hash")
        await connection.execute(gone, [{"hash": f"sha256-{number}"} for number in range(KEPT, KEPT + DELETED)])


async def blobs_left() -> int:
    async with Database.engine().begin() as connection:
        return (await connection.execute(sa.text("SELECT count(*) FROM documentbytes"))).scalar_one()


def file_of(commands: CommandLine) -> Path:
    return Path(commands.url.partition("///")[2])


def free_pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA freelist_count").fetchone()[0]


@ON_SQLITE
def test_the_file_of_sqlite_shrinks_by_what_was_deleted(commands: CommandLine) -> None:
    commands.given(store_and_delete())
    path = file_of(commands)
    assert free_pages(path) > 0
    size = path.stat().st_size

    (row,) = commands.json("si-cli", "vacuum-all")
    assert (row["kind"], row["status"], row["database"]) == ("documents", "ok", str(path))
    assert row["bytes_free"] > DELETED * 20_000
    assert row["bytes_before"] >= size > DELETED * 20_000 > row["bytes_after"] == path.stat().st_size
    assert free_pages(path) == 0
    assert commands.given(blobs_left()) == KEPT


@ON_SQLITE
def test_a_database_without_free_pages_is_not_written_anew(commands: CommandLine) -> None:
    commands.given(store_and_delete())
    assert "of deleted rows" in commands("si-cli", "vacuum-all").out
    (row,) = commands.json("si-cli", "vacuum-all")
    assert (row["status"], row["bytes_before"]) == ("nothing to do", row["bytes_after"])


@ON_SQLITE
def test_a_database_that_another_writes_to_is_named_and_left(
    commands: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.given(store_and_delete())
    monkeypatch.setenv("SQLITE_BUSY_TIMEOUT_SECONDS", "0.1")
    get_settings.cache_clear()
    other = sqlite3.connect(file_of(commands), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = commands("si-cli", "vacuum-all")
    assert answer.code == 2
    assert "documents: the database" in answer.err
    assert "is locked by" in answer.err
    other.close()
    assert commands("si-cli", "vacuum-all").code == 0


@ON_SQLITE
def test_whoever_reads_meanwhile_holds_the_file_s_size_and_nothing_else(
    commands: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.given(store_and_delete())
    monkeypatch.setenv("SQLITE_BUSY_TIMEOUT_SECONDS", "0.1")
    get_settings.cache_clear()
    reader = sqlite3.connect(file_of(commands), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documentbytes").fetchone()
    (row,) = commands.json("si-cli", "vacuum-all")
    assert (row["status"], row["is_held_back"]) == ("ok", True)
    reader.close()
    (row,) = commands.json("si-cli", "vacuum-all")
    assert (row["is_held_back"], row["bytes_after"] < DELETED * 20_000) == (False, True)


@pytest.mark.parametrize("database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_postgresql_is_asked_for_its_own_vacuum(commands: CommandLine) -> None:
    commands.given(store_and_delete())
    (row,) = commands.json("si-cli", "vacuum-all")
    assert (row["kind"], row["status"]) == ("documents", "ok")
    assert row["bytes_before"] > 0
    assert row["bytes_after"] > 0
    assert commands.given(blobs_left()) == KEPT
