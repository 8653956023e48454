"""Failures by their cause: those that say the same but for numbers, paths, names and hashes are told as one.

The newest `MOST` failures are looked at, and no others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import aliased
from sqlmodel import col

from soliplex.ingester.lib.models import Database, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.pieces import ROWS, in_pieces
from soliplex.ingester.lib.wf.views.activity import Interval
from soliplex.ingester.lib.wf.views.groups import get_run_group
from soliplex.ingester.lib.wf.views.steps import IS_TROUBLED

MOST: Final = 10_000
EXAMPLES: Final = 5
LONGEST: Final = 500
"""Characters of a message by which causes are told apart."""
_ERROR_TYPE: Final = "error_type"

# Each with the word that stands for what it matches; the more special first.
_VARIABLE: Final = (
    (re.compile(r"https?://[^\s'\"<>]+"), "<address>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?:sha256-)?(?=[0-9a-f]*\d)[0-9a-f]{12,}\b", re.IGNORECASE), "<hash>"),
    (re.compile(r"0x[0-9a-f]+\b", re.IGNORECASE), "<number>"),
    (re.compile(r"'(?:[^'\\\n]|\\.){1,300}'|\"(?:[^\"\\\n]|\\.){1,300}\""), "<text>"),
    (re.compile(r"(?<![\w<>])(?:[A-Za-z]:)?(?:[\w.~+%@-]*[\\/])+[\w.~+%@-]+"), "<path>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<number>"),
)


@dataclass(slots=True, kw_only=True)
class Cause:
    """What many steps failed of."""

    error_type: str | None
    message: str
    """What all messages have in common: what differs stands in pointed brackets."""
    step_types: list[str]
    failed: int = 0
    """Steps that failed for good."""
    to_be_retried: int = 0
    """Steps that will be tried again."""
    newest: datetime | None = None
    example: str = ""
    """The newest of the messages, as it is."""
    run_ids: list[int] = field(default_factory=list[int])
    """The newest runs that it happened in."""

    @property
    def steps(self) -> int:
        return self.failed + self.to_be_retried


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of failures, those of most steps first."""

    causes: list[Cause]
    looked_at: int
    """Steps that have failed."""
    is_exact: bool
    """False: there are more failed steps than were looked at."""


async def failures_by_cause(
    *, run_group_id: int | None = None, interval: Interval | None = None, now: datetime | None = None
) -> Causes:
    """Why steps failed, or wait for another attempt: of a group, of the last while, or whatever is newest.

    A map step fails for the reason of its tasks, and is not counted beside them.
    """
    if run_group_id is not None:
        await get_run_group(run_group_id)
    since = None if interval is None else (now or utcnow()) - interval.length
    found: dict[tuple[str | None, str], Cause] = {}
    looked_at, is_exact = 0, True
    for status in (RunStatus.FAILED, RunStatus.ERROR):
        rows = await _newest(status, run_group_id)
        is_exact = is_exact and len(rows) < MOST
        recent = [row for row in rows if since is None or (row.status_date is not None and row.status_date >= since)]
        looked_at += len(recent)
        async for some in in_pieces(recent, ROWS):
            for row in some:
                _note(row, status, found)
    for cause in found.values():
        cause.step_types.sort()
    causes = sorted(found.values(), key=lambda cause: (-cause.steps, cause.message))
    return Causes(causes, looked_at, is_exact)


def in_general(message: str) -> str:
    """A message without what is different each time: numbers, names, paths, addresses, hashes."""
    general = " ".join(message[:LONGEST].split())
    for pattern, word in _VARIABLE:
        general = pattern.sub(word, general)
    return general


async def _newest(status: RunStatus, run_group_id: int | None) -> list[Any]:
    step = col(RunStep.id)
    error_type = col(RunStep.status_meta)[_ERROR_TYPE].as_string()
    task = aliased(RunStep)
    has_tasks = sa.select(col(task.id)).where(col(task.parent_step_id) == step).exists()
    query: Any = (
        sa.select(
            col(RunStep.workflow_run_id),
            col(RunStep.step_type),
            col(RunStep.status_date),
            col(RunStep.status_message),
            error_type.label(_ERROR_TYPE),
        )
        .where(IS_TROUBLED, col(RunStep.status) == status, ~has_tasks)
        .order_by(step.desc())
        .limit(MOST)
    )
    if run_group_id is not None:
        query = query.join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id)).where(
            col(WorkflowRun.run_group_id) == run_group_id
        )
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


def _note(row: Any, status: RunStatus, found: dict[tuple[str | None, str], Cause]) -> None:
    message = row.status_message or ""
    key = row.error_type, in_general(message)
    cause = found.setdefault(key, Cause(error_type=key[0], message=key[1], step_types=[]))
    if status is RunStatus.FAILED:
        cause.failed += 1
    else:
        cause.to_be_retried += 1
    if row.step_type not in cause.step_types:
        cause.step_types.append(row.step_type)
    if cause.newest is None or (row.status_date is not None and row.status_date > cause.newest):
        cause.newest, cause.example = row.status_date, message
    if len(cause.run_ids) < EXAMPLES and row.workflow_run_id not in cause.run_ids:
        cause.run_ids.append(row.workflow_run_id)
