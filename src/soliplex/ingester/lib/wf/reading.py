"""Reading a definition key by key: each value is checked, and everything wrong is noted before anything is raised.

A `Source` knows where a definition came from and gathers its problems; `Fields` reads one mapping of it. After a
problem was noted a harmless value is returned, so that the reading goes on and finds the next one.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.storable import Unstorable, unstorable_in
from soliplex.ingester.lib.wf.errors import DefinitionError, Problem, suggestion

type JsonValue = str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None
type KeyPath = tuple[str | int, ...]

DEEPEST_NESTING: Final = 64
"""No definition needs more; deeper ones exhaust the stack of whoever walks them."""
MOST_NODES: Final = 100_000
"""Counted with aliases written out: a few hundred bytes of nested aliases stand for billions of values."""
LONGEST_NAME: Final = 200
"""Names are columns of indexes, whose entries PostgreSQL limits to a third of a page."""
LONGEST_DURATION: Final = timedelta(days=365)
_LARGEST_INTEGER: Final = 2**63 - 1
_PROBLEMS_LISTED: Final = 25

_SECONDS_OF_UNIT: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)")
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_METHOD = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")

_short = reprlib.Repr(maxstring=60, maxother=60, maxlong=40, maxlevel=2)


def shown(value: object) -> str:
    """Write a value for an error message, in short."""
    return _short.repr(value)


class Source:
    """Where a definition was read from, the line of each key there, and what was found wrong."""

    def __init__(self, path: Path | None = None, text: str = "", lines: Mapping[KeyPath, int] | None = None) -> None:
        self.path = path
        self.text = text
        self._lines = lines or {}
        self._problems: list[Problem] = []
        self._unlisted = 0

    def line_of(self, where: KeyPath) -> int | None:
        """Give the line of this key, or of the nearest one around it that has a line."""
        return next((self._lines[where[:end]] for end in range(len(where), -1, -1) if where[:end] in self._lines), None)

    def note(self, where: KeyPath, problem: str) -> None:
        """Remember a problem; beyond a screenful they are only counted."""
        if self.is_full:
            self._unlisted += 1
        else:
            self._problems.append(Problem(problem, self.path, self.line_of(where), dotted(where)))

    def note_unknown(self, where: KeyPath, name: str, known: Iterable[str], *, kind: str = "key") -> None:
        """Remember that nothing has this name, with the name that was probably meant."""
        # The search for the nearest name is the dear part, and beyond a screenful nobody would read its result.
        self.note(where, "" if self.is_full else f"unknown {kind} {shown(name)}; {suggestion(name, known)}")

    @property
    def has_problems(self) -> bool:
        return bool(self._problems)

    @property
    def is_full(self) -> bool:
        return len(self._problems) >= _PROBLEMS_LISTED

    def raise_problems(self) -> None:
        """Raise one error that lists every problem noted, in the order of the lines."""
        if not self._problems:
            return
        first, *others = sorted(self._problems, key=lambda problem: problem.line or 0)
        if self._unlisted:
            others.append(Problem(f"and {self._unlisted} more; correct these first", self.path))
        raise DefinitionError(first.text, path=first.path, line=first.line, key=first.key, more=tuple(others))


class Fields:
    """One mapping of a definition, read key by key."""

    def __init__(self, data: object, where: KeyPath, source: Source) -> None:
        self._data = _text_keys(data, where, source)
        self.where = where
        self.source = source

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def raw(self, key: str) -> Any:
        return self._data.get(key)

    def note(self, key: str, problem: str) -> None:
        self.source.note((*self.where, key), problem)

    def only(self, known: Sequence[str]) -> None:
        """Note every key that is not one of these."""
        for key in self._data:
            if key not in known:
                self.source.note_unknown((*self.where, key), key, known)

    def check_name(self, key: str) -> None:
        """Note that the key these fields stand under is too long to be a name."""
        if len(key) > LONGEST_NAME:
            self.source.note(self.where, f"is a name of {len(key)} characters; give at most {LONGEST_NAME}")

    def child(self, key: str) -> Fields:
        """Read the mapping under this key; a missing or empty one has no keys."""
        return Fields(self.raw(key), (*self.where, key), self.source)

    def items(self, key: str) -> Iterator[Fields]:
        """Read the mappings of the list under this key; a missing or empty list has none."""
        value = self.raw(key)
        if value is None:
            return
        if not isinstance(value, list | tuple):
            self.note(key, f"is {shown(value)}; give a list")
            return
        for index, item in enumerate(value):
            yield Fields(item, (*self.where, key, index), self.source)

    def text(self, key: str, default: str | None = None, *, longest: int | None = LONGEST_NAME) -> str:
        """Read a non-empty text; without a default the key is required."""
        value = self.raw(key)
        if value is None and default is not None:
            return default
        if value is None:
            self.note(key, f"is missing; add `{key}:` with a text")
        elif not isinstance(value, str):
            self.note(key, f"is {shown(value)}; give a text, in quotes if it looks like something else")
        elif not value.strip():
            self.note(key, "is empty; give a text")
        elif longest is not None and len(value) > longest:
            self.note(key, f"is {len(value)} characters long; give at most {longest}")
        elif problem := _unstorable(value):
            self.note(key, problem)
        else:
            return value
        return ""

    def id(self, key: str) -> str:
        """Read an identifier."""
        value = self.text(key)
        if value and not _ID.fullmatch(value):
            self.note(key, f"is {shown(value)}; begin with a letter or _, go on with letters, digits, _, . or -")
        return value

    def method(self, key: str) -> str:
        """Read the dotted path of a function; whether it exists is not looked at here."""
        value = self.text(key)
        if value and not _METHOD.fullmatch(value):
            self.note(key, f"is {shown(value)}; give a dotted path, such as package.module.function")
        return value

    def integer(self, key: str, default: int, *, at_least: int, at_most: int = 2**31 - 1) -> int:
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and at_least <= value <= at_most:
            return value
        bounds = f"of at least {at_least}" if at_most == 2**31 - 1 else f"from {at_least} to {at_most}"
        self.note(key, f"is {shown(value)}; give a whole number {bounds}")
        return default

    def number(self, key: str, default: float) -> float:
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_INTEGER:
            return float(value)
        self.note(key, f"is {shown(value)}; give a number")
        return default

    def flag(self, key: str) -> bool:
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.note(key, f"is {shown(value)}; give true or false")
        return False

    def duration(self, key: str) -> timedelta | None:
        """Read seconds, or a text such as 90s; None when the key is missing."""
        value = self.raw(key)
        if value is None:
            return None
        seconds = _seconds(value)
        if seconds is None or not 0 <= seconds <= LONGEST_DURATION.total_seconds():
            self.note(key, f"is {shown(value)}; give seconds, or a text such as 500ms, 90s, 10m or 2h, at most 365d")
            return None
        return timedelta(seconds=seconds)

    def positive_duration(self, key: str) -> timedelta | None:
        """Read a duration that is more than none."""
        value = self.duration(key)
        if value is not None and not value:
            self.note(key, f"is {shown(self.raw(key))}; give more than 0, or leave the key out")
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Read a list of texts, or one text; None when the key is missing."""
        if key not in self:
            return None
        value = self.raw(key)
        listed = [value] if isinstance(value, str) else value
        if isinstance(listed, list | tuple) and all(isinstance(item, str) for item in listed):
            return tuple(listed)
        self.note(key, f"is {shown(value)}; give a list of names, [] for none, or leave the key out")
        return ()

    def json(self, key: str) -> dict[str, JsonValue]:
        """Read a mapping of anything that JSON can hold; a missing or empty one is {}."""
        value = self.raw(key)
        if value is None:
            return {}
        where = (*self.where, key)
        if not isinstance(value, Mapping):
            self.source.note(where, f"is {shown(value)}; give a mapping")
            return {}
        return _JsonCopy(self.source).mapping(value, where)


class _JsonCopy:
    """Copies a value while it checks that JSON can hold it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._remaining_nodes = MOST_NODES

    def mapping(self, value: Mapping[Any, Any], where: KeyPath) -> dict[str, JsonValue]:
        if len(where) > DEEPEST_NESTING:
            self._source.note(where[:4], f"is nested deeper than {DEEPEST_NESTING} levels; make it flatter")
            return {}
        fields = _text_keys(value, where, self._source)
        return {key: self._value(item, (*where, key)) for key, item in fields.items() if self._within_budget(where)}

    def _value(self, value: object, where: KeyPath) -> JsonValue:
        if isinstance(value, Mapping):
            return self.mapping(value, where)
        if isinstance(value, list | tuple):
            return self._list(value, where)
        if problem := _scalar_problem(value):
            self._source.note(where, problem)
            return None
        assert value is None or isinstance(value, str | int | float)
        return value

    def _list(self, value: Sequence[object], where: KeyPath) -> list[JsonValue]:
        if len(where) > DEEPEST_NESTING:
            self._source.note(where[:4], f"is nested deeper than {DEEPEST_NESTING} levels; make it flatter")
            return []
        return [self._value(item, (*where, index)) for index, item in enumerate(value) if self._within_budget(where)]

    def _within_budget(self, where: KeyPath) -> bool:
        self._remaining_nodes -= 1
        if self._remaining_nodes == 0:
            self._source.note(where[:4], f"holds more than {MOST_NODES} values; make it smaller")
        return self._remaining_nodes > 0


def _scalar_problem(value: object) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            return _unstorable(value)
        case int() if abs(value) <= _LARGEST_INTEGER:
            return None
        case int():
            return "does not fit into 64 bits; put the number in quotes"
        case float() if math.isfinite(value):
            return None
        case _:
            return f"is {shown(value)}; give a text, number, true, false, null, list or mapping"


def _unstorable(text: str) -> str | None:
    match unstorable_in(text):
        case Unstorable.HALF_PAIR:
            return "holds half of a surrogate pair; write the character itself"
        case Unstorable.NUL:
            return "holds a NUL character, which PostgreSQL cannot store; remove it"
        case None:
            return None


def _text_keys(data: object, where: KeyPath, source: Source) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        source.note(where, f"is {shown(data)}; give a mapping of keys to values")
        return {}
    checked: dict[str, Any] = {}
    for key, value in data.items():
        if not isinstance(key, str) or not key.strip() or _unstorable(key):
            source.note(where, f"has the key {shown(key)}; give keys that are texts")
        else:
            checked[key] = value
    return checked


def _seconds(value: object) -> float | None:
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return float(match[1]) * _SECONDS_OF_UNIT[match[2]]
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_INTEGER:
        return float(value)
    return None


def dotted(where: KeyPath) -> str | None:
    """Write the place of a key, such as `lifecycle_events.group_start[0].method`."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{_clipped(part)}"
    return text.removeprefix(".") or None


def _clipped(key: str) -> str:
    printable = key if key.isprintable() else repr(key)[1:-1]
    return printable if len(printable) <= LONGEST_NAME else f"{printable[:LONGEST_NAME]}..."
