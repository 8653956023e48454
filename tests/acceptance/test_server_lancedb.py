"""`/api/v1/lancedb`: the RAG databases, over HTTP, on a real one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.models import ResourceLockKind
from tests.support.rag_databases import DIMENSIONS

L = "/api/v1/lancedb"


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough: of the database these routes use only the locks, which have tests of their own."""
    path = tmp_path / "documents.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
def papers(client: httpx.AsyncClient, filled: Path) -> Path:
    path = Path(rag.rag_path("papers"))
    shutil.copytree(filled, path)
    return path


async def test_databases_are_listed_with_their_size(client: httpx.AsyncClient, papers: Path) -> None:
    answer = (await client.get(f"{L}/list")).json()
    assert (answer["status"], answer["database_count"], answer["lancedb_dir"]) == ("ok", 1, str(papers.parent))
    (database,) = answer["databases"]
    assert (database["name"], database["path"]) == ("papers", str(papers))
    assert database["size_bytes"] > 1000
    assert database["size_human"].endswith("KiB")


async def test_without_databases_the_list_is_empty(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{L}/list")).json()["databases"] == []


async def test_a_database_tells_what_it_holds(client: httpx.AsyncClient, papers: Path) -> None:
    info = (await client.get(f"{L}/info", params={"db": "papers"})).json()
    assert (info["status"], info["path"]) == ("ok", str(papers))
    assert info["embeddings"] == {"provider": "ollama", "model": "tiny", "vector_dim": DIMENSIONS}
    assert (info["documents"]["count"], info["chunks"]["count"]) == (3, 3)
    assert info["vector_index"] == {"exists": False, "indexed_rows": 0, "unindexed_rows": 0}
    assert info["versions"].keys() == {"lancedb", "haiku_rag", "stored_version"}
    assert {"documents", "chunks"} <= set(info["tables"])


@pytest.mark.parametrize(
    ("query", "count", "shown"),
    [
        ({}, 3, 3),
        ({"limit": 2}, 3, 2),
        ({"limit": 2, "offset": 2}, 3, 1),
        ({"filter": "uri = '/1.pdf'"}, 1, 1),
        ({"filter": "title LIKE 'Report%' AND uri != '/0.pdf'"}, 2, 2),
        ({"filter": "created_at >= '2020-01-01'"}, 3, 3),
        ({"filter": "uri = ' OR 1=1 --'"}, 0, 0),
    ],
)
async def test_documents_are_listed_and_filtered(
    client: httpx.AsyncClient, papers: Path, query: dict[str, Any], count: int, shown: int
) -> None:
    answer = (await client.get(f"{L}/documents", params={"db": "papers", **query})).json()
    assert (answer["status"], answer["document_count"], len(answer["documents"])) == ("ok", count, shown)
    for document in answer["documents"]:
        assert document["title"].startswith("Report")
        assert "number" in document["metadata"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_database_is_vacuumed(client: httpx.AsyncClient, papers: Path, method: str) -> None:
    answer = await client.request(method, f"{L}/vacuum", params={"db": "papers"})
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert (await client.get("/api/v1/locks")).json() == []
    assert (await client.get(f"{L}/info", params={"db": "papers"})).json()["documents"]["versions"] == 1


async def test_a_database_that_another_holds_is_not_vacuumed(client: httpx.AsyncClient, papers: Path) -> None:
    async with rag.hold_rag_lock(papers, holder_kind=ResourceLockKind.CLI, max_wait=0) as lock:
        answer = await client.get(f"{L}/vacuum", params={"db": "papers"})
    assert (answer.status_code, answer.json()["status"]) == (409, "locked")
    assert answer.json()["holder"]["holder_id"] == lock.holder_id
    assert "is in use by cli" in answer.json()["error"]


@pytest.mark.parametrize("name", ["nothing", "..", ".", "../papers", "/etc", "a/../papers", "papers/..", "a\\b"])
@pytest.mark.parametrize("path", ["info", "documents", "vacuum"])
async def test_a_name_never_leads_elsewhere(client: httpx.AsyncClient, path: str, name: str) -> None:
    answer = await client.get(f"{L}/{path}", params={"db": name})
    assert answer.status_code == 404
    assert "does not exist" in answer.json()["error"]
    assert path != "vacuum" or answer.json()["status"] == "not_found"


@pytest.mark.parametrize("query", [{}, {"db": ""}, {"db": "a\x00b"}, {"db": "papers", "limit": 0}])
async def test_bad_questions_are_refused(client: httpx.AsyncClient, query: dict[str, Any]) -> None:
    assert (await client.get(f"{L}/documents", params=query)).status_code == 422


@pytest.mark.parametrize("text", ["1=1", "uri = 'a' OR 1=1", "uri = 'a'; DROP TABLE documents", "secret = 'x'"])
async def test_a_filter_is_no_sql(client: httpx.AsyncClient, papers: Path, text: str) -> None:
    answer = await client.get(f"{L}/documents", params={"db": "papers", "filter": text})
    assert answer.status_code == 400
    assert answer.json()["detail"] == {"field": "filter"}
