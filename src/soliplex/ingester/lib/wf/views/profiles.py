"""How steps of pruned runs went: what is left of them, as counts by outcome and duration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row
from soliplex.ingester.lib.models.workflows import PROFILE_BOUNDS
from soliplex.ingester.lib.wf.sql import SQL


@dataclass(frozen=True, slots=True)
class Profile:
    """How the steps of one name went."""

    step_name: str
    step_type: str
    steps: int
    failed: int
    failed_attempts: int
    """Counts the failed attempts of steps that completed in the end, too."""
    mean_seconds: float | None
    p50_seconds: float | None
    """Half of the steps took no longer than this. It is the bound above the median, and less than twice the median."""
    p95_seconds: float | None


async def step_profiles(
    workflow_id: str, *, within: timedelta = timedelta(days=3650), now: datetime | None = None
) -> list[Profile]:
    """The profiles of the steps of a workflow, over this time, by step name."""
    since = ((now or utcnow()) - within).date().isoformat()
    rows = await Database.read(SQL.step_profiles(workflow_id=workflow_id, since=since))
    by_step: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_step[row["step_name"], row["step_type"]].append(row)
    return [_profile(name, kind, found) for (name, kind), found in by_step.items()]


def _profile(name: str, kind: str, rows: Sequence[Row]) -> Profile:
    timed = [row for row in rows if row["bucket"] >= 0 and row["status"] == RunStatus.COMPLETED]
    count = sum(int(row["steps"]) for row in timed)
    return Profile(
        step_name=name,
        step_type=kind,
        steps=sum(int(row["steps"]) for row in rows),
        failed=sum(int(row["steps"]) for row in rows if row["status"] == RunStatus.FAILED),
        failed_attempts=sum(int(row["attempts"]) for row in rows),
        mean_seconds=sum(row["seconds"] for row in timed) / count if count else None,
        p50_seconds=_percentile(timed, count, 0.5),
        p95_seconds=_percentile(timed, count, 0.95),
    )


def _percentile(rows: Sequence[Row], count: int, share: float) -> float | None:
    """The bound that this share of the steps does not exceed. None: there are none, or it is beyond all bounds."""
    reached = 0
    for row in sorted(rows, key=lambda row: row["bucket"]):
        reached += int(row["steps"])
        if reached >= share * count:
            return PROFILE_BOUNDS[row["bucket"]] if row["bucket"] < len(PROFILE_BOUNDS) else None
    return None
