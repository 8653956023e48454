"""The values that cross the protocol of an installation: what is asked of it, and what it answers.

Imports nothing but the standard library and what clients of a server need too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from soliplex.ingester.lib.answers import SearchKind
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.errors import IngesterError


class FileRefusedError(IngesterError):
    """This one file cannot be taken; others can."""


class Standing(StrEnum):
    """What the target knows of a file."""

    NEW = "new"
    CHANGED = "mismatch"
    UNCHANGED = "matched"


@dataclass(frozen=True, slots=True)
class Started:
    """The group of runs that processes a batch, and how many runs were added to it now."""

    group_id: int
    new_runs: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group of runs, as it was last heard of."""

    id: int
    name: str | None
    workflow_definition_id: str
    param_definition_id: str
    batch_id: int | None
    status: RunStatus
    created_date: datetime
    completed_date: datetime | None
    total_runs: int
    remaining_runs: int
    failed_runs: int
    cancelled_runs: int

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """The group with these facts, of which there may be more."""
        known: dict[str, Any] = {field.name: facts[field.name] for field in fields(cls)}
        known["status"] = RunStatus(known["status"])
        return cls(**known)

    @property
    def completed_runs(self) -> int:
        return self.total_runs - self.remaining_runs - self.failed_runs - self.cancelled_runs


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far the runs of a group are with one step."""

    name: str
    total: int
    completed: int
    failed: int
    cancelled: int
    running: int = 0

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group of runs is."""

    status: RunStatus
    total: int
    completed: int
    failed: int
    cancelled: int
    stages: tuple[StageProgress, ...]
    waiting_events: int = 0
    """Handlers of the group's events that have not been called yet, as far as it is known."""

    @property
    def is_over(self) -> bool:
        return self.status.is_final and not self.waiting_events

    def since(self, before: GroupProgress) -> GroupProgress:
        """The progress without the runs that had been completed before."""
        return replace(self, total=self.total - before.completed, completed=self.completed - before.completed)

    def without_routed(self, runs: int) -> GroupProgress:
        """The progress of documents: runs that were added to so many have taken documents over from others.

        A run whose route step sends its document into another workflow ends well, whatever comes of the document.
        """
        added = max(0, self.total - runs)
        return replace(self, total=self.total - added, completed=max(0, self.completed - added))

    def plus(self, other: GroupProgress) -> GroupProgress:
        """The progress of two groups together, without the steps."""
        return replace(
            other,
            total=self.total + other.total,
            completed=self.completed + other.completed,
            failed=self.failed + other.failed,
            cancelled=self.cancelled + other.cancelled,
            stages=(),
        )


@dataclass(frozen=True, slots=True)
class Retried:
    """What was put back."""

    reset_runs: int
    reset_steps: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be ingested: at which stage, and why."""

    uri: str
    stage: str
    reason: str
    can_retry: bool = True
    """Whether trying again can help, with the document as it is."""
    run_group_id: int | None = None

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """The failure with these facts, of which there may be more."""
        return cls(**{field.name: facts[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How documents are to be processed; what is None is the target's default."""

    workflow_id: str | None = None
    param_id: str | None = None
    priority: int = 0


@dataclass(slots=True)
class Changes:
    """Whether something may have changed since one looked."""

    happened: asyncio.Event = field(default_factory=asyncio.Event)
    are_told: bool = False
    """Whether the installation tells of changes. Where it does not, the caller has to look now and then."""
    looks_every: float = 0.0
    """Seconds between looks where somebody tells of changes: many come at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to look for in what was ingested, and where."""

    text: str
    kind: SearchKind
    limit: int
    db: str | None = None
    source: str | None = None
    batch_id: int | None = None
    uri_prefix: str | None = None
    min_score: float | None = None
    meta: Mapping[str, str] = field(default_factory=dict[str, str])
