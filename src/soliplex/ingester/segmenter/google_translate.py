"""Google Cloud Translate, asked for the language of a text (its REST interface, version 2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.language import known_code


class LanguageServiceError(IngesterError):
    """Google did not tell the language. The text and the key are not repeated."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Google Cloud Translate: {problem}")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class GoogleTranslate:
    """A connection to the service."""

    client: httpx.AsyncClient

    async def language_of(self, text: str) -> str | None:
        """The code by ISO 639-1; None where Google does not know either. Raises LanguageServiceError."""
        try:
            response = await self.client.post("/language/translate/v2/detect", json={"q": [text]})
        except httpx.TimeoutException as exc:
            raise LanguageServiceError("no answer in time; see LANGUAGE_DETECT_GOOGLE_TIMEOUT_SECONDS") from exc
        except httpx.HTTPError as exc:
            raise LanguageServiceError("it cannot be reached; see GOOGLE_TRANSLATE_URL") from exc
        if not response.is_success:
            raise LanguageServiceError(f"it answered {response.status_code}; see GOOGLE_TRANSLATE_API_KEY")
        return known_code(_language(response))


@asynccontextmanager
async def connected(base_url: str, api_key: str, timeout_seconds: float) -> AsyncGenerator[GoogleTranslate]:
    # In a header: addresses get into logs.
    headers = {"X-Goog-Api-Key": api_key}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=timeout_seconds) as client:
        yield GoogleTranslate(client)


def _language(response: httpx.Response) -> str:
    try:
        answer: Any = response.json()
        return str(answer["data"]["detections"][0][0]["language"])
    except (ValueError, KeyError, IndexError, TypeError) as exc:
        raise LanguageServiceError("its answer names no language") from exc
