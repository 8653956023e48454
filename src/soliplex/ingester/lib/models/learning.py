"""What was learned from how flows ran, and what came of using it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from soliplex.ingester.lib.enums import Standing
from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import (
    IDS_ARE_NEVER_REUSED,
    JSON,
    EnumText,
    UtcDateTime,
    one_of,
    partial_index,
    utcnow,
)
from soliplex.ingester.lib.models.workflows import BigId


class FlowOptimization(Table, table=True):
    """A version of a flow that was made of what its runs taught, and how it compares with the version before."""

    __table_args__ = (
        sa.CheckConstraint(one_of("standing", Standing), name="standing_is_known"),
        sa.CheckConstraint("(settled_at IS NULL) = (standing = 'applied')", name="settled_unless_only_applied"),
        sa.Index("ix_flowoptimization_slug", "slug", "id"),
        # Of one flow, one change is tried at a time: of two, nobody could tell which did what.
        partial_index("ix_flowoptimization_open", "slug", where="settled_at IS NULL", unique=True),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    slug: str
    level: str
    base_hash: str
    """The hash of the flow as its author defined it: runs of another definition say nothing about this one."""
    previous_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    """The optimization that was in use before. None: the flow as it was defined."""
    changes: list[dict[str, Any]] = Field(sa_type=JSON)
    """All that is changed in the flow as it was defined."""
    predicted_before: float
    """Seconds a run takes, worked out from its steps."""
    predicted_after: float
    measured_before: float | None = None
    """The median of the seconds that runs took."""
    measured_after: float | None = None
    runs_before: int = 0
    runs_after: int = 0
    failed_before: int = 0
    failed_after: int = 0
    standing: Standing = Field(default=Standing.APPLIED, sa_type=EnumText(Standing))
    verdict: str | None = None
    """Why it stands so, in a sentence with numbers."""
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    settled_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class FlowPattern(Table, table=True):
    """Something that runs of a flow taught about a step, or about the flow."""

    __table_args__ = (sa.CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence_is_a_share"),)

    slug: str = Field(primary_key=True)
    step: str = Field(primary_key=True)
    """Empty: it is about the flow."""
    kind: str = Field(primary_key=True)
    current: Any = Field(default=None, sa_type=JSON, nullable=True)
    proposed: Any = Field(default=None, sa_type=JSON, nullable=True)
    samples: int
    confidence: float
    predicted_seconds: float
    """Seconds that each run would save."""
    seen_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)


class KnownDecomposition(Table, table=True):
    """What a language model made of a goal: asked again, it need not be asked again."""

    __table_args__ = (sa.Index("ix_knowndecomposition_used_at", "used_at"),)

    goal_hash: str = Field(primary_key=True)
    """SHA-256 of the goal, regardless of case and blanks, and of what else the model is told."""
    tasks: Any = Field(default=None, sa_type=JSON, nullable=True)
    uses: int = 0
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    used_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
