"""Vectors of texts that were embedded before."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field

from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import UtcDateTime, utcnow


class CachedEmbedding(Table, table=True):
    """The vector that a model of a provider gave for a text, which is known by its hash."""

    __table_args__ = (
        sa.CheckConstraint("length(text_hash) = 64", name="text_hash_is_a_sha256"),
        sa.CheckConstraint("length(vector) > 0 AND length(vector) % 4 = 0", name="vector_holds_32_bit_floats"),
        sa.Index("ix_cachedembedding_used_at", "used_at"),
    )

    provider: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    text_hash: str = Field(primary_key=True)
    vector: bytes
    """32-bit floats, the lowest byte first."""
    used_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    """When the vector was last used, to within a day: not every use is worth a write."""
