"""`ollama`: models that an Ollama server runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, override

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding.embedders import Vector
from soliplex.ingester.lib.embedding.http import connected
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.embedding.remote import RemoteEmbedder
from soliplex.ingester.lib.step_options import InvalidStepOptionError

NAME: Final = "ollama"


class OllamaEmbedder(RemoteEmbedder):
    """Speaks `POST /api/embed`; texts longer than the model reads are cut by the server."""

    @override
    async def _ask(self, texts: list[str]) -> list[Vector]:
        answer = await self._provider.ask("/api/embed", {"model": self.model, "input": texts, "truncate": True})
        return self._provider.vectors(answer, "embeddings")


@asynccontextmanager
async def open_ollama(options: EmbedOptions, settings: Settings) -> AsyncGenerator[OllamaEmbedder]:
    if options.model is None:
        raise InvalidStepOptionError("embed.model", "Ollama has many; name one, such as nomic-embed-text")
    # People write the address with or without the path of the OpenAI-compatible half.
    address = settings.ollama_base_url.rstrip("/").removesuffix("/v1").removesuffix("/api")
    async with connected(NAME, address, settings.embed_http_timeout_seconds) as provider:
        batch_size = options.batch_size or settings.embed_batch_size
        yield OllamaEmbedder(provider, options.model, dim=options.vector_dim, batch_size=batch_size)
