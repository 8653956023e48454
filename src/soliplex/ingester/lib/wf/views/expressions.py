"""What queries compute that the two databases spell differently: seconds, and numbers inside JSON."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class EpochSeconds(FunctionElement[float]):
    """A moment as seconds since 1970, with fractions."""

    type = sa.Float()
    inherit_cache = True


class EpochSecond(FunctionElement[int]):
    """The whole second since 1970 that a moment lies in."""

    type = sa.BigInteger()
    inherit_cache = True


class JsonNumber(FunctionElement[float]):
    """The number under a name in a JSON column; NULL where there is no number. Arguments: the column, the name."""

    type = sa.Float()
    inherit_cache = True


def seconds_between(start: Any, end: Any) -> sa.ColumnElement[float]:
    return EpochSeconds(end) - EpochSeconds(start)


def _arguments(element: FunctionElement[Any], compiler: SQLCompiler, **kw: Any) -> list[str]:
    return [compiler.process(clause, **kw) for clause in element.clauses]


@compiles(EpochSeconds, "postgresql")
def _epoch_on_postgres(element: EpochSeconds, compiler: SQLCompiler, **kw: Any) -> str:
    (moment,) = _arguments(element, compiler, **kw)
    return f"CAST(EXTRACT(EPOCH FROM {moment}) AS double precision)"


@compiles(EpochSeconds, "sqlite")
def _epoch_on_sqlite(element: EpochSeconds, compiler: SQLCompiler, **kw: Any) -> str:
    # The whole seconds and the fraction apart: julianday() would lose the microseconds.
    (moment,) = _arguments(element, compiler, **kw)
    return f"(CAST({_whole_seconds(moment)} AS REAL) + CAST('0' || substr({moment}, 20) AS REAL))"


@compiles(EpochSecond, "postgresql")
def _second_on_postgres(element: EpochSecond, compiler: SQLCompiler, **kw: Any) -> str:
    (moment,) = _arguments(element, compiler, **kw)
    return f"CAST(floor(EXTRACT(EPOCH FROM {moment})) AS bigint)"


@compiles(EpochSecond, "sqlite")
def _second_on_sqlite(element: EpochSecond, compiler: SQLCompiler, **kw: Any) -> str:
    (moment,) = _arguments(element, compiler, **kw)
    return f"CAST({_whole_seconds(moment)} AS INTEGER)"


def _whole_seconds(moment: str) -> str:
    # Without the fraction, since strftime counts the last half millisecond of a second to the next one.
    return f"strftime('%s', substr({moment}, 1, 19))"


@compiles(JsonNumber, "postgresql")
def _number_on_postgres(element: JsonNumber, compiler: SQLCompiler, **kw: Any) -> str:
    column, name = _arguments(element, compiler, **kw)
    return (
        f"CASE WHEN jsonb_typeof({column} -> {name}) = 'number' THEN CAST({column} ->> {name} AS double precision) END"
    )


@compiles(JsonNumber, "sqlite")
def _number_on_sqlite(element: JsonNumber, compiler: SQLCompiler, **kw: Any) -> str:
    column, name = _arguments(element, compiler, **kw)
    return (
        f"CASE WHEN json_type({column}, '$.' || {name}) IN ('integer', 'real') "
        f"THEN json_extract({column}, '$.' || {name}) END"
    )
