"""What is to be sent: checked when it is made, before anything is stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import checked_key, checked_name, checked_uri, see_storable_text

LARGEST_BODY: Final = 32 << 20
"""Bytes of a message's body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A webhook to send. What is wrong with it is said at once, by an `InvalidInputError` that names the field."""

    stream: str
    """Messages of one stream, such as those about one job, arrive one after the other, in the order of enqueueing."""
    url: str
    event_type: str
    """What happened, such as `job.completed`: for people who look at deliveries. It is not sent."""
    body: Any
    """Sent as JSON."""
    secret: str | None = None
    """The name of a key in WEBHOOK_SECRETS that signs it; None for WEBHOOK_SIGNING_SECRET."""
    key: str | None = None
    """A message of the stream with the same key is enqueued once, however often it is asked for."""
    text: str = field(init=False, repr=False)
    """The body as it is sent."""

    def __post_init__(self) -> None:
        checked_key(self.stream, "stream")
        checked_name("event_type", self.event_type)
        check_url(self.url)
        if self.key is not None:
            checked_key(self.key)
        object.__setattr__(self, "text", _json_of(self.body))

    @property
    def host(self) -> str:
        return host_of(self.url)

    def new_webhook_id(self) -> str:
        """What the receiver knows it by; the same for the same key of the same stream."""
        if self.key is None:
            return f"msg_{uuid4().hex}"
        return "msg_" + hashlib.sha256(f"{self.stream}\0{self.key}".encode()).hexdigest()[:32]


def check_url(url: str, name: str = "url") -> str:
    """Refuse what is not the address of an HTTP server."""
    checked_uri(url, name)
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or any(character.isspace() or not character.isprintable() for character in url):
        raise InvalidInputError(name, "must be an address such as https://example.org/hooks")
    return url


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def server_of(url: str) -> str:
    """The host, and its port where the address names one: what listens at another port may work all the same."""
    port = urlsplit(url).port
    return host_of(url) if port is None else f"{host_of(url)}:{port}"


def _json_of(body: Any) -> str:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError("body", f"cannot be written as JSON: {exc}") from exc
    see_storable_text("body", text)
    if len(text.encode()) > LARGEST_BODY:
        raise InvalidInputError(
            "body", f"is larger than {LARGEST_BODY} bytes of JSON; send the address of what is larger"
        )
    return text
