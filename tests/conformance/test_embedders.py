"""Every provider embeds alike: as many vectors as texts, in their order, of one length, the same for the same text."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.embedding import (
    Embedder,
    EmbeddingRefusedError,
    EmbedOptions,
    Vector,
    minilm_weights,
    open_embedder,
)
from soliplex.ingester.lib.embedding.embedders import dimension_of
from soliplex.ingester.lib.embedding.minilm_weights import ForeignWeightsError
from soliplex.ingester.lib.embedding.registry import PROVIDERS, provider_of
from soliplex.ingester.lib.minilm import LONGEST
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from tests.support.embedding_server import EmbeddingServer, embedding_server

LOCAL = ["local", "local-fp32", "wordllama"]

OPTIONS: dict[str, dict[str, object]] = {
    "local": {"provider": "local"},
    "local-fp32": {"model": "sentence-transformers/all-MiniLM-L6-v2", "precision": "fp32"},
    "wordllama": {"provider": "wordllama"},
    "ollama": {"provider": "ollama", "model": "nomic-embed-text", "batch_size": 2},
    "openai": {"model": "text-embedding-3-small", "batch_size": 4},
}


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with embedding_server() as fake:
        yield fake


def settings_for(server: EmbeddingServer) -> Settings:
    v1 = f"{server.address}/v1"
    return load_settings(ollama_base_url=server.address, openai_base_url=v1, openai_api_key="k")


@pytest.fixture(params=list(OPTIONS))
async def embedder(request: pytest.FixtureRequest, server: EmbeddingServer) -> AsyncIterator[Embedder]:
    async with open_embedder(EmbedOptions.read(OPTIONS[request.param]), settings_for(server)) as opened:
        yield opened


def cosine(one: Vector, other: Vector) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)


async def test_there_is_one_vector_for_each_text_in_its_place(embedder: Embedder) -> None:
    texts = [
        "short",
        "a somewhat longer text than the first one " * 8,
        "",
        "short",
        "x" * 300,
        "\u6f22\u5b57 \U0001f600",
    ]
    vectors = await embedder.embed(texts)
    assert len(vectors) == len(texts)
    assert {len(vector) for vector in vectors} == {await dimension_of(embedder)}
    assert cosine(vectors[0], vectors[3]) > 0.999
    assert all(math.isfinite(number) for vector in vectors for number in vector)


async def test_no_text_gives_no_vector(embedder: Embedder) -> None:
    assert await embedder.embed([]) == []


async def test_calls_at_the_same_time_do_not_mix(embedder: Embedder) -> None:
    alone = [(await embedder.embed([f"text {number}"]))[0] for number in range(4)]
    together = await asyncio.gather(*(embedder.embed([f"text {number}"]) for number in range(4)))
    assert all(cosine(one, both[0]) > 0.999 for one, both in zip(alone, together, strict=True))


async def test_a_provider_has_a_name_and_a_model(embedder: Embedder) -> None:
    assert embedder.name in PROVIDERS
    assert embedder.model


@pytest.mark.parametrize("name", LOCAL)
async def test_close_meanings_have_close_vectors(name: str) -> None:
    async with open_embedder(EmbedOptions.read(OPTIONS[name])) as embedder:
        cat, kitten, database = await embedder.embed(
            ["The cat sleeps on the sofa.", "A kitten is napping on a couch.", "PostgreSQL writes ahead to its log."]
        )
    assert cosine(cat, kitten) > cosine(cat, database) + 0.2


async def test_rounding_to_int8_changes_little() -> None:
    texts = [
        f"Sentence {number} is about the {word} of things." for number, word in enumerate(["size", "age", "price"])
    ]
    async with AsyncExitStack() as stack:
        exact, rounded = [
            await (await stack.enter_async_context(open_embedder(EmbedOptions.read({"precision": it})))).embed(texts)
            for it in ("fp32", "int8")
        ]
    assert all(cosine(one, other) > 0.98 for one, other in zip(exact, rounded, strict=True))


async def test_the_local_model_gives_the_vectors_it_is_known_for() -> None:
    """The first numbers as sentence-transformers computes them, and the similarity of a pair; weights are rounded."""
    async with open_embedder(EmbedOptions.read({"precision": "fp32"})) as embedder:
        one, two = await embedder.embed(["This is an example sentence", "Each sentence is converted"])
    assert one[:4] == pytest.approx([0.0677, 0.0635, 0.0487, 0.0793], abs=4e-3)
    assert cosine(one, two) == pytest.approx(0.38, abs=0.1)
    assert math.hypot(*one) == pytest.approx(1, abs=1e-5)


def test_other_weights_than_the_known_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"others")
    with pytest.raises(ForeignWeightsError, match=r"not the weights that this release knows.*reinstall"):
        minilm_weights.load(tmp_path / "model.onnx")


async def test_text_beyond_what_the_local_model_reads_changes_nothing() -> None:
    text = "word " * (LONGEST + 10)
    async with open_embedder(EmbedOptions.read({"precision": "fp32"})) as embedder:
        longer, longest = await embedder.embed([text, text + "and something else entirely"])
    assert cosine(longer, longest) > 0.99999


async def test_the_vector_of_a_text_does_not_depend_on_its_neighbours() -> None:
    async with open_embedder(EmbedOptions.read({"provider": "local"})) as embedder:
        (alone,) = await embedder.embed(["The engine claims steps in batches."])
        together = await embedder.embed(
            ["The engine claims steps in batches.", *(f"filler {it} " * 40 for it in range(30))]
        )
    assert alone == together[0]


@pytest.mark.parametrize(
    ("options", "provider"),
    [
        ({}, "local"),
        ({"model": "all-MiniLM-L6-v2"}, "local"),
        ({"model": "wordllama"}, "wordllama"),
        ({"provider": "wordllama", "model": "l2_supercat"}, "wordllama"),
        ({"model": "text-embedding-3-small", "batch_size": 1000}, "openai"),
        ({"provider": "ollama", "model": "qwen3-embedding:4b", "vector_dim": 2560}, "ollama"),
    ],
)
def test_the_provider_follows_from_the_model_where_nobody_names_it(options: dict[str, str], provider: str) -> None:
    assert provider_of(EmbedOptions.read(options)) == provider


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"provider": "lokal"}, "embed.provider: 'lokal' is none; did you mean 'local'?"),
        ({"model": "mystery"}, "embed.provider: who runs the model 'mystery'?"),
        ({"vector_dim": 0}, "embed.vector_dim: Input should be greater than or equal to 1, not 0"),
        ({"precision": "int4"}, "embed.precision: Input should be 'fp32' or 'int8', not 'int4'"),
    ],
)
async def test_a_wrong_parameter_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidStepOptionError) as caught:
        open_embedder(EmbedOptions.read(options))
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "options",
    [
        {"provider": "local", "model": "bge-small"},
        {"provider": "local", "vector_dim": 768},
        {"provider": "wordllama", "vector_dim": 100},
        {"provider": "wordllama", "model": "other"},
    ],
)
async def test_what_a_provider_does_not_have_it_says(options: dict[str, object]) -> None:
    with pytest.raises(EmbeddingRefusedError, match="not"):
        async with open_embedder(EmbedOptions.read(options)):
            pass
