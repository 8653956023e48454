"""Column types and constraint builders shared by the tables.

Datetimes are aware and in UTC everywhere: `timestamptz` on PostgreSQL; on SQLite text of one fixed width, so that
comparing text compares time. JSON is `jsonb` on PostgreSQL.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, override

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect

_WIDTH: Final = len("2000-12-31 23:59:59.999999")


def utcnow() -> datetime:
    return datetime.now(UTC)


def to_sqlite_text(moment: datetime) -> str:
    # Always of the same width, also where the microseconds are zero, and without a zone. strftime would be slower.
    return moment.astimezone(UTC).isoformat(" ", "microseconds")[:_WIDTH]


def from_sqlite_text(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware datetime in UTC, also when it comes back from SQLite. A naive one is not stored."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(26))
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    @override
    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return ComparedMoment()

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}: give it a timezone, e.g. datetime.now(UTC)")
        return to_sqlite_text(value) if dialect.name == "sqlite" else value.astimezone(UTC)

    @override
    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return from_sqlite_text(value) if isinstance(value, str) else value.astimezone(UTC)


class ComparedMoment(UtcDateTime):
    """What a stored moment is compared with. A naive datetime is local time, as Python has it."""

    cache_ok = True

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        return super().process_bind_param(value.astimezone(UTC) if value is not None else None, dialect)


class EnumText[E: StrEnum](sa.types.TypeDecorator[E]):
    """A member of the enum, stored as its text. Other text is refused before it reaches the database."""

    impl = sa.String
    cache_ok = True

    def __init__(self, values: type[E]) -> None:
        super().__init__()
        self.values = values

    @override
    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else self.values(value).value

    @override
    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        return None if value is None else self.values(value)


IDS_ARE_NEVER_REUSED: Final = {"sqlite_autoincrement": True}
"""For the arguments of a table. SQLite would give the id of the newest row, once deleted, to the next one: whoever
remembers the id, such as a client or an event, would then be told about something else."""

JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def one_of(column: str, values: type[StrEnum]) -> str:
    """The condition of a CHECK: the column holds a value of the enum."""
    listed = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({listed})"


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> sa.Index:
    """An index of the rows for which the condition holds, on both databases."""
    # Not as text: Alembic would take it for another index than the one it finds in a SQLite database.
    parts = [sa.desc(sa.column(name.removesuffix(" DESC"))) if name.endswith(" DESC") else name for name in columns]
    condition = sa.text(where)
    return sa.Index(name, *parts, unique=unique, postgresql_where=condition, sqlite_where=condition)
