"""Signatures as Standard Webhooks describes them: HMAC-SHA256 over id, time and body, one for each key.

Several keys sign at the same time while one takes the place of another: a receiver accepts a message if any signature
is right by the key that it knows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import datetime

from pydantic import SecretStr

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import ConfigurationError


def headers_for(webhook_id: str, body: bytes, keys: Sequence[bytes], now: datetime) -> dict[str, str]:
    """The headers by which a receiver knows a message, and that it is ours."""
    timestamp = str(int(now.timestamp()))
    headers = {"webhook-id": webhook_id, "webhook-timestamp": timestamp}
    if keys:
        signed = b".".join((webhook_id.encode(), timestamp.encode(), body))
        headers["webhook-signature"] = " ".join(_signature(key, signed) for key in keys)
    return headers


def _signature(key: bytes, signed: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def keys_named(name: str | None, settings: Settings) -> list[bytes]:
    """The keys that sign; none, where webhooks are not signed. Raises if the settings do not know the name."""
    if name is None:
        return _keys_in(settings.webhook_signing_secret)
    named = settings.webhook_secrets
    known: dict[str, str] = {} if named is None else json.loads(named.get_secret_value())
    if name not in known:
        raise ConfigurationError("WEBHOOK_SECRETS", f"has no key named {name!r}", "add it, or name another")
    return _keys_in(SecretStr(known[name]))


def _keys_in(secrets: SecretStr | None) -> list[bytes]:
    """The settings have checked that each is base64."""
    texts = [] if secrets is None else secrets.get_secret_value().split(",")
    return [base64.b64decode(text.strip().removeprefix("whsec_")) for text in texts]
