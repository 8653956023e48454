"""Documents, the URIs they live at, and what is stored of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import computed_field
from sqlmodel import Field

from soliplex.ingester.lib.enums import ArtifactType, HistoryAction
from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import IDS_ARE_NEVER_REUSED, JSON, EnumText, UtcDateTime, one_of, utcnow


class DocumentBatch(Table, table=True):
    """Documents that were ingested together."""

    __table_args__ = (sa.Index("ix_documentbatch_source", "source"), IDS_ARE_NEVER_REUSED)

    id: int | None = Field(default=None, primary_key=True)
    name: str
    source: str
    start_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    completed_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    batch_params: dict[str, str] = Field(default_factory=dict, sa_type=JSON)

    @computed_field
    @property
    def duration(self) -> float | None:
        """Seconds from start to completion."""
        return seconds_between(self.start_date, self.completed_date)


class Document(Table, table=True):
    """One content, whatever the number of places it was found at; known by its hash."""

    __table_args__ = (
        sa.CheckConstraint("hash LIKE 'sha256-%'", name="hash_names_its_algorithm"),
        sa.CheckConstraint("file_size >= 0", name="file_size_is_not_negative"),
    )

    hash: str = Field(primary_key=True)
    mime_type: str
    file_size: int | None = Field(default=None, sa_type=sa.BigInteger)
    doc_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class DocumentURI(Table, table=True):
    """Where a document lives in its source system; one row per (uri, source), at its newest version."""

    __table_args__ = (
        sa.UniqueConstraint("uri", "source"),
        sa.CheckConstraint("version >= 1", name="version_counts_from_one"),
        sa.Index("ix_documenturi_source", "source", "uri"),
        sa.Index("ix_documenturi_doc_hash", "doc_hash"),
        sa.Index("ix_documenturi_batch_id", "batch_id", "id"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True)
    doc_hash: str = Field(foreign_key="document.hash")
    uri: str
    source: str
    version: int = 1
    batch_id: int | None = Field(default=None, foreign_key="documentbatch.id")


class DocumentURIHistory(Table, table=True):
    """What happened at a URI, version by version."""

    __table_args__ = (
        sa.CheckConstraint(one_of("action", HistoryAction), name="action_is_known"),
        sa.CheckConstraint("version >= 1", name="version_counts_from_one"),
        sa.Index("ix_documenturihistory_doc_uri_id", "doc_uri_id", "version"),
        sa.Index("ix_documenturihistory_hash", "hash"),
        sa.Index("ix_documenturihistory_batch_id", "batch_id"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True)
    doc_uri_id: int = Field(foreign_key="documenturi.id")
    version: int
    hash: str
    process_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    action: HistoryAction = Field(sa_type=EnumText(HistoryAction))
    batch_id: int | None = Field(default=None, foreign_key="documentbatch.id")
    histmeta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class DocumentBytes(Table, table=True):
    """Raw bytes and artifacts, where the database is the artifact store."""

    __table_args__ = (
        sa.CheckConstraint(one_of("artifact_type", ArtifactType), name="artifact_type_is_known"),
        sa.CheckConstraint("file_size >= 0", name="file_size_is_not_negative"),
    )

    hash: str = Field(primary_key=True)
    artifact_type: str = Field(primary_key=True)
    storage_root: str = Field(primary_key=True)
    file_size: int | None = Field(default=None, sa_type=sa.BigInteger)
    file_bytes: bytes

    def __init__(self, **values: Any) -> None:
        if values.get("file_size") is None and values.get("file_bytes") is not None:
            values["file_size"] = len(values["file_bytes"])
        super().__init__(**values)


class DocumentRemoval(Table, table=True):
    """What is still stored of a document whose rows are gone: written by the transaction that deletes the rows.

    For a document that lives on, a row says that RAG databases have to be told where: a place was added or deleted.

    A crash in between leaves the removal to be finished later. Content that is uploaded again withdraws a removal that
    has not been started, and waits for one that has.
    """

    __table_args__ = (
        sa.CheckConstraint("(started_at IS NULL) = (holder IS NULL)", name="whoever_started_it_holds_it"),
        sa.Index("ix_documentremoval_requested_at", "requested_at"),
    )

    doc_hash: str = Field(primary_key=True)
    target: str = Field(primary_key=True)
    """`artifacts`; the resource key of a RAG database; or `places`, for all RAG databases that hold the document."""
    requested_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    holder: str | None = None


class SyncState(Table, table=True):
    """How far a client has followed its source, such as a Git repository."""

    source_id: str = Field(primary_key=True)
    last_commit_sha: str | None = None
    last_sync_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    branch: str = "main"
    sync_metadata: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
