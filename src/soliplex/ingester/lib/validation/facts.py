"""What documents say about themselves: the facts that every format tells under the same names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, cast

type Facts = dict[str, Any]

LONGEST_TEXT: Final = 2000
"""Characters of a title or a list of keywords that are kept; a file may claim a title of megabytes."""
PLACEHOLDERS: Final = frozenset(
    {"untitled", "(untitled)", "untitled document", "(anonymous)", "anonymous", "(unspecified)", "unspecified", "none"}
)
"""What programs write as title, author or subject where nobody has given any."""
_PDF_DATE: Final = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?)?")


def tidy(facts: Mapping[str, Any]) -> Facts:
    """The facts that are known, their texts without surrounding space and control characters, and cut to a bound."""
    cleaned = {name: _clean(value) for name, value in facts.items()}
    return {name: value for name, value in cleaned.items() if value is not None and not _says_nothing(value)}


def _says_nothing(value: Any) -> bool:
    return isinstance(value, str) and (not value or value.casefold() in PLACEHOLDERS)


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return [_clean(each) for each in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    printable = "".join(each if each.isprintable() else " " for each in value[: 2 * LONGEST_TEXT])
    return " ".join(printable.split())[:LONGEST_TEXT]


def pdf_date(text: str) -> str | None:
    """`D:20240131235959+01'00'` as ISO 8601; None for what is no date."""
    found = _PDF_DATE.match(text)
    if found is None:
        return None
    parts = [
        int(part) if part else default for part, default in zip(found.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    ]
    try:
        return datetime(*parts, tzinfo=_zone(found)).isoformat()  # pyright: ignore[reportArgumentType]  six numbers
    except ValueError:
        return None


def _zone(found: re.Match[str]) -> timezone:
    sign, hours, minutes = found[7], found[8], found[9]
    if sign is None:
        return UTC
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(offset if sign == "+" else -offset)
