"""Runs that failed or were cancelled have an index of their own, in place of one of all runs by status.

That one had to be maintained whenever a run began or ended, and with it, on PostgreSQL, every other index of the run.

Revision 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TROUBLED = sa.text("failed_steps > 0 OR cancel_requested_at IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_workflowrun_troubled",
        "workflowrun",
        ["batch_id", "id"],
        unique=False,
        postgresql_where=TROUBLED,
        sqlite_where=TROUBLED,
    )
    op.drop_index("ix_workflowrun_status", table_name="workflowrun")


def downgrade() -> None:
    op.create_index("ix_workflowrun_status", "workflowrun", ["status", "batch_id", "id"], unique=False)
    op.drop_index("ix_workflowrun_troubled", table_name="workflowrun")
