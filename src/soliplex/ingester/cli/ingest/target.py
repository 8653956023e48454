"""Where documents go: the protocol, and the values that cross it.

One suite (`tests/conformance/test_targets.py`) holds the implementations to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self

from soliplex.ingester.cli.ingest.files import LocalFile
from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.models.enums import RunStatus

if TYPE_CHECKING:
    from soliplex.ingester.lib.operations import RolledBack, StoredVersion, VersionDiff
    from soliplex.ingester.lib.search import Hit, SearchKind


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How documents are to be processed; what is None is the target's default."""

    workflow_id: str | None = None
    param_id: str | None = None
    priority: int = 0


def address_in(run_input: Any) -> str | None:
    """The address that a run was started for, if it was started for one, without what may be secret in it."""
    given = run_input.get("source_uri") if isinstance(run_input, dict) else None
    return given if isinstance(given, str) else None


class Target(Protocol):
    """Takes documents, starts workflows on them and tells how these fare."""

    is_here: bool
    """Whether the documents are processed in this process, which has to load parser and model first."""

    async def check(self, work: Work) -> None:
        """Raise what would prevent the work, before anything is uploaded."""
        ...

    async def standings(self, source: str, hashes: Mapping[str, str]) -> dict[str, Standing]:
        """Compare {uri: hash} with what is stored for the source."""
        ...

    async def unfinished_batch(self, source: str, name: str) -> int | None:
        """The newest batch of this source and name, if it has not been completed."""
        ...

    async def create_batch(self, source: str, name: str) -> int: ...

    async def upload(
        self, file: LocalFile, *, source: str, batch_id: int, work: Work, sent: Callable[[int], None]
    ) -> None:
        """Stream a file; `sent` is told of bytes as they go. FileRefusedError if only this file is at fault."""
        ...

    async def start_workflows(self, batch_id: int, work: Work) -> Started:
        """Start a run for each document of the batch that has none yet for this workflow and these parameters."""
        ...

    async def rates(self, work: Work) -> Mapping[str, Any]:
        """How fast documents were processed so before, as `/stats/processing-rates` tells it; {} where it cannot."""
        ...

    def working(self) -> AbstractAsyncContextManager[None]:
        """While the block lasts, somebody works; when it ends, what is under way is finished or given back."""
        ...

    async def has_workers(self) -> bool:
        """Whether anybody works off what is started."""
        ...

    async def progress(self, group_id: int) -> GroupProgress: ...

    async def failures(self, group_id: int, limit: int) -> list[Failure]:
        """Documents of the group whose run failed, the newest first."""
        ...


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
    meta: Mapping[str, str] = field(default_factory=dict[str, str])


class Installation(Target, Protocol):
    """A target that can fetch documents itself, and be asked what was started before and what was ingested."""

    async def start_fetches(self, batch_id: int, uris: Sequence[str], *, source: str, work: Work) -> Started:
        """Start a run for each address, whose first step fetches the document into the batch."""
        ...

    async def groups(self, limit: int) -> tuple[Sequence[Group], int]:
        """The newest groups, and how many there are in all."""
        ...

    async def group(self, group_id: int) -> Group: ...

    async def retry(self, group_id: int, *, hard: bool) -> Retried:
        """Put back what failed or was cancelled; hard: all that is not completed."""
        ...

    async def search(self, question: Question) -> list[Hit]:
        """The passages that answer best, best first."""
        ...

    async def knows(self, uri: str, source: str) -> bool:
        """Whether anything ever lived there."""
        ...

    async def find(self, text: str, limit: int) -> list[tuple[str, str]]:
        """URIs that contain the text, each with its source."""
        ...

    async def versions(self, uri: str, source: str, limit: int) -> tuple[Sequence[StoredVersion], int]:
        """The newest versions, and how many there are in all."""
        ...

    async def diff(
        self, uri: str, source: str, from_version: int | None, to_version: int | None, *, context: int
    ) -> VersionDiff: ...

    async def roll_back(self, uri: str, source: str, version: int, work: Work) -> RolledBack: ...
