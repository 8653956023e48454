"""Map steps that put up with tasks that fail, and map steps without an output.

Revision 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runstep", sa.Column("max_failures", sa.Integer(), nullable=True))
    op.add_column("runstep", sa.Column("failed_tasks", sa.Integer(), server_default="0", nullable=False))
    op.add_column("runstep", sa.Column("gather", sa.Boolean(), server_default=sa.true(), nullable=False))


def downgrade() -> None:
    for column in ("gather", "failed_tasks", "max_failures"):
        op.drop_column("runstep", column)
