"""Articles of segmentation jobs.

Revision 0012, after 0011.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "segment",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("document_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("group_path", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("pagenr", sa.Integer(), nullable=True),
        sa.Column("tags", JSON, nullable=False),
        sa.Column("lang", sa.String(), nullable=True),
        sa.Column("errormessage", sa.String(), nullable=True),
        sa.Column("timeit", sa.Integer(), nullable=True),
        sa.Column("is_told", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("status IN ('PENDING', 'COMPLETED', 'FAILED')", name=op.f("segment_status_is_known")),
        sa.CheckConstraint("ordinal >= 0", name=op.f("segment_ordinal_counts_from_zero")),
        sa.CheckConstraint("pagenr >= 1", name=op.f("segment_pages_count_from_one")),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["documenturi.id"],
            name=op.f("fk_segment_document_id_documenturi"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segment")),
        sa.UniqueConstraint("document_id", "ordinal", name=op.f("uq_segment_document_id_ordinal")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("segment")
