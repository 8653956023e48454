"""`openai`: OpenAI, or any server that speaks like it (vLLM, LM Studio, llama.cpp, a gateway)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, override

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding.embedders import Vector
from soliplex.ingester.lib.embedding.errors import EmbedderUnavailableError
from soliplex.ingester.lib.embedding.http import connected
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.embedding.remote import RemoteEmbedder
from soliplex.ingester.lib.errors import ConfigurationError

NAME: Final = "openai"
DEFAULT_MODEL: Final = "text-embedding-3-small"
_ADDRESS: Final = "https://api.openai.com/v1"
_MOST_TEXTS: Final = 2048
"""Texts in one call: OpenAI refuses more."""
_CAN_SHORTEN: Final = "text-embedding-3"
"""Models that give vectors of the length one asks for; others refuse to be asked."""


class OpenAIEmbedder(RemoteEmbedder):
    """Speaks `POST /embeddings`."""

    @override
    async def _ask(self, texts: list[str]) -> list[Vector]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._asked_dim is not None and self.model.startswith(_CAN_SHORTEN):
            body["dimensions"] = self._asked_dim
        return self._provider.vectors(self._in_order(await self._provider.ask("/embeddings", body)))

    def _in_order(self, answer: Any) -> list[Any]:
        """The protocol numbers the vectors, and does not promise their order."""
        try:
            return [item["embedding"] for item in sorted(answer["data"], key=lambda item: item["index"])]
        except (KeyError, TypeError) as exc:
            raise EmbedderUnavailableError(self.name, "its answer has no data with index and embedding") from exc


@asynccontextmanager
async def open_openai(options: EmbedOptions, settings: Settings) -> AsyncGenerator[OpenAIEmbedder]:
    address = settings.embed_llm_url or settings.openai_base_url or _ADDRESS
    async with connected(NAME, address, settings.embed_http_timeout_seconds, _headers(address, settings)) as provider:
        yield OpenAIEmbedder(
            provider,
            options.model or DEFAULT_MODEL,
            dim=options.vector_dim,
            batch_size=min(options.batch_size or settings.embed_batch_size, _MOST_TEXTS),
        )


def _headers(address: str, settings: Settings) -> dict[str, str]:
    key = settings.openai_api_key
    if key is not None:
        return {"Authorization": f"Bearer {key.get_secret_value()}"}
    if address == _ADDRESS:
        raise ConfigurationError("OPENAI_API_KEY", "it is not set", "set it, or name another server in EMBED_LLM_URL")
    return {}
