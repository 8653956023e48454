"""The stock `haiku-rag` command on databases that were written here: a process of its own, with no way to the net."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity
from soliplex.ingester.lib.rag.writing import NewRagDocument, rag_id, write_documents
from tests.integration.test_rag import document
from tests.support.embedding_server import DIM, EmbeddingServer, embedding_server, vector_of

COMMAND = Path(sys.executable).with_name("haiku-rag")
QUESTION = "durable write ahead log"
CONFIG = """
embeddings:
  model: {{provider: {provider}, name: {model}, vector_dim: {dim}, base_url: {address}, api_key: none}}
storage:
  auto_vacuum: false
"""
OFFLINE = {"HF_HUB_OFFLINE": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with embedding_server() as server:
        yield server


def with_vectors(made: NewRagDocument) -> NewRagDocument:
    return replace(made, chunks=[replace(chunk, embedding=vector_of(chunk.content)) for chunk in made.chunks])


@pytest.fixture
async def db(tmp_path: Path, server: EmbeddingServer) -> Path:
    """Two documents, embedded by a server on loopback that speaks as OpenAI does."""
    texts = {"cats": "cats sleep on warm sofas", "databases": QUESTION}
    documents = [with_vectors(document(name, text)) for name, text in texts.items()]
    await write_documents(
        tmp_path / "library", EmbeddingIdentity("openai", "words", DIM), documents, fence=SoleWriter()
    )
    settings = CONFIG.format(provider="openai", model="words", dim=DIM, address=f"{server.address}/v1")
    (tmp_path / "haiku.yaml").write_text(settings)
    return tmp_path / "library"


async def haiku_rag(db: Path, *arguments: str) -> str:
    environment = {**os.environ, **OFFLINE, "no_proxy": "127.0.0.1", "COLUMNS": "200", "LOGFIRE_IGNORE_NO_CONFIG": "1"}
    command = (str(COMMAND), "--config", str(db.with_name("haiku.yaml")), "--read-only", *arguments, "--db", str(db))
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def test_it_searches_by_meaning_and_words(db: Path, server: EmbeddingServer) -> None:
    printed = await haiku_rag(db, "search", "--limit", "1", QUESTION)
    assert "/shelf/databases.md" in printed
    assert "Databases" in printed
    assert "cats" not in printed
    assert [body["input"] for body in server.asked] == [[QUESTION]]


@pytest.mark.slow
async def test_it_lists_shows_and_checks_what_was_written(db: Path) -> None:
    words = await haiku_rag(db, "search", "--search-type", "fts", "warm sofas")
    assert "/shelf/cats.md" in words
    assert "/shelf/databases.md" not in words
    listed = await haiku_rag(db, "list")
    assert "/shelf/cats.md" in listed
    assert "/shelf/databases.md" in listed
    assert "cats sleep on warm sofas" in await haiku_rag(db, "get", rag_id("sha256-cats"))
    info = await haiku_rag(db, "info")
    assert "openai/words" in info
    assert "Database is up to date" in info
