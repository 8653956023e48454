"""Mail: what its headers say."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.validation.facts import Facts, tidy

LARGEST_HEAD: Final = 256 << 10


def check_mail(path: Path) -> Facts:
    """Give subject, sender and date. The body is not read here: the parser reads it, and once is enough."""
    with path.open("rb") as file:
        message = message_from_bytes(_head(file.read(LARGEST_HEAD)), EmailMessage, policy=default)
    return tidy({"title": _header(message, "Subject"), "author": _header(message, "From"), "created": _date(message)})


def _head(content: bytes) -> bytes:
    """The bytes up to the first empty line, whether lines end as on Windows or as on Unix."""
    ends = [at for mark in (b"\n\n", b"\r\n\r\n") if (at := content.find(mark)) >= 0]
    return content[: min(ends) + 1] if ends else content


def _header(message: EmailMessage, name: str) -> str | None:
    try:
        value = message[name]
    except (ValueError, IndexError, AttributeError, LookupError):
        return None  # the standard library fails on some headers that are against the rules
    return None if value is None else str(value)


def _date(message: EmailMessage) -> str | None:
    try:
        return parsedate_to_datetime(_header(message, "Date") or "").isoformat()
    except ValueError:
        return None
