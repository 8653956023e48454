"""What was learned from how flows ran, and decompositions of goals that are known.

Revision 0016, after 0015.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "flowoptimization",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("base_hash", sa.String(), nullable=False),
        sa.Column("previous_id", sa.BigInteger(), nullable=True),
        sa.Column("changes", JSON, nullable=False),
        sa.Column("predicted_before", sa.Float(), nullable=False),
        sa.Column("predicted_after", sa.Float(), nullable=False),
        sa.Column("measured_before", sa.Float(), nullable=True),
        sa.Column("measured_after", sa.Float(), nullable=True),
        sa.Column("runs_before", sa.Integer(), nullable=False),
        sa.Column("runs_after", sa.Integer(), nullable=False),
        sa.Column("failed_before", sa.Integer(), nullable=False),
        sa.Column("failed_after", sa.Integer(), nullable=False),
        sa.Column("standing", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("settled_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "standing IN ('applied', 'kept', 'taken_back', 'superseded')",
            name=op.f("flowoptimization_standing_is_known"),
        ),
        sa.CheckConstraint(
            "(settled_at IS NULL) = (standing = 'applied')",
            name=op.f("flowoptimization_settled_unless_only_applied"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flowoptimization")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_flowoptimization_slug", "flowoptimization", ["slug", "id"])
    op.create_index(
        "ix_flowoptimization_open",
        "flowoptimization",
        ["slug"],
        unique=True,
        postgresql_where=sa.text("settled_at IS NULL"),
        sqlite_where=sa.text("settled_at IS NULL"),
    )
    op.create_table(
        "flowpattern",
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("current", JSON, nullable=True),
        sa.Column("proposed", JSON, nullable=True),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("predicted_seconds", sa.Float(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("confidence BETWEEN 0 AND 1", name=op.f("flowpattern_confidence_is_a_share")),
        sa.PrimaryKeyConstraint("slug", "step", "kind", name=op.f("pk_flowpattern")),
    )
    op.create_table(
        "knowndecomposition",
        sa.Column("goal_hash", sa.String(), nullable=False),
        sa.Column("tasks", JSON, nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("goal_hash", name=op.f("pk_knowndecomposition")),
    )
    op.create_index("ix_knowndecomposition_used_at", "knowndecomposition", ["used_at"])


def downgrade() -> None:
    op.drop_table("knowndecomposition")
    op.drop_table("flowpattern")
    op.drop_table("flowoptimization")
