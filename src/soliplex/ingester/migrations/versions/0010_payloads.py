"""A table for large inputs, outputs and states, to which the rows of runs and steps refer.

What is stored already stays where it is: only what is written from now on goes into the table.

Revision 0010, after 0009.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import UtcDateTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
IS_STATE = sa.text("is_state")


def upgrade() -> None:
    op.create_table(
        "payload",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("workflow_run_id", sa.BigInteger(), nullable=False),
        sa.Column("step_id", sa.BigInteger(), nullable=True),
        sa.Column("is_state", sa.Boolean(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payload")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_payload_workflow_run_id", "payload", ["workflow_run_id", "id"])
    op.create_index(
        "ix_payload_state_of_step",
        "payload",
        ["step_id", "id"],
        sqlite_where=IS_STATE,
        postgresql_where=IS_STATE,
    )


def downgrade() -> None:
    _refuse_to_lose_payloads()
    op.drop_table("payload")


def _refuse_to_lose_payloads() -> None:
    """Rows refer to what stands in the table: an older version could not read them."""
    count = op.get_bind().execute(sa.text("SELECT count(*) FROM payload")).scalar_one()
    if count:
        raise RuntimeError(f"{count} large inputs and outputs stand in table payload: delete or prune their runs first")
