"""Named keys, sessions of browsers, and the audit log.

Revision 0014, after 0013.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "apikey",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("key_hash", sa.String(), nullable=False),
        sa.Column("beginning", sa.String(), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_apikey")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_apikey_key_hash")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_apikey_name",
        "apikey",
        ["name"],
        unique=True,
        postgresql_where=sa.text("revoked_at IS NULL"),
        sqlite_where=sa.text("revoked_at IS NULL"),
    )
    op.create_table(
        "browsersession",
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("key_hash", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_browsersession")),
    )
    op.create_index("ix_browsersession_expires_at", "browsersession", ["expires_at"])
    op.create_table(
        "auditentry",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("details", JSON, nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.CheckConstraint("via IN ('http', 'local')", name=op.f("auditentry_via_is_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_auditentry")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_auditentry_action", "auditentry", ["action", "id"])
    op.create_index("ix_auditentry_actor", "auditentry", ["actor", "id"])


def downgrade() -> None:
    op.drop_table("auditentry")
    op.drop_table("browsersession")
    op.drop_table("apikey")
