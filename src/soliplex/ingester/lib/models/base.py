"""The base of every table: one metadata, with names for constraints that are the same on every database."""

from __future__ import annotations

import sqlalchemy as sa
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
