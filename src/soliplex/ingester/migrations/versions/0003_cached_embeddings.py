"""Vectors of texts that were embedded before.

Revision 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cachedembedding",
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("text_hash", sa.String(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("length(text_hash) = 64", name=op.f("cachedembedding_text_hash_is_a_sha256")),
        sa.CheckConstraint(
            "length(vector) > 0 AND length(vector) % 4 = 0", name=op.f("cachedembedding_vector_holds_32_bit_floats")
        ),
        sa.PrimaryKeyConstraint("provider", "model", "text_hash", name=op.f("pk_cachedembedding")),
    )
    op.create_index("ix_cachedembedding_used_at", "cachedembedding", ["used_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_cachedembedding_used_at", table_name="cachedembedding")
    op.drop_table("cachedembedding")
