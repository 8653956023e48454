"""Searching over HTTP and on the command line, in a real RAG database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.rag.fencing import SoleWriter
from tests.integration.test_rag import document
from tests.support.command_line import CommandLine
from tests.support.serving import serving

S = "/api/v1/search"
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embedded by WordLlama, which answers at once."""
    import asyncio

    path = tmp_path_factory.mktemp("search") / "library"
    asyncio.run(_write(path))
    return path


async def _write(path: Path) -> None:
    from dataclasses import replace

    from soliplex.ingester.lib.embedding import EmbedOptions, open_embedder
    from soliplex.ingester.lib.rag.writing import write_documents
    from soliplex.ingester.lib.vectors import identity_of

    options = EmbedOptions(provider="wordllama")
    documents = [
        document("bees", "on a warm day the bees leave the hive", source="garden", batch_id=1, author="Ada"),
        document("bread", "sourdough needs flour and patience", source="kitchen", batch_id=2, pages=12),
    ]
    async with open_embedder(options) as embedder:
        for number, each in enumerate(documents):
            vectors = await embedder.embed([chunk.content for chunk in each.chunks])
            chunks = [replace(chunk, embedding=vector) for chunk, vector in zip(each.chunks, vectors, strict=True)]
            documents[number] = replace(each, chunks=chunks)
    await write_documents(path, await identity_of(options), documents, fence=SoleWriter())


@pytest.fixture
def stored(library: Path) -> None:
    shutil.copytree(library, rag_path("library"))


async def ask(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get(S, params={"db": "library", **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("kind", ["vector", "text", "hybrid"])
async def test_passages_are_found_with_their_place(client: httpx.AsyncClient, stored: None, kind: str) -> None:
    answer = await ask(client, q="when do bees leave the hive", kind=kind)
    assert (answer["query"], answer["db"], answer["kind"]) == ("when do bees leave the hive", "library", kind)
    best = answer["results"][0]
    assert (best["uri"], best["title"], best["source"]) == ("/garden/bees.md", "Bees", "garden")
    assert (best["headings"], best["page_numbers"]) == (["Bees"], [1])
    assert best["snippet"] == best["content"] == "on a warm day the bees leave the hive"
    assert best["places"] == [{"uri": "/garden/bees.md", "source": "garden", "batch_id": 1}]
    assert best["sources"] == ["garden"]
    assert best["score"] > 0


async def test_a_chunk_is_found_by_the_ids_of_a_hit(client: httpx.AsyncClient, stored: None) -> None:
    (hit,) = (await ask(client, q="sourdough", kind="text"))["results"]
    for chunk_id, options in (
        (hit["chunk_id"], {}),
        (hit["rag_chunk_id"], {}),
        (hit["chunk_id"], {"doc_hash": hit["doc_hash"]}),
    ):
        answer = await client.get(f"/api/v1/chunk/{chunk_id}", params={"db": "library", **options})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["chunk_id"], found["content"]) == (hit["chunk_id"], hit["content"])
        assert [each["places"] for each in found["documents"]] == [hit["places"]]
    for path, options in (("nobody", {"db": "library"}), (hit["chunk_id"], {"db": "nothing"})):
        answer = await client.get(f"/api/v1/chunk/{path}", params=options)
        assert answer.status_code == 404


async def test_only_hits_of_at_least_a_score_are_given(client: httpx.AsyncClient, stored: None) -> None:
    every = (await ask(client, q="bees leave the hive", kind="hybrid"))["results"]
    assert len(every) == 2
    least = max(hit["score"] for hit in every)
    found = await ask(client, q="bees leave the hive", kind="hybrid", min_score=least)
    assert [hit["uri"] for hit in found["results"]] == ["/garden/bees.md"]


def test_the_command_line_takes_a_least_score(commands: CommandLine, stored: None) -> None:
    question = ("si-cli", "search", "bees leave the hive", "--db", "library", "--json")
    every = commands(*question).json
    least = max(hit["score"] for hit in every)
    assert [hit["uri"] for hit in commands(*question, "--min-score", str(least)).json] == ["/garden/bees.md"]
    for options in (["--min-score", "1.5"], ["--min-score", "-0.1", "--kind", "text"], ["--min-score", "nan"]):
        refused = commands(*question, *options)
        assert (refused.code, "--min-score" in refused.err) == (2, True), refused.err


FILTERS = [
    ({"source": "kitchen"}, ["--source", "kitchen"], ["/kitchen/bread.md"]),
    ({"batch_id": 1}, ["--batch", "1"], ["/garden/bees.md"]),
    ({"uri_prefix": "/kit"}, ["--uri-prefix", "/kit"], ["/kitchen/bread.md"]),
    ({"meta": "author=Ada"}, ["--meta", "author=Ada"], ["/garden/bees.md"]),
    ({"meta": ["author=Ada", "pages=12"]}, ["--meta", "author=Ada", "--meta", "pages=12"], []),
    ({"meta": "pages=12"}, ["--meta", "pages=12"], ["/kitchen/bread.md"]),
    ({"source": "x' OR true OR source='"}, ["--source", "x' OR true OR source='"], []),
    ({"meta": "a' OR true --=b' OR true --"}, ["--meta", "a' OR true --=b' OR true --"], []),
]
QUESTION = "bees sourdough"


async def test_every_filter_bounds_a_search_over_http(client: httpx.AsyncClient, stored: None) -> None:
    for query, _, expected in FILTERS:
        answer = await ask(client, q=QUESTION, kind="text", **query)
        assert [hit["uri"] for hit in answer["results"]] == expected, query


def test_every_filter_bounds_a_search_on_the_command_line(commands: CommandLine, stored: None) -> None:
    for _, options, expected in FILTERS:
        answer = commands("si-cli", "search", QUESTION, "--db", "library", "--kind", "text", "--json", *options)
        assert [hit["uri"] for hit in answer.json] == expected, options
        assert answer.code == (0 if expected else 1)


def test_a_server_is_asked_as_this_installation_is(commands: CommandLine, stored: None, tmp_path: Path) -> None:
    question = ("si-cli", "search", QUESTION, "--db", "library", "--kind", "text", "--json")
    here = commands(*question, "--meta", "pages=12", "--source", "kitchen")
    environment = {"DOC_DB_URL": commands.url, "LANCEDB_DIR": str(get_settings().lancedb_dir)}
    with serving(tmp_path / "server", "--no-worker", environment=environment) as server:
        there = commands(*question, "--meta", "pages=12", "--source", "kitchen", "--server", server.url)
        missed = commands("si-cli", "search", "x", "--db", "nothing", "--server", server.url)
    assert there.json == here.json
    assert [hit["uri"] for hit in there.json] == ["/kitchen/bread.md"]
    assert (missed.code, "nothing" in missed.err) == (1, True)


def test_results_are_printed_for_people(commands: CommandLine, stored: None) -> None:
    answer = commands("si-cli", "search", "sourdough", "--db", "library", "--kind", "text")
    assert "1. Bread" in answer.words
    assert "page 1" in answer.words
    assert "/kitchen/bread.md" in answer.words


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"q": "   "}, 400, "q"),
        ({"q": "x" * 2_049}, 422, "q"),
        ({"q": "x", "kind": "magic"}, 422, "kind"),
        ({"q": "x", "limit": 0}, 422, "limit"),
        ({"q": "x", "meta": "novalue"}, 422, "meta"),
        ({"q": "x", "min_score": 1.5}, 400, "min_score"),
        ({"q": "x", "min_score": -2, "kind": "vector"}, 400, "min_score"),
        ({"q": "x", "min_score": -0.1, "kind": "text"}, 400, "min_score"),
        ({"q": "x", "min_score": "inf", "kind": "text"}, 422, "min_score"),
        ({"q": "x", "min_score": "high"}, 422, "min_score"),
        ({"q": "x", "db": "../library"}, 404, "../library"),
        ({"q": "x", "db": "nothing"}, 404, "nothing"),
    ],
)
async def test_bad_questions_are_refused_by_name(
    client: httpx.AsyncClient, stored: None, query: dict[str, Any], status: int, field: str
) -> None:
    answer = await client.get(S, params={"db": "library", **query})
    assert answer.status_code == status
    assert field in answer.text


@pytest.mark.parametrize(
    "q", ["'", '"', "\\", "%", "(", "AND", "a:b", "-", "😀", "日本", '"unclosed phrase', "x" * 2000]
)
async def test_any_text_is_a_question(client: httpx.AsyncClient, stored: None, q: str) -> None:
    for kind in ("text", "hybrid"):
        await ask(client, q=q, kind=kind)


async def test_a_database_that_was_searched_and_deleted_is_missed(client: httpx.AsyncClient, stored: None) -> None:
    await ask(client, q="bees", kind="text")
    shutil.rmtree(rag_path("library"))
    assert (await client.get(S, params={"db": "library", "q": "bees"})).status_code == 404
