"""Providers over HTTP: what is sent, and which of their failures are worth another try."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.embedding import (
    EmbedderUnavailableError,
    EmbeddingRefusedError,
    EmbedOptions,
    Vector,
    dimension_of,
    open_embedder,
)
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.http_statuses import PASSING
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.wf.errors import PermanentError
from tests.support.embedding_server import DIM, EmbeddingServer, Failure, embedding_server, vector_of
from tests.support.tcp import listening

OLLAMA = {"provider": "ollama", "model": "nomic-embed-text"}
OPENAI = {"provider": "openai", "model": "text-embedding-3-small"}


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with embedding_server() as fake:
        yield fake


def settings_for(server: EmbeddingServer, **changed: Any) -> Settings:
    given: dict[str, Any] = {"ollama_base_url": server.address, "embed_llm_url": f"{server.address}/v1"}
    given |= {"openai_api_key": "k", **changed}
    return load_settings(**given)


async def embed(texts: list[str], options: dict[str, Any], settings: Settings) -> list[Vector]:
    async with open_embedder(EmbedOptions.read(options), settings) as embedder:
        return await embedder.embed(texts)


@pytest.mark.parametrize("options", [OLLAMA, OPENAI], ids=["ollama", "openai"])
async def test_texts_go_in_calls_of_at_most_the_batch_size_and_come_back_in_order(
    server: EmbeddingServer, options: dict[str, Any]
) -> None:
    texts = [f"text {number}" for number in range(5)]
    found = await embed(texts, {**options, "batch_size": 2}, settings_for(server))
    assert found == [vector_of(text) for text in texts]
    assert [len(body["input"]) for body in server.asked] == [2, 2, 1]
    assert {body["model"] for body in server.asked} == {options["model"]}


async def test_the_setting_holds_where_no_batch_size_is_given(server: EmbeddingServer) -> None:
    await embed(["a", "b", "c"], OPENAI, settings_for(server, embed_batch_size=2))
    assert [len(body["input"]) for body in server.asked] == [2, 1]


async def test_openai_gets_its_key_and_the_dimension_only_where_a_model_can_shorten(server: EmbeddingServer) -> None:
    settings = settings_for(server, openai_api_key="secret")
    (vector,) = await embed(["a"], {**OPENAI, "vector_dim": 4}, settings)
    assert (len(vector), server.asked[-1]["dimensions"]) == (4, 4)
    assert server.headers[-1]["authorization"] == "Bearer secret"
    await embed(["a"], {"provider": "openai", "model": "bge-m3", "vector_dim": DIM}, settings)
    assert "dimensions" not in server.asked[-1]


async def test_a_server_that_only_speaks_like_openai_needs_no_key(server: EmbeddingServer) -> None:
    await embed(["a"], OPENAI, load_settings(embed_llm_url=f"{server.address}/v1"))
    assert "authorization" not in server.headers[-1]


async def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY: it is not set"):
        await embed(["a"], OPENAI, load_settings())


async def test_ollama_needs_a_model(server: EmbeddingServer) -> None:
    with pytest.raises(InvalidStepOptionError, match=r"embed\.model"):
        await embed(["a"], {"provider": "ollama"}, settings_for(server))


@pytest.mark.parametrize("path", ["", "/", "/v1", "/api"])
async def test_the_address_of_ollama_may_be_written_in_several_ways(server: EmbeddingServer, path: str) -> None:
    settings = settings_for(server, ollama_base_url=server.address + path)
    assert await embed(["a"], OLLAMA, settings) == [vector_of("a")]


async def test_the_dimension_is_learnt(server: EmbeddingServer) -> None:
    async with open_embedder(EmbedOptions.read(OLLAMA), settings_for(server)) as embedder:
        assert embedder.dim is None
        assert await dimension_of(embedder) == DIM
        assert embedder.dim == DIM


@pytest.mark.parametrize("options", [OLLAMA, OPENAI], ids=["ollama", "openai"])
@pytest.mark.parametrize("status", [*PASSING, 409, 500, 529])
async def test_a_failure_that_passes_is_worth_another_try(
    server: EmbeddingServer, options: dict[str, Any], status: int
) -> None:
    server.failures.append(Failure(status, json.dumps({"error": {"message": "too busy"}}), {"Retry-After": "7"}))
    with pytest.raises(EmbedderUnavailableError, match=rf"{status}.*too busy") as caught:
        await embed(["a"], options, settings_for(server))
    assert not isinstance(caught.value, PermanentError)
    assert caught.value.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize("options", [OLLAMA, OPENAI], ids=["ollama", "openai"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refusal_is_final_and_repeats_the_providers_words(
    server: EmbeddingServer, options: dict[str, Any], status: int
) -> None:
    server.failures.append(Failure(status, json.dumps({"error": "model not found, try pulling it first"})))
    with pytest.raises(EmbeddingRefusedError, match="try pulling it first") as caught:
        await embed(["a"], options, settings_for(server))
    assert isinstance(caught.value, PermanentError)


@pytest.mark.parametrize(
    "body", ["", "<html>starting</html>", "{}", '{"embeddings": [["x"]], "data": [{}]}', "[]", "null"]
)
@pytest.mark.parametrize("options", [OLLAMA, OPENAI], ids=["ollama", "openai"])
async def test_an_answer_that_is_none_is_worth_another_try(
    server: EmbeddingServer, options: dict[str, Any], body: str
) -> None:
    server.failures.append(Failure(200, body))
    with pytest.raises(EmbedderUnavailableError):
        await embed(["a"], options, settings_for(server))


async def test_too_few_vectors_are_not_taken(server: EmbeddingServer) -> None:
    server.failures.append(Failure(200, json.dumps({"embeddings": [[1.0, 2.0]]})))
    with pytest.raises(EmbedderUnavailableError, match="1 vectors for 2 texts"):
        await embed(["a", "b"], OLLAMA, settings_for(server))


async def test_vectors_of_another_length_than_asked_for_are_refused(server: EmbeddingServer) -> None:
    with pytest.raises(EmbeddingRefusedError, match=f"vectors have {DIM} dimensions, not 768; set vector_dim: {DIM}"):
        await embed(["a"], {**OLLAMA, "vector_dim": 768}, settings_for(server))


async def test_nobody_at_the_address_is_worth_another_try() -> None:
    async with embedding_server() as gone:
        settings = settings_for(gone)
    with pytest.raises(EmbedderUnavailableError, match="cannot be reached"):
        await embed(["a"], OLLAMA, settings)


async def test_silence_ends_after_the_time_the_setting_gives() -> None:
    async def never_answer(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass

    async with listening(never_answer) as place:
        settings = load_settings(ollama_base_url=f"http://{place}", embed_http_timeout_seconds=0.05)
        with pytest.raises(EmbedderUnavailableError, match=r"within 0\.05 seconds; raise EMBED_HTTP_TIMEOUT_SECONDS"):
            await embed(["a"], OLLAMA, settings)
