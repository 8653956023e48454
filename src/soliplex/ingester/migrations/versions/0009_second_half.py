"""Definitions and schedules in the database, profiles of pruned steps, queues for resources, progress and deletions.

All new columns are empty, so that no row has to be rewritten. Tables whose rows change often are cleaned up after a number
of changes, and no more after a share of the table.

Revision 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KNOWN_TO_ALL = sa.text("kind = 'params' OR has_events")
IS_DUE = sa.text("next_due_at IS NOT NULL")
IS_DELETED = sa.text("delete_requested_at IS NOT NULL")
UPDATED_OFTEN = {
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_threshold": "20000",
    "autovacuum_vacuum_insert_scale_factor": "0",
    "autovacuum_vacuum_insert_threshold": "200000",
    "autovacuum_analyze_scale_factor": "0",
    "autovacuum_analyze_threshold": "100000",
    "autovacuum_vacuum_cost_delay": "0",
}
STEP_SHARE = {"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_cost_delay": "0"}


def upgrade() -> None:
    op.create_table(
        "definition",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("content", sa.String(), nullable=True),
        sa.Column("is_draft", sa.Boolean(), nullable=False),
        sa.Column("has_events", sa.Boolean(), nullable=False),
        sa.Column("created_date", UtcDateTime(), nullable=False),
        sa.CheckConstraint("kind IN ('workflow', 'params')", name=op.f("definition_kind_is_known")),
        sa.CheckConstraint("content IS NOT NULL OR NOT is_draft", name=op.f("definition_a_draft_has_content")),
        sa.CheckConstraint("version >= 1", name=op.f("definition_versions_count_from_one")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_definition")),
        sa.UniqueConstraint("kind", "slug", "version", name=op.f("uq_definition_kind_slug_version")),
        sqlite_autoincrement=True,
    )
    _partial_index("ix_definition_known_to_all", "definition", ["id"], KNOWN_TO_ALL)
    op.create_table(
        "schedule",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("param_id", sa.String(), nullable=True),
        sa.Column("cron", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("input", JSON, nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("deadline_seconds", sa.Float(), nullable=True),
        sa.Column("catch_up", sa.Boolean(), nullable=False),
        sa.Column("created_date", UtcDateTime(), nullable=False),
        sa.Column("next_due_at", UtcDateTime(), nullable=True),
        sa.Column("last_due_at", UtcDateTime(), nullable=True),
        sa.Column("last_run_id", sa.BigInteger(), nullable=True),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("status_message", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule")),
        sa.UniqueConstraint("name", name=op.f("uq_schedule_name")),
        sqlite_autoincrement=True,
    )
    _partial_index("ix_schedule_next_due_at", "schedule", ["next_due_at"], IS_DUE)
    op.create_table(
        "stepprofile",
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("step_name", sa.String(), nullable=False),
        sa.Column("step_type", sa.String(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RUNNING', 'COMPLETED', 'ERROR', 'FAILED', 'CANCELLED')",
            name=op.f("stepprofile_status_is_known"),
        ),
        sa.PrimaryKeyConstraint(
            "workflow_id", "step_name", "step_type", "day", "status", "bucket", name=op.f("pk_stepprofile")
        ),
    )
    op.create_table(
        "resourcewaiter",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("resource_key", sa.String(), nullable=False),
        sa.Column("holder_id", sa.String(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resourcewaiter")),
        sa.UniqueConstraint("resource_key", "holder_id", name=op.f("uq_resourcewaiter_resource_key_holder_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_resourcewaiter_resource_key", "resourcewaiter", ["resource_key", "id"], unique=False)
    op.add_column("rungroup", sa.Column("delete_requested_at", UtcDateTime(), nullable=True))
    _partial_index("ix_rungroup_delete_requested_at", "rungroup", ["id"], IS_DELETED)
    op.add_column("runstep", sa.Column("progress", JSON, nullable=True))
    op.add_column("workflowrun", sa.Column("definition_id", sa.BigInteger(), nullable=True))
    for table in ("rungroup", "workflowrun", "runstep"):
        _set_storage(table, UPDATED_OFTEN)


def downgrade() -> None:
    for table in ("rungroup", "workflowrun", "runstep"):
        _reset_storage(table, UPDATED_OFTEN)
    _set_storage("runstep", STEP_SHARE)
    op.drop_column("workflowrun", "definition_id")
    op.drop_column("runstep", "progress")
    op.drop_index("ix_rungroup_delete_requested_at", table_name="rungroup")
    op.drop_column("rungroup", "delete_requested_at")
    for table in ("resourcewaiter", "stepprofile", "schedule", "definition"):
        op.drop_table(table)


def _partial_index(name: str, table: str, columns: list[str], where: sa.TextClause) -> None:
    op.create_index(name, table, columns, unique=False, postgresql_where=where, sqlite_where=where)


def _set_storage(table: str, values: dict[str, str]) -> None:
    if op.get_context().dialect.name == "postgresql":
        listed = ", ".join(f"{name} = {value}" for name, value in values.items())
        op.execute(f"ALTER TABLE {table} SET ({listed})")


def _reset_storage(table: str, values: dict[str, str]) -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {table} RESET ({', '.join(values)})")
