"""The statements about documents, in `.sql` files by area, and running those that only read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import to_sqlite_text
from soliplex.ingester.lib.models.statements import Call, load_statements

SQL: Final = load_statements(Path(__file__).parent)


async def read(call: Call) -> Sequence[sa.RowMapping]:
    """The rows of a statement that changes nothing: outside the queue of those that wait to write, on SQLite."""
    statement, parameters = call.statement, call.parameters
    async with Database.session(read_only=True) as session:
        connection = await session.connection()
        if Database.is_postgres():
            values: Any = tuple(parameters[name] for name in statement.postgres_order)
            result = await connection.exec_driver_sql(statement.postgres or statement.refuse("PostgreSQL"), values)
        else:
            values = {name: _for_sqlite(value) for name, value in parameters.items()}
            result = await connection.exec_driver_sql(statement.sqlite or statement.refuse("SQLite"), values)
        return result.mappings().all()


def _for_sqlite(value: Any) -> Any:
    match value:
        case list():
            return json.dumps(value, ensure_ascii=False)
        case datetime():
            return to_sqlite_text(value)
        case _:
            return value
