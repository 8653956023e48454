"""Asking a provider over HTTP, and telling failures that pass from those that stay."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httpx

from soliplex.ingester.lib.embedding.embedders import Vector
from soliplex.ingester.lib.embedding.errors import EmbedderUnavailableError, EmbeddingError, EmbeddingRefusedError
from soliplex.ingester.lib.http_statuses import may_pass, wait_asked_for

_LONGEST_ANSWER: Final = 300
"""Characters of a provider's own words that are repeated."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A server that embeds, and how it is spoken to."""

    name: str
    client: httpx.AsyncClient

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON the provider answers with."""
        try:
            response = await self.client.post(path, json=body)
        except httpx.TimeoutException as exc:
            problem = f"{self._address} did not answer within {self.client.timeout.read:g} seconds"
            raise EmbedderUnavailableError(self.name, f"{problem}; raise EMBED_HTTP_TIMEOUT_SECONDS") from exc
        except httpx.HTTPError as exc:
            problem = f"{self._address} cannot be reached ({exc or type(exc).__name__})"
            raise EmbedderUnavailableError(self.name, problem) from exc
        if not response.is_success:
            raise self._refusal(response)
        return self._json(response)

    def _refusal(self, response: httpx.Response) -> EmbeddingError:
        status = response.status_code
        problem = f"{self._address} answered {status} {response.reason_phrase}: {_words(response)}"
        # OpenAI answers 409 where two requests stand in each other's way.
        if may_pass(status) or status == HTTPStatus.CONFLICT:
            return EmbedderUnavailableError(self.name, problem, wait_asked_for(response.headers))
        return EmbeddingRefusedError(self.name, problem)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError as exc:
            # Whatever answered, a proxy or a server that starts, was not the provider.
            raise EmbedderUnavailableError(self.name, f"{self._address} answered with what is no JSON") from exc

    def vectors(self, answer: Any, *path: str) -> list[Vector]:
        """What stands at the path of an answer, if those are vectors."""
        try:
            for step in path:
                answer = answer[step]
            return [[float(number) for number in vector] for vector in answer]
        except (KeyError, TypeError, ValueError) as exc:
            problem = f"{self._address} answered without {'.'.join(path) or 'vectors'}"
            raise EmbedderUnavailableError(self.name, problem) from exc

    @property
    def _address(self) -> str:
        return str(self.client.base_url).rstrip("/")


@asynccontextmanager
async def connected(
    name: str, base_url: str, timeout_seconds: float, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[Provider]:
    async with httpx.AsyncClient(base_url=base_url, timeout=timeout_seconds, headers=headers) as client:
        yield Provider(name, client)


def _words(response: httpx.Response) -> str:
    """What a provider says about a failure: `{"error": "..."}` of Ollama, `{"error": {"message": "..."}}` of OpenAI."""
    try:
        error = response.json()["error"]
        text = error["message"] if isinstance(error, Mapping) else error
    except (ValueError, KeyError, TypeError):
        text = response.text
    return " ".join(str(text).split())[:_LONGEST_ANSWER] or "it gave no reason"
