"""What is still stored of deleted documents, and how far clients have followed their sources.

Revision 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "documentremoval",
        sa.Column("doc_hash", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("holder", sa.String(), nullable=True),
        sa.CheckConstraint(
            "(started_at IS NULL) = (holder IS NULL)", name=op.f("documentremoval_whoever_started_it_holds_it")
        ),
        sa.PrimaryKeyConstraint("doc_hash", "target", name=op.f("pk_documentremoval")),
    )
    op.create_index("ix_documentremoval_requested_at", "documentremoval", ["requested_at"], unique=False)
    op.create_table(
        "syncstate",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("last_commit_sha", sa.String(), nullable=True),
        sa.Column("last_sync_date", UtcDateTime(), nullable=True),
        sa.Column("branch", sa.String(), nullable=False),
        sa.Column("sync_metadata", JSON, nullable=False),
        sa.PrimaryKeyConstraint("source_id", name=op.f("pk_syncstate")),
    )


def downgrade() -> None:
    op.drop_table("syncstate")
    op.drop_index("ix_documentremoval_requested_at", table_name="documentremoval")
    op.drop_table("documentremoval")
