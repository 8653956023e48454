"""What names, metadata and numbers may look like: checked once, before anything is stored.

PostgreSQL stores no NUL and no half of a surrogate pair, and indexes no text of more than about 2,700 bytes. Both
databases refuse the same, here, with the name of the field, and not each in its own way in the middle of a transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NoReturn

from soliplex.ingester.lib.errors import InvalidInputError

LONGEST_URI: Final = 2048
LONGEST_NAME: Final = 255
LONGEST_KEY: Final = 500
"""Bytes of a signal's or run's key, which stands in an index beside other columns."""
LARGEST_META: Final = 1 << 20
LARGEST_INTEGER: Final = 2**31 - 1
DEEPEST_JSON: Final = 200
"""Lists and objects in each other. Databases and pydantic read and write JSON by recursion: pydantic 255 levels."""

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_DIGITS: Final = 19
_LONG_NUMBER: Final = re.compile(rf"[0-9]{{{_DIGITS}}}")
_CONTAINERS: Final = (dict, list, tuple)
_ESCAPED_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # after an escaped backslash, u0000 is plain text


class Unstorable(StrEnum):
    """What no text may hold, in the words of a message."""

    NUL = "NUL"
    HALF_PAIR = "unpaired surrogates"


def unstorable_in(text: str) -> Unstorable | None:
    """What keeps PostgreSQL from storing the text; None if it can be stored."""
    if "\x00" in text:
        return Unstorable.NUL
    try:
        text.encode()
    except UnicodeEncodeError:
        return Unstorable.HALF_PAIR
    return None


def holds_escaped_nul(text: str) -> bool:
    """Whether a JSON text says NUL, which JSON writes as an escape: PostgreSQL refuses that in a column of JSON."""
    return "\\u0000" in text and _ESCAPED_NUL.search(text) is not None


def checked_uri(uri: str, field: str = "source_uri") -> str:
    return _text(field, uri, LONGEST_URI)


def checked_name(field: str, name: str) -> str:
    """A source, a batch's name, or another short name that people chose."""
    return _text(field, name, LONGEST_NAME)


def checked_key(key: object, field: str = "key") -> str:
    """The key of a signal or of a run."""
    if not isinstance(key, str):
        raise InvalidInputError(field, f"must be a text, not {_kind(key)}")
    return _text(field, key, LONGEST_KEY)


def checked_integer(field: str, number: int, *, least: int = -LARGEST_INTEGER) -> int:
    if not least <= number <= LARGEST_INTEGER:
        raise InvalidInputError(field, f"must be between {least} and {LARGEST_INTEGER}")
    return number


def parse_json(field: str, text: str | bytes, expected: str = "valid JSON") -> Any:
    """The value that a JSON text says."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep(field) from None
    except ValueError as exc:
        raise InvalidInputError(field, f"must be {expected} ({exc})") from exc


def parse_object(field: str, text: str, *, largest: int = LARGEST_META) -> dict[str, Any]:
    """The JSON object that the text says."""
    if text == "{}":
        return {}
    if len(text) > largest:
        raise InvalidInputError(field, f"must be at most {largest} characters long")
    value = parse_json(field, text, "a valid JSON object")
    if not isinstance(value, dict):
        raise InvalidInputError(field, f"must be a JSON object, not {_kind(value)}")
    _see_readable(field, text, value)
    see_storable(field, text, value)
    return value


def parse_texts(field: str, text: str, *, most: int) -> list[str]:
    """The JSON array of texts that the text says."""
    value = parse_json(field, text, "a valid JSON array")
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidInputError(field, "must be a JSON array of texts")
    if len(value) > most:
        raise InvalidInputError(field, f"must hold at most {most} texts")
    see_storable(field, text, value)
    return value


def checked_meta(field: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that came as an object, in a form that both databases store."""
    if not meta:
        return {}
    try:
        text = json.dumps(dict(meta), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(field, f"must be a JSON object ({exc})") from exc
    return parse_object(field, text)


def as_storable_json(field: str, value: Any) -> str:
    """The value as JSON that both databases take."""
    try:
        text = _encode(value)
    except RecursionError:
        raise _too_deep(field) from None
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(field, f"cannot be written as JSON: {exc}") from exc
    if len(text) >= _DIGITS:
        _see_readable(field, text, value)
    if holds_escaped_nul(text):
        raise _unstorable(field, Unstorable.NUL)
    if not text.isascii():
        see_storable_text(field, text)
    return text


def _see_readable(field: str, text: str, value: Any) -> None:
    """Refuse a value, which the text says as JSON, that comes back as another, or that a database cannot read."""
    # Nearly all values are told from their text alone; one that is shorter than a long number need not be asked about.
    may_be_deep, may_be_large = text.count("[") + text.count("{") > DEEPEST_JSON, _LONG_NUMBER.search(text) is not None
    if not (may_be_deep or may_be_large):
        return
    level, depth = [value], 0
    while level:
        if may_be_large and any(isinstance(each, int) and _would_change(each) for each in level):
            raise InvalidInputError(field, "must not hold integers of more than 64 bits; give them as texts")
        containers = [each for each in level if isinstance(each, _CONTAINERS)]
        if containers and depth == DEEPEST_JSON:
            raise _too_deep(field)
        level, depth = [inner for outer in containers for inner in _inside(outer)], depth + 1


def _would_change(number: int) -> bool:
    """Whether it comes back as another: a large integer that is a column's whole value is a float in SQLite.

    PostgreSQL gives a float without a fraction back as an integer: the two are equal in JSON, so it is no change.
    """
    if -(2**63) <= number < 2**63:
        return False
    try:
        return int(Decimal(repr(float(number)))) != number
    except OverflowError:
        return True


def _inside(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _too_deep(field: str) -> InvalidInputError:
    return InvalidInputError(
        field, f"is nested too deeply; give at most {DEEPEST_JSON} lists and objects in each other"
    )


def see_storable(field: str, text: str, value: Any) -> None:
    """Refuse a JSON value, and the text it was read from, if the value holds what no text may, escaped or not."""
    if "\\u" in text or "\x00" in text or not text.isascii():
        decoded = json.dumps(value, ensure_ascii=False)
        if holds_escaped_nul(decoded):
            raise _unstorable(field, Unstorable.NUL)
        see_storable_text(field, decoded)


def see_storable_text(field: str, text: str) -> None:
    if found := unstorable_in(text):
        raise _unstorable(field, found)


def _unstorable(field: str, found: Unstorable) -> InvalidInputError:
    return InvalidInputError(field, f"must not hold {found}")


def _text(field: str, text: str, longest: int) -> str:
    if not text.strip():
        raise InvalidInputError(field, "must not be empty")
    see_storable_text(field, text)
    if len(text.encode()) > longest:
        raise InvalidInputError(field, f"must be at most {longest} bytes long")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
