"""SQL statements kept in `.sql` files, by name, for both databases.

A folder holds `portable/`, `postgres/` and `sqlite/`. A statement that both databases accept stands in `portable/`; a
dialect overrides it by the same name, or has statements that are its own. In a file, a statement begins with
`-- :name it` and its parameters are written `:parameter`; PostgreSQL's are numbered here, once, when it is read.
`-- :fragment it` begins a piece of text that statements take in as `{it}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

_NAME = re.compile(r"^-- :(name|fragment) (\w+)\s*$", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"--[^\n]*")
# A string literal is kept as it is; a colon after a colon is a PostgreSQL cast.
_PARAMETER = re.compile(r"('(?:[^']|'')*')|(?<![:\w]):([a-z_]\w*)")


# `json.dumps` would make an encoder for every call.
to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Json(NamedTuple):
    """A parameter that is sent as JSON text."""

    value: Any

    def text(self) -> str:
        return to_json(self.value)


class Call(NamedTuple):
    """A statement and the values of its parameters."""

    statement: Statement
    parameters: Mapping[str, Any]
    is_last: bool = False

    def last(self) -> Call:
        """The last of its script: if it is also the first, it needs no transaction but its own."""
        return self._replace(is_last=True)


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement in both dialects. Calling it with its parameters gives what a script yields."""

    name: str
    sqlite: str
    postgres: str
    postgres_order: tuple[str, ...]

    def __call__(self, **parameters: Any) -> Call:
        return Call(self, parameters)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a folder, as attributes."""

    _by_name: dict[str, Statement] = field(default_factory=dict[str, Statement])

    def __getattr__(self, name: str) -> Statement:
        try:
            return self._by_name[name]
        except KeyError:
            raise AttributeError(f"there is no statement named {name!r}") from None

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._by_name.values())


def load_statements(folder: Path) -> Statements:
    portable, postgres, sqlite = (_read(folder / kind) for kind in ("portable", "postgres", "sqlite"))
    for_postgres, for_sqlite = _resolve(portable | postgres), _resolve(portable | sqlite)
    return Statements(
        {
            name: _statement(
                name,
                sqlite=for_sqlite.get(name, f"{name} is for PostgreSQL only"),
                postgres=for_postgres.get(name, f"{name} is for SQLite only"),
            )
            for name in sorted(for_postgres.keys() | for_sqlite.keys())
        }
    )


type _Parts = dict[tuple[str, str], str]


def _read(folder: Path) -> _Parts:
    found: _Parts = {}
    for path in sorted(folder.glob("*.sql")):
        _, *parts = _NAME.split(path.read_text("utf-8"))
        for kind, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if (kind, name) in found:
                raise ValueError(f"{path}: {kind} {name!r} stands twice in {folder.name}/")
            found[kind, name] = _COMMENT.sub("", text).strip().rstrip(";")
    return found


def _resolve(parts: _Parts) -> dict[str, str]:
    def fill(text: str) -> str:
        return _FRAGMENT.sub(lambda match: fill(parts["fragment", match[1]]), text)

    return {name: fill(text) for (kind, name), text in parts.items() if kind == "name"}


def _statement(name: str, *, sqlite: str, postgres: str) -> Statement:
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        literal, parameter = match.groups()
        if literal:
            return literal
        if parameter not in order:
            order.append(parameter)
        return f"${order.index(parameter) + 1}"

    return Statement(name, sqlite, _PARAMETER.sub(number, postgres), tuple(order))
