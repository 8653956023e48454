"""Values that are too large for the rows of steps and runs."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field

from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import IDS_ARE_NEVER_REUSED, UtcDateTime, partial_index, utcnow
from soliplex.ingester.lib.models.workflows import BigId


class Payload(Table, table=True):
    """A large input, output or state, to which a row of its run or of one of the run's steps refers.

    No foreign keys: it is deleted by the transaction that deletes its run.
    """

    __table_args__ = (
        sa.Index("ix_payload_workflow_run_id", "workflow_run_id", "id"),
        partial_index("ix_payload_state_of_step", "step_id", "id", where="is_state"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    workflow_run_id: int = Field(sa_type=sa.BigInteger)
    step_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    """None: it is the run's input."""
    is_state: bool = False
    """Whether it is a handler's state, to be given back at its next call."""
    content: str
    """JSON."""
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
