"""The base of every table: one metadata, with names for constraints that are the same on every database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import configure_mappers
from sqlmodel import SQLModel

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = sa.MetaData(naming_convention=NAMING)


class Table(SQLModel):
    """Base of the tables."""

    metadata = metadata


def loaded[T: Table](table: type[T], values: Mapping[str, Any]) -> T:
    """A row of the table, made as a session makes what it loads: the constructor, which checks values, is slow."""
    row: Any = _maker(table)()  # pyright: ignore[reportArgumentType]  a class can be hashed
    row.__dict__.update(dict.fromkeys(table.model_fields))
    row.__dict__.update(values)
    object.__setattr__(row, "__pydantic_fields_set__", set(table.model_fields))
    return row


@cache
def _maker(table: type[Table]) -> Callable[[], Any]:
    configure_mappers()  # nothing else in this process may have used them yet
    return sa.inspect(table).class_manager.new_instance
