"""Webhooks: messages for receivers outside.

Revision 0011, after 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEXES = {
    "ix_webhookmessage_run_id": (["run_id", "status", "sequence"], None),
    "ix_webhookmessage_pending": (["stream", "sequence"], sa.text("status = 'PENDING'")),
    "ix_webhookmessage_dead": (["settled_at", "id"], sa.text("status = 'DEAD'")),
}


def upgrade() -> None:
    op.create_table(
        "webhookmessage",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("webhook_id", sa.String(), nullable=False),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("run_id", BIG_ID, nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("settled_at", UtcDateTime(), nullable=True),
        sa.Column("try_count", sa.Integer(), nullable=False),
        sa.Column("tries", JSON, nullable=False),
        sa.CheckConstraint("status IN ('PENDING', 'DELIVERED', 'DEAD')", name=op.f("webhookmessage_status_is_known")),
        sa.CheckConstraint("sequence >= 1", name=op.f("webhookmessage_sequence_counts_from_one")),
        sa.CheckConstraint("try_count >= 0", name=op.f("webhookmessage_try_count_is_not_negative")),
        sa.CheckConstraint(
            "(settled_at IS NULL) = (status = 'PENDING')", name=op.f("webhookmessage_settled_at_only_when_settled")
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["workflowrun.id"], name=op.f("fk_webhookmessage_run_id_workflowrun"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhookmessage")),
        sa.UniqueConstraint("stream", "sequence", name=op.f("uq_webhookmessage_stream_sequence")),
        sa.UniqueConstraint("webhook_id", name=op.f("uq_webhookmessage_webhook_id")),
        sqlite_autoincrement=True,
    )
    for name, (columns, where) in INDEXES.items():
        op.create_index(name, "webhookmessage", columns, unique=False, postgresql_where=where, sqlite_where=where)


def downgrade() -> None:
    for name in INDEXES:
        op.drop_index(name, table_name="webhookmessage")
    op.drop_table("webhookmessage")
