"""What goes on in an installation at one moment: what `si-cli top` shows.

Put together from the same views, and over HTTP the same routes, as every other place that tells of them. Imports
nothing but the standard library, pydantic and what clients of a server need too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.wf.answers import GroupEta

MOST_GROUPS: Final = 10
"""Groups under way that are told of one by one, the newest."""
UNDER_WAY: Final = (RunStatus.RUNNING, RunStatus.PENDING)
"""The states of groups that have not ended."""
MOST_ROWS: Final = 100
"""Workers and locks that are told of one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsOfType:
    """The steps of one type: what waits for a worker, what runs, and what ended within the last minute."""

    step_type: str
    ready: int
    is_exact: bool
    """False: there are more than `ready`."""
    running: int
    workers: int | None
    """Workers that take the type, where steps of it wait or run. With 0, nobody will claim its steps."""
    oldest_ready_seconds: float | None
    completed: int
    failed: int

    @property
    def per_second(self) -> float:
        return self.completed / 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyWorker:
    """A worker, and how busy it is."""

    id: str
    hostname: str | None
    slots: int
    running_steps: int
    seconds_since_checkin: float
    resident_bytes: int | None
    processes_resident_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A resource that somebody holds."""

    resource_key: str
    holder_kind: str
    holder_id: str
    acquired_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveGroup:
    """A run group that has not ended."""

    id: int
    name: str | None
    workflow_definition_id: str
    status: str
    total_runs: int
    remaining_runs: int
    failed_runs: int
    seconds_left: float | None
    """None: it cannot be known."""
    reason: str | None
    """Why it cannot be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """What steps failed of within the last day, all for the same cause."""

    message: str
    error_type: str | None
    step_types: list[str]
    failed: int
    to_be_retried: int
    newest: datetime | None
    run_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What goes on now."""

    at: datetime
    steps: list[StepsOfType]
    workers: list[BusyWorker]
    worker_count: int
    locks: list[HeldLock]
    lock_count: int
    groups: list[ActiveGroup]
    group_count: int
    causes: list[FailureCause]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was answered, as JSON has it: rows, and how many there are in all where only some are given."""

    at: datetime
    queues: Sequence[Mapping[str, Any]]
    throughput: Sequence[Mapping[str, Any]]
    workers: tuple[Sequence[Mapping[str, Any]], int]
    locks: tuple[Sequence[Mapping[str, Any]], int]
    groups: tuple[Sequence[Mapping[str, Any]], int]
    etas: Mapping[int, GroupEta | None]
    causes: Sequence[Mapping[str, Any]]

    def overview(self) -> Overview:
        return Overview(
            at=self.at,
            steps=self._steps(),
            workers=_read(list[BusyWorker], self.workers[0]),
            worker_count=self.workers[1],
            locks=_read(list[HeldLock], self.locks[0]),
            lock_count=self.locks[1],
            groups=[self._group(each) for each in self.groups[0]],
            group_count=self.groups[1],
            causes=_read(list[FailureCause], self.causes),
        )

    def _steps(self) -> list[StepsOfType]:
        """Of every type that waits, runs, or has ended lately."""
        queues = {each["step_type"]: each for each in self.queues}
        ended = {each["step_type"]: each for each in self.throughput}
        return [self._of_type(name, queues.get(name), ended.get(name, {})) for name in sorted({*queues, *ended})]

    def _of_type(self, name: str, queue: Mapping[str, Any] | None, ended: Mapping[str, Any]) -> StepsOfType:
        known = queue or {"ready": 0, "is_exact": True, "running": 0, "workers": None, "oldest": None}
        return StepsOfType(
            step_type=name,
            ready=known["ready"],
            is_exact=known["is_exact"],
            running=known["running"],
            workers=known["workers"],
            oldest_ready_seconds=known["oldest"]["waits"] if known["oldest"] else None,
            completed=ended.get("completed", 0),
            failed=ended.get("failed", 0),
        )

    def _group(self, facts: Mapping[str, Any]) -> ActiveGroup:
        eta = self.etas.get(facts["id"])
        left = {"seconds_left": eta.seconds if eta else None, "reason": eta.reason if eta else None}
        return _read(ActiveGroup, {**facts, **left})


def _read[T](kind: type[T], value: Any) -> T:
    return _adapter(kind).validate_python(value)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
