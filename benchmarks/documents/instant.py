"""An embedding provider whose vectors cost nothing, `instant`: for who asks for it, and for the worker that embeds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

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


def know_instant() -> None:
    """Let this process know the provider; else it refuses parameters that name it."""
    PROVIDERS["instant"] = open_instant
