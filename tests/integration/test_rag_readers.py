"""RAG databases that stay open between searches: always at the newest version, whatever happens to their files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from soliplex.ingester.lib.rag import readers
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.readers import KeptReaders, readers_kept
from soliplex.ingester.lib.rag.upkeep import vacuum
from soliplex.ingester.lib.rag.writing import delete_documents, write_documents
from tests.integration.test_rag import IDENTITY, document, uris


@pytest.fixture
async def kept() -> AsyncIterator[KeptReaders]:
    async with readers_kept() as kept:
        yield kept


@pytest.fixture
async def db(tmp_path: Path) -> Path:
    path = tmp_path / "library"
    await write_documents(path, IDENTITY, [document("cats", "cats purr")], fence=SoleWriter())
    return path


async def test_a_database_is_opened_once_and_read_at_its_newest_version(
    kept: KeptReaders, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    opening = readers.Reader.open

    async def counted(db_path: str) -> readers.Reader:
        opened.append(db_path)
        return await opening(db_path)

    monkeypatch.setattr(readers.Reader, "open", counted)
    assert await asyncio.gather(*(uris(db, "purr") for _ in range(3))) == [["/shelf/cats.md"]] * 3
    await write_documents(db, IDENTITY, [document("dogs", "dogs bark")], fence=SoleWriter())
    assert await uris(db, "bark") != []
    await delete_documents(db, ["sha256-cats"], fence=SoleWriter())
    assert await uris(db, "cats purr bark") == ["/shelf/dogs.md"]
    assert opened == [str(db)]


async def test_a_vacuum_takes_no_file_away_that_a_search_needs(kept: KeptReaders, db: Path) -> None:
    assert await uris(db, "purr") == ["/shelf/cats.md"]
    for number in range(3):
        await write_documents(db, IDENTITY, [document(f"dogs{number}", "dogs bark")], fence=SoleWriter())
    await vacuum(db, fence=SoleWriter())
    assert len(kept) == 0
    assert len(await uris(db, "bark purr")) == 4


async def test_files_that_another_process_removed_are_looked_for_again(kept: KeptReaders, db: Path) -> None:
    """As after a vacuum elsewhere, between the look for the newest version and the question."""
    asked = 0

    async def question(reader: readers.Reader) -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError("data file not found")
        return await reader.chunks.count_rows()

    assert await readers.read(db, question) == 1
    with pytest.raises(OSError, match="broken"):
        await readers.read(db, _broken)


async def _broken(_: readers.Reader) -> None:
    raise OSError("broken")


async def test_another_database_in_its_place_is_noticed(kept: KeptReaders, db: Path, tmp_path: Path) -> None:
    assert await uris(db, "purr") == ["/shelf/cats.md"]
    other = tmp_path / "other"
    await write_documents(other, IDENTITY, [document("birds", "birds sing")], fence=SoleWriter())
    shutil.rmtree(db)
    other.rename(db)
    assert await uris(db, "birds cats") == ["/shelf/birds.md"]
    shutil.rmtree(db)
    with pytest.raises(FileNotFoundError):
        await uris(db, "birds")
    assert len(kept) == 0


async def test_no_more_than_so_many_stay_open(
    kept: KeptReaders, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MOST_KEPT", 1)
    shutil.copytree(db, tmp_path / "copy")
    for path in (db, tmp_path / "copy", db):
        assert await uris(path, "purr") == ["/shelf/cats.md"]
        assert len(kept) == 1


async def test_without_the_block_nothing_stays_open(db: Path) -> None:
    async with readers_kept() as kept:
        await uris(db, "purr")
        assert len(kept) == 1
    assert len(kept) == 0
    assert await uris(db, "purr") == ["/shelf/cats.md"]
