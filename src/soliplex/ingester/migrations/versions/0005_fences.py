"""A token for each holder of a resource lock, larger than all before it.

Revision 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "resourcefence",
        sa.Column("resource_key", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("holder_id", sa.String(), nullable=False),
        sa.Column("taken_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("token > 0", name=op.f("resourcefence_token_is_positive")),
        sa.PrimaryKeyConstraint("resource_key", name=op.f("pk_resourcefence")),
    )


def downgrade() -> None:
    op.drop_table("resourcefence")
