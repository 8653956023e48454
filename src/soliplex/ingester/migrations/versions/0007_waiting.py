"""Steps that wait for signals or ask to be called again, attempts that failed, and runs with a key, a deadline or a parent.

All new columns of the two large tables are empty or have a constant default, so that no row has to be rewritten.

Revision 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
STEP_COLUMNS = ("state", "awaits", "answer", "repeats")
RUN_COLUMNS = ("run_key", "deadline", "parent_step_id")
AWAITS = sa.text("awaits IS NOT NULL")
HAS_KEY = sa.text("run_key IS NOT NULL")
HAS_DEADLINE = sa.text("deadline IS NOT NULL AND completed_date IS NULL")
HAS_PARENT = sa.text("parent_step_id IS NOT NULL AND completed_date IS NULL")
IS_NEW = sa.text("is_new")


def upgrade() -> None:
    op.add_column("runstep", sa.Column("state", JSON, nullable=True))
    op.add_column("runstep", sa.Column("awaits", sa.String(), nullable=True))
    op.add_column("runstep", sa.Column("answer", JSON, nullable=True))
    op.add_column("runstep", sa.Column("repeats", sa.Integer(), server_default="0", nullable=False))
    _partial_index("ix_runstep_awaits", "runstep", ["awaits", "id"], AWAITS)
    op.add_column("workflowrun", sa.Column("run_key", sa.String(), nullable=True))
    op.add_column("workflowrun", sa.Column("deadline", UtcDateTime(), nullable=True))
    op.add_column("workflowrun", sa.Column("parent_step_id", sa.BigInteger(), nullable=True))
    _partial_index("ix_workflowrun_run_key", "workflowrun", ["workflow_definition_id", "run_key"], HAS_KEY, unique=True)
    _partial_index("ix_workflowrun_deadline", "workflowrun", ["deadline"], HAS_DEADLINE)
    _partial_index("ix_workflowrun_parent_step_id", "workflowrun", ["parent_step_id"], HAS_PARENT)
    op.create_table(
        "signal",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("payload", JSON, nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("is_new", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signal")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_signal_key", "signal", ["key", "id"], unique=False)
    _partial_index("ix_signal_new", "signal", ["id"], IS_NEW)
    op.create_table(
        "stepattempt",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("step_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=True),
        sa.Column("start_date", UtcDateTime(), nullable=True),
        sa.Column("end_date", UtcDateTime(), nullable=False),
        sa.Column("error_type", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("traceback", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stepattempt")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_stepattempt_step_id", "stepattempt", ["step_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("stepattempt")
    op.drop_table("signal")
    op.drop_index("ix_workflowrun_parent_step_id", table_name="workflowrun")
    op.drop_index("ix_workflowrun_deadline", table_name="workflowrun")
    op.drop_index("ix_workflowrun_run_key", table_name="workflowrun")
    op.drop_index("ix_runstep_awaits", table_name="runstep")
    for column in RUN_COLUMNS:
        op.drop_column("workflowrun", column)
    for column in STEP_COLUMNS:
        op.drop_column("runstep", column)


def _partial_index(name: str, table: str, columns: list[str], where: sa.TextClause, *, unique: bool = False) -> None:
    op.create_index(name, table, columns, unique=unique, postgresql_where=where, sqlite_where=where)
