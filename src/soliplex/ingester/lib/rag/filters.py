"""A small language for choosing documents of a RAG database, which becomes SQL and cannot become any other SQL.

    uri = '/a.pdf'
    title LIKE '%report%' AND created_at >= '2026-01-01'

A condition is a field, an operator and a quoted text; AND joins conditions. A quote inside a text is doubled. What the
database gets is written anew from the parts, never copied from what was sent.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import unstorable_in

FIELDS: Final = ("id", "uri", "title", "created_at", "updated_at", "metadata")
OPERATORS: Final = ("=", "!=", "<=", ">=", "<", ">", "LIKE")
LONGEST: Final = 1000
MOST_CONDITIONS: Final = 20

_CONDITION: Final = re.compile(
    r"\s*(?P<field>\w+)\s*(?P<operator><=|>=|!=|=|<|>|(?i:like)\b)\s*'(?P<text>(?:[^']|'')*)'\s*", re.ASCII
)
_AND: Final = re.compile(r"(?i:and)\b")


def as_sql(text: str) -> str:
    """The filter as a condition that LanceDB understands; anything that is not such a filter is refused."""
    if len(text) > LONGEST:
        _refuse(f"must be at most {LONGEST} characters long")
    if found := unstorable_in(text):
        _refuse(f"must not hold {found}")
    conditions: list[str] = []
    position = 0
    while True:
        match = _CONDITION.match(text, position)
        if match is None:
            _refuse(f"cannot be understood from character {position + 1} on")
        conditions.append(_condition(match))
        position = match.end()
        if position == len(text):
            break
        joined = _AND.match(text, position)
        if joined is None or len(conditions) == MOST_CONDITIONS:
            _refuse(f"cannot be understood from character {position + 1} on")
        position = joined.end()
    return " AND ".join(conditions)


def _condition(match: re.Match[str]) -> str:
    field, operator = match["field"].lower(), match["operator"].upper()
    if field not in FIELDS:
        _refuse(f"knows no field {match['field']!r}; the fields are {', '.join(FIELDS)}")
    text = match["text"].replace("''", "'")
    quoted = "'" + text.replace("'", "''") + "'"
    if field.endswith("_at"):
        return f"CAST({field} AS STRING) {operator} {quoted}"
    return f"{field} {operator} {quoted}"


def _refuse(problem: str) -> NoReturn:
    raise InvalidInputError("filter", f"{problem}; write it as uri = '/a.pdf' AND title LIKE '%report%'")
