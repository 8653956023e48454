"""SQL statements kept in `.sql` files, by name, in the folder that says which databases run them.

    shared/      both databases run it
    sqlite/      SQLite runs it
    postgres/    PostgreSQL runs it

A statement that both databases run stands once in `shared/`. Where they need different words, it stands once in
`sqlite/` and once in `postgres/`, and a comment in each says why. Code names it `SQL.it`. A statement that one database
alone runs stands in the folder of that database, with a comment too; code that knows its database names it
`SQL.postgres.it`. What stands anywhere else is refused when the folder is loaded (`StatementError`).

In a file, a statement begins with `-- :name it`. The comments right above that line and right below it belong to the
statement. Its parameters are written `:parameter`; those of PostgreSQL are numbered here, once. `-- :fragment it`
begins a piece of text that statements take in as `{it}`; fragments stand in the folders by the same rules. A few things
that the databases merely spell differently are written with the name of a parameter, so that the statement can be
shared:

    {among ids}     the condition that what stands before it is one of the list `ids`
    {moment now}    the moment `now`, at a place that does not tell PostgreSQL which type it has
    {json meta}     the JSON text `meta`, at such a place
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Never

SHARED: Final = "shared"
SQLITE: Final = "sqlite"
POSTGRES: Final = "postgres"
DIALECTS: Final = (SQLITE, POSTGRES)

_SPELLINGS: Final[dict[str, dict[str, str]]] = {
    SQLITE: {"among": "IN (SELECT value FROM json_each(:{}))", "moment": ":{}", "json": ":{}"},
    POSTGRES: {"among": "= ANY(:{})", "moment": "CAST(:{} AS timestamptz)", "json": "CAST(:{} AS jsonb)"},
}

# The comment lines right above a head, and the head itself; the text up to the next head belongs to it.
_PART = re.compile(r"^((?:--(?! :)[^\n]*\n)*)-- :(name|fragment) (\w+) *\n", re.MULTILINE)
_TAKEN_IN = re.compile(r"\{(\w+)(?: (\w+))?\}")
_COMMENT = re.compile(r"--[^\n]*")
# A string literal is kept as it is; a colon after a colon is a PostgreSQL cast.
_PARAMETER = re.compile(r"('(?:[^']|'')*')|(?<![:\w]):([a-z_]\w*)")


# `json.dumps` would make an encoder for every call.
to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class StatementError(ValueError):
    """A statement or fragment is missing, or stands in a folder where it must not."""


class WrongDatabaseError(TypeError):
    """A statement that one database alone runs was sent to the other."""

    def __init__(self, name: str, database: str) -> None:
        super().__init__(f"there is no statement {name!r} for {database}")
        self.name = name
        self.database = database


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
    """One named statement. Calling it with its parameters gives what a script yields."""

    name: str
    sqlite: str | None
    """None: PostgreSQL alone runs it."""
    postgres: str | None
    """None: SQLite alone runs it."""
    postgres_order: tuple[str, ...]
    """The parameters of the text for PostgreSQL, in the order of their numbers."""

    def __call__(self, **parameters: Any) -> Call:
        return Call(self, parameters)

    def refuse(self, database: str) -> Never:
        raise WrongDatabaseError(self.name, database)


class Statements:
    """The statements of a folder, as attributes: those that both databases run.

    Those that one database alone runs are attributes of `sqlite` and of `postgres`.
    """

    def __init__(self, statements: Mapping[str, Statement], folder: str, **alone: Statements) -> None:
        self._by_name = dict(statements)
        self._folder = folder
        self._alone = alone
        # As plain attributes, which cost least to look up: each statement that is sent is looked up first.
        self.__dict__.update(self._by_name)

    @property
    def sqlite(self) -> Statements:
        """The statements that SQLite alone runs."""
        return self._alone[SQLITE]

    @property
    def postgres(self) -> Statements:
        """The statements that PostgreSQL alone runs."""
        return self._alone[POSTGRES]

    def __getattr__(self, name: str) -> Statement:
        """Say where a statement stands that is not among these attributes."""
        raise AttributeError(self._why_not(name))

    def __iter__(self) -> Iterator[Statement]:
        """Every statement of the folder, also those of one database, by name."""
        every = [*self._by_name.values(), *(each for alone in self._alone.values() for each in alone)]
        return iter(sorted(every, key=lambda statement: statement.name))

    def _why_not(self, name: str) -> str:
        for dialect, alone in self._alone.items():
            if name in {statement.name for statement in alone}:
                return f"the statement {name!r} stands in {dialect}/ alone: name it SQL.{dialect}.{name}"
        return f"there is no statement named {name!r} in {self._folder}"


def load_statements(folder: Path, *, made: Mapping[str, str] | None = None) -> Statements:
    """Read the statements of a folder. `made` are fragments that the caller has made, such as lists of columns."""
    folders = {kind: _read(folder / kind) for kind in (SHARED, *DIALECTS)}
    _check_places(folder, folders)
    texts = {dialect: _Texts(folders[SHARED] | folders[dialect], made or {}, dialect) for dialect in DIALECTS}
    _check_that_all_is_taken_in(folder, texts, made or {})
    _check_that_dialects_differ(folder, texts)
    names = {dialect: texts[dialect].statements for dialect in DIALECTS}
    statements = {
        name: _statement(name, sqlite=names[SQLITE].get(name), postgres=names[POSTGRES].get(name))
        for name in sorted(names[SQLITE].keys() | names[POSTGRES].keys())
    }
    return _by_database(statements, str(folder))


def _by_database(statements: Mapping[str, Statement], folder: str) -> Statements:
    both, sqlite, postgres = dict[str, Statement](), dict[str, Statement](), dict[str, Statement]()
    for name, statement in statements.items():
        kind = sqlite if statement.postgres is None else postgres if statement.sqlite is None else both
        kind[name] = statement
    alone = {SQLITE: Statements(sqlite, f"{folder}/sqlite"), POSTGRES: Statements(postgres, f"{folder}/postgres")}
    return Statements(both, folder, **alone)


class _Part(NamedTuple):
    """A statement or a fragment, as it stands in a file."""

    kind: str
    name: str
    text: str
    is_explained: bool
    path: Path

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}: {self.kind} {self.name!r}"


type _Parts = dict[tuple[str, str], _Part]


def _read(folder: Path) -> _Parts:
    found: _Parts = {}
    for path in sorted(folder.glob("*.sql")):
        _, *pieces = _PART.split(path.read_text("utf-8"))
        for above, kind, name, below in zip(*(iter(pieces),) * 4, strict=True):
            text = _COMMENT.sub("", below).strip().removesuffix(";").rstrip()
            part = _Part(kind, name, text, bool(above) or below.lstrip().startswith("--"), path)
            if (kind, name) in found:
                raise StatementError(f"{part} stands twice in {folder.name}/")
            found[kind, name] = part
    return found


def _check_places(folder: Path, folders: Mapping[str, _Parts]) -> None:
    shared, sqlite, postgres = folders[SHARED], folders[SQLITE], folders[POSTGRES]
    for dialect in (sqlite, postgres):
        for key, part in dialect.items():
            if key in shared:
                raise StatementError(f"{folder}: {part} also stands in shared/; keep one of the two")
            if not part.is_explained:
                raise StatementError(f"{folder}: {part} lacks a comment that says why this database has its own text")
    for key in sqlite.keys() & postgres.keys():
        if _folded(sqlite[key].text) == _folded(postgres[key].text):
            raise StatementError(f"{folder}: {sqlite[key]} has the same text in postgres/; it belongs into shared/")


def _check_that_dialects_differ(folder: Path, texts: Mapping[str, _Texts]) -> None:
    sqlite, postgres = texts[SQLITE], texts[POSTGRES]
    for name in sqlite.statements.keys() & postgres.statements.keys():
        part = sqlite.parts["name", name]
        is_shared = part.path.parent.name == SHARED
        if not is_shared and _folded(sqlite.statements[name]) == _folded(postgres.statements[name]):
            raise StatementError(f"{folder}: {part} comes to the same text in postgres/; it belongs into shared/")


def _check_that_all_is_taken_in(folder: Path, texts: Mapping[str, _Texts], made: Mapping[str, str]) -> None:
    used = texts[SQLITE].taken_in | texts[POSTGRES].taken_in
    for dialect in DIALECTS:
        for (kind, name), part in texts[dialect].parts.items():
            if kind == "fragment" and name not in texts[dialect].taken_in:
                raise StatementError(f"{folder}: no statement for {dialect} takes in {part}")
    for name in made.keys() - used:
        raise StatementError(f"{folder}: no statement takes in the fragment {name!r} that was made for it")


def _folded(text: str) -> str:
    return " ".join(text.split())


class _Texts:
    """The statements for one database, with the fragments filled in."""

    def __init__(self, parts: _Parts, made: Mapping[str, str], dialect: str) -> None:
        self.parts = parts
        self.taken_in = set[str]()
        self._made = made
        self._dialect = dialect
        self.statements = {name: self._filled(part) for (kind, name), part in parts.items() if kind == "name"}

    def _filled(self, part: _Part) -> str:
        def fill(match: re.Match[str]) -> str:
            name, parameter = match.groups()
            if parameter is not None:
                return self._spelled(part, name, parameter)
            self.taken_in.add(name)
            if name in self._made:
                return self._made[name]
            fragment = self.parts.get(("fragment", name))
            if fragment is None:
                raise StatementError(f"{part} takes in {{{name}}}, which does not exist for {self._dialect}")
            return self._filled(fragment)

        return _TAKEN_IN.sub(fill, part.text)

    def _spelled(self, part: _Part, name: str, parameter: str) -> str:
        try:
            return _SPELLINGS[self._dialect][name].format(parameter)
        except KeyError:
            known = ", ".join(sorted(_SPELLINGS[self._dialect]))
            raise StatementError(f"{part} says {{{name} {parameter}}}; there are only {known}") from None


def _statement(name: str, *, sqlite: str | None, postgres: str | None) -> Statement:
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        literal, parameter = match.groups()
        if literal:
            return literal
        if parameter not in order:
            order.append(parameter)
        return f"${order.index(parameter) + 1}"

    numbered = None if postgres is None else _PARAMETER.sub(number, postgres)
    return Statement(name, sqlite, numbered, tuple(order))
