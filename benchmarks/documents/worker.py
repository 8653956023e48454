"""`si-cli worker`, which knows one embedding provider more: `instant`, whose vectors cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from soliplex.ingester.cli.worker import worker
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding import PROVIDERS, EmbedOptions, Vector


class InstantEmbedder:
    """Gives every text the same vector. It is recorded as a provider that haiku.rag knows."""

    name = "openai"
    model = "instant"
    dim = 384

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [[0.05] * self.dim for _ in texts]


@asynccontextmanager
async def open_instant(_options: EmbedOptions, _settings: Settings) -> AsyncGenerator[InstantEmbedder]:
    yield InstantEmbedder()


if __name__ == "__main__":
    PROVIDERS["instant"] = open_instant
    asyncio.run(worker(stop_timeout=1))
