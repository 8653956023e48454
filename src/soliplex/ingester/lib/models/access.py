"""Who may use a server, and who did what that cannot be undone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import IDS_ARE_NEVER_REUSED, JSON, UtcDateTime, partial_index, utcnow
from soliplex.ingester.lib.models.workflows import BigId


class ApiKey(Table, table=True):
    """A named key. What it is made of is known to whoever was given it; here is only its hash."""

    __table_args__ = (
        sa.UniqueConstraint("key_hash"),
        # A name is free again when its key was revoked.
        partial_index("ix_apikey_name", "name", where="revoked_at IS NULL", unique=True),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True)
    name: str
    key_hash: str
    """SHA-256 of the key, in hex. The key is random and long, so that nothing slower is needed."""
    beginning: str
    """The first characters of the key, to tell keys apart by."""
    scopes: list[str] = Field(sa_type=JSON)
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    created_by: str
    expires_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    """To within an hour: it is not written with every request."""
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class BrowserSession(Table, table=True):
    """A browser that has logged in with a key, until it logs out or the time is over."""

    __table_args__ = (sa.Index("ix_browsersession_expires_at", "expires_at"),)

    token_hash: str = Field(primary_key=True)
    """SHA-256 of what the browser's cookie holds, in hex."""
    key_hash: str
    """That of the key it logged in with; a session ends with its key."""
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)


class AuditEntry(Table, table=True):
    """One act that stopped, repeated or deleted something, or gave or took access: who, what and when."""

    __table_args__ = (
        sa.CheckConstraint("via IN ('http', 'local')", name="via_is_known"),
        sa.Index("ix_auditentry_action", "action", "id"),
        sa.Index("ix_auditentry_actor", "actor", "id"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    actor: str
    """The name of the key or the user."""
    via: str
    """`http` for requests to a server; `local` for commands and programs on the machine."""
    action: str
    details: dict[str, Any] = Field(default_factory=dict[str, Any], sa_type=JSON)
    """What it was done to."""
    outcome: str | None = None
    """`done`, or why it was not; None while it is under way, and if the process died meanwhile."""
