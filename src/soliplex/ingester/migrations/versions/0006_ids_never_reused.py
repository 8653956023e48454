"""On SQLite, ids that are not given out again after their rows were deleted, as it always was on PostgreSQL.

Revision 0006, after 0005.

SQLite has no statement for this. What is stored stays as it is, only the table is declared otherwise, so that the
declaration is rewritten as SQLite's manual describes it for such changes: at once, however large the table, and without
touching its indexes, triggers and foreign keys. The ids go on after the largest that a table holds now.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = (
    "configset",
    "documentbatch",
    "documenturi",
    "documenturihistory",
    "lifecyclehistory",
    "rungroup",
    "runstep",
    "stepconfig",
    "workflowrun",
)
PLAIN = "id INTEGER NOT NULL"
NEVER_REUSED = "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        # SQLite keeps the largest ids in a table of its own, which it makes along with the first that needs it.
        op.execute("CREATE TABLE needs_sqlite_sequence (id INTEGER PRIMARY KEY AUTOINCREMENT)")
        op.execute("DROP TABLE needs_sqlite_sequence")
        _declare_anew(_with_ids_never_reused)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _declare_anew(_with_plain_ids)


def _with_ids_never_reused(table: str, declaration: str) -> str:
    # The comma before it goes with the key: a key is never the first part.
    before, _, after = declaration.partition(f"CONSTRAINT pk_{table} PRIMARY KEY (id)")
    return (before.rstrip().removesuffix(",") + after).replace(PLAIN, NEVER_REUSED, 1)


def _with_plain_ids(table: str, declaration: str) -> str:
    body = declaration.replace(NEVER_REUSED, PLAIN, 1).rstrip().removesuffix(")").rstrip()
    return f"{body}, \n\tCONSTRAINT pk_{table} PRIMARY KEY (id)\n)"


def _declare_anew(change: Callable[[str, str], str]) -> None:
    connection = op.get_bind()
    named = "type = 'table' AND name = :table"
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    for table in TABLES:
        found = connection.execute(sa.text(f"SELECT sql FROM sqlite_master WHERE {named}"), {"table": table})
        declaration = found.scalar_one()
        changed = change(table, declaration)
        if changed.count("PRIMARY KEY") != 1 or (NEVER_REUSED in changed) == (NEVER_REUSED in declaration):
            raise RuntimeError(f"the table {table} is not declared as this program declared it: {declaration}")
        update = sa.text(f"UPDATE sqlite_master SET sql = :sql WHERE {named}")
        connection.execute(update, {"sql": changed, "table": table})
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))  # so that other connections read it again
    connection.execute(sa.text("PRAGMA writable_schema = RESET"))  # so that this one does
