"""Messages for receivers outside, one row each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from soliplex.ingester.lib.enums import WebhookStatus
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


class WebhookMessage(Table, table=True):
    """One webhook: what is sent where, and what came of it. A run delivers it, and it is deleted with that run."""

    __table_args__ = (
        sa.CheckConstraint(one_of("status", WebhookStatus), name="status_is_known"),
        sa.CheckConstraint("sequence >= 1", name="sequence_counts_from_one"),
        sa.CheckConstraint("try_count >= 0", name="try_count_is_not_negative"),
        sa.CheckConstraint("(settled_at IS NULL) = (status = 'PENDING')", name="settled_at_only_when_settled"),
        sa.UniqueConstraint("stream", "sequence"),
        sa.UniqueConstraint("webhook_id"),
        sa.Index("ix_webhookmessage_run_id", "run_id", "status", "sequence"),
        partial_index("ix_webhookmessage_pending", "stream", "sequence", where="status = 'PENDING'"),
        partial_index("ix_webhookmessage_dead", "settled_at", "id", where="status = 'DEAD'"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    webhook_id: str
    """What the receiver knows it by, the same at each try."""
    stream: str
    """Messages of one stream are delivered one after the other, in the order of `sequence`."""
    sequence: int
    run_id: int = Field(sa_column=sa.Column(BigId, sa.ForeignKey("workflowrun.id", ondelete="CASCADE"), nullable=False))
    """The run that delivers it."""
    url: str
    event_type: str
    body: str
    """JSON, as it is sent and signed."""
    secret: str | None = None
    """The name of the key that signs it; None for the key of the settings."""
    status: WebhookStatus = Field(default=WebhookStatus.PENDING, sa_type=EnumText(WebhookStatus))
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)
    """From then on, a try in vain is the last."""
    settled_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    """When it was delivered or given up."""
    try_count: int = 0
    """How often it was tried since it was enqueued, or last redelivered."""
    tries: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]], sa_type=JSON)
    """The last tries, the oldest first: `at`, `seconds`, and the answer's `status` and `answer`, its first bytes, or
    what went wrong as `error`."""
