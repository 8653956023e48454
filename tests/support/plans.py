"""How a database would run the statements that a piece of code sends to it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy import event

from soliplex.ingester.lib.models import Database

LARGE: Final = "runstep|workflowrun|lifecyclehistory|runstepdependency"

# The newest rows of a table, by its primary key: as many as the page holds.
_WALK_BACK: Final = re.compile(rf"^MATERIALIZE \w+\nSCAN ({LARGE})\nSCAN \w+$", re.MULTILINE)


class Recorded(list[str]):
    """The plans of what was sent, in order."""

    @property
    def table_scans(self) -> list[str]:
        """Those that read a large table through: neither by an index, nor in the order of one."""
        return [plan for plan in self if reads_a_table_through(plan)]


@asynccontextmanager
async def plans_recorded() -> AsyncGenerator[Recorded]:
    """Collect what is sent within the block, and explain each of it with its own parameters when the block is over."""
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            sent.append((statement, parameters))

    engine = Database.engine().sync_engine
    event.listen(engine, "before_cursor_execute", note)
    plans = Recorded()
    try:
        yield plans
    finally:
        event.remove(engine, "before_cursor_execute", note)
    explain = "EXPLAIN" if Database.is_postgres() else "EXPLAIN QUERY PLAN"
    async with Database.engine().execution_options(read_only=True).connect() as connection:
        if Database.is_postgres():
            # As on a solid-state disk or in memory. Otherwise these few thousand rows would be worth reading through.
            await connection.exec_driver_sql("SET LOCAL random_page_cost = 1.1")
        for statement, parameters in sent:
            rows = await connection.exec_driver_sql(f"{explain} {statement}", parameters)
            plans.append("\n".join(str(row[-1]) for row in rows.all()))


def reads_a_table_through(plan: str) -> bool:
    in_postgres = re.search(rf"Seq Scan on ({LARGE})\b", plan)
    in_sqlite = re.search(rf"^SCAN ({LARGE})\b(?!.*USING)", plan, re.MULTILINE) and not _WALK_BACK.search(plan)
    return bool(in_postgres or in_sqlite)
