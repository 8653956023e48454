"""One try: the request, what of the answer is kept, and what it means.

| answer | means |
|---|---|
| 2xx, whole | delivered |
| 410 | the receiver wants no more: given up at once |
| an address that is not allowed, a key that is not known | given up at once: a setting must change first |
| anything else, a redirect among it | tried again later: a receiver may be mended, also one that answers 404 |
| none, one that breaks off, or one that takes too long | tried again later, under the same `webhook-id` |
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

import httpx

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.guarded_http import ForbiddenAddressError
from soliplex.ingester.lib.http_statuses import FIRST_OF_SERVERS, wait_asked_for
from soliplex.ingester.lib.wf.execution import storable_text

KEPT_OF_ANSWER: Final = 500
"""Bytes of an answer that are recorded."""
LARGEST_ANSWER: Final = 64 * 1024
"""Bytes of an answer that are read, so that its connection can be used again."""


class Verdict(Enum):
    """What a try means for its message."""

    DELIVERED = auto()
    AGAIN = auto()
    GIVE_UP = auto()


@dataclass(frozen=True, slots=True)
class Try:
    """What came of a try."""

    verdict: Verdict
    host_works: bool
    """Whether the host answered as one that is well, whatever it said."""
    status: int | None = None
    answer: str | None = None
    error: str | None = None
    retry_after: timedelta | None = None
    """How long the receiver asks to be left alone, if it said so."""

    def record(self, at: datetime, seconds: float) -> dict[str, Any]:
        """As it is stored with the message."""
        facts = {"status": self.status, "answer": self.answer, "error": self.error}
        kept = {name: value for name, value in facts.items() if value is not None}
        return {"at": at.isoformat(timespec="milliseconds"), "seconds": round(seconds, 3), **kept}


async def post(
    client: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str], *, limit: timedelta
) -> Try:
    """Send a message once. Never raises for what a receiver does."""
    try:
        async with asyncio.timeout(limit.total_seconds()):
            return await _answered(client, url, body, headers, limit)
    except TimeoutError:
        return _in_vain(f"no answer within {limit.total_seconds():g} seconds")
    except ForbiddenAddressError as exc:
        return Try(Verdict.GIVE_UP, host_works=True, error=str(exc))
    except ConfigurationError as exc:
        return Try(Verdict.GIVE_UP, host_works=True, error=str(exc))
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as exc:
        return _in_vain(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__)


def given_up(error: str) -> Try:
    """What stands for a try that was not made, because it could not be or because it would be in vain."""
    return Try(Verdict.GIVE_UP, host_works=True, error=error)


def _in_vain(error: str) -> Try:
    return Try(Verdict.AGAIN, host_works=False, error=storable_text(error)[:KEPT_OF_ANSWER])


async def _answered(
    client: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str], limit: timedelta
) -> Try:
    # The client's own limit on silence may be shorter than what a receiver is given.
    timeout = limit.total_seconds()
    async with client.stream("POST", url, content=body, headers=dict(headers), timeout=timeout) as response:
        answer = await _beginning(response)
    status = response.status_code
    is_gone = status == HTTPStatus.GONE
    verdict = Verdict.DELIVERED if response.is_success else Verdict.GIVE_UP if is_gone else Verdict.AGAIN
    return Try(
        verdict,
        host_works=status < FIRST_OF_SERVERS,
        status=status,
        answer=storable_text(answer[:KEPT_OF_ANSWER].decode(errors="replace")),
        error="the receiver is gone for good" if is_gone else None,
        retry_after=wait_asked_for(response.headers),
    )


async def _beginning(response: httpx.Response) -> bytes:
    """The beginning of the answer's body.

    An answer that breaks off before its end raises, since it may not mean what it says.
    """
    read = bytearray()
    async for part in response.aiter_raw():
        read += part
        if len(read) > LARGEST_ANSWER:
            break
    return bytes(read)
