"""The articles that documents were cut into by segmentation jobs."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field

from soliplex.ingester.lib.enums import SegmentStatus
from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import IDS_ARE_NEVER_REUSED, JSON, EnumText, UtcDateTime, one_of, utcnow
from soliplex.ingester.lib.models.workflows import BigId


class Segment(Table, table=True):
    """One article of a job's document. It goes with the document, whoever deletes that."""

    __table_args__ = (
        sa.UniqueConstraint("document_id", "ordinal"),
        sa.CheckConstraint(one_of("status", SegmentStatus), name="status_is_known"),
        sa.CheckConstraint("ordinal >= 0", name="ordinal_counts_from_zero"),
        sa.CheckConstraint("pagenr >= 1", name="pages_count_from_one"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    document_id: int = Field(foreign_key="documenturi.id", ondelete="CASCADE")
    ordinal: int
    """Its place in the document, from 0."""
    status: SegmentStatus = Field(default=SegmentStatus.PENDING, sa_type=EnumText(SegmentStatus))
    title: str
    group_path: str
    """The headings above it, as a path."""
    body: str
    pagenr: int | None = None
    """The page it begins on; None where the document has no pages."""
    tags: list[str] = Field(default_factory=list, sa_type=JSON)
    lang: str | None = None
    errormessage: str | None = None
    """Why it is FAILED."""
    timeit: int | None = None
    """Milliseconds that tagging took."""
    is_told: bool = Field(default=False)
    """Whether a progress callback held it."""
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    updated_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
