"""Run groups by when they ended, for pruning.

Revision 0018, after 0017.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_rungroup_completed_date",
        "rungroup",
        ["status", "completed_date", "id"],
        postgresql_where=sa.text("completed_date IS NOT NULL"),
        sqlite_where=sa.text("completed_date IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_rungroup_completed_date", table_name="rungroup")
