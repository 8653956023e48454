"""What the engine answers to those who ask, in this process or over HTTP: values, and nothing that makes them.

A client reads the same types from a server's JSON, and must not need a database for it: so this imports nothing but the
standard library and the enums.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt at a step that failed: when, where and why."""

    id: int
    step_id: int
    step_name: str
    item_index: int | None
    """Which item the attempt was about, if the step is a task of a map step."""
    attempt: int
    worker_id: str | None
    start_date: datetime | None
    end_date: datetime
    duration: float | None
    """Seconds."""
    error_type: str | None
    message: str | None
    traceback: str | None


class SignalStanding(StrEnum):
    """What had become of a signal when its sender was answered."""

    TAKEN = "taken"
    """A step has taken it."""
    AWAITED = "awaited"
    """A step waits for it, and a worker will bring it there."""
    KEPT = "kept"
    """No step waits for its key. The next one that does will have it."""


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that was recorded, and what had become of it a moment later."""

    id: int
    key: str
    standing: SignalStanding
    has_workers: bool
    """Whether a worker has checked in: without a worker, nobody brings an awaited signal to its step."""


@dataclass(frozen=True, slots=True)
class GroupEta:
    """When a group will have ended, if it goes on as it did lately."""

    run_group_id: int
    total_runs: int
    remaining_runs: int
    seconds: float | None
    """Seconds until the end. 0: the group has ended. None: nobody can know."""
    ends_at: datetime | None
    reason: str | None
    """Why the end cannot be known."""
