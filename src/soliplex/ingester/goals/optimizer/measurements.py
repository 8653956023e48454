"""What the tables tell of how a flow ran: its newest runs one by one, and of those that were pruned the profiles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.goals.optimizer.flow_changes import BASE, OPTIMIZATION, hash_of
from soliplex.ingester.goals.optimizer.statistics import quantile
from soliplex.ingester.goals.sql import SQL
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Row, datetime_of
from soliplex.ingester.lib.wf.operations.definitions import load_versions
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.views.profiles import Profile, step_profiles

MOST_RUNS: Final = 200
MOST_STEPS: Final = 20_000
AMONG_RUNS: Final = 200_000
TIMEOUT: Final = "StepTimeout"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run that has ended."""

    id: int
    seconds: float
    has_failed: bool
    optimization: int | None
    """The id of the optimization that made the version of the flow; None for a version of the author's."""
    base_hash: str | None
    """The hash of the flow, where the version is as its author defined it; else None."""


@dataclass(frozen=True, slots=True)
class Interval:
    """When a step, or a task of a map step, was at work."""

    run_id: int
    step: str
    begins: datetime
    ends: datetime

    @property
    def seconds(self) -> float:
        return (self.ends - self.begins).total_seconds()


@dataclass(slots=True, kw_only=True)
class StepStats:
    """How a step went, its tasks taken together."""

    step: str
    durations: list[float] = field(default_factory=list[float])
    """Seconds of calls that succeeded, sorted; only of steps that were called once."""
    executions: int = 0
    failed: int = 0
    retried: int = 0
    """Steps with an attempt that failed."""
    recovered: int = 0
    """Of these, how many completed."""
    recovered_at_once: int = 0
    """Of these, how many completed with the second attempt."""
    recovery_seconds: list[float] = field(default_factory=list[float])
    """From the end of the first attempt to the beginning of the one that succeeded."""
    failed_attempts: int = 0
    failed_attempt_seconds: float = 0.0
    timed_out: int = 0
    """Attempts that were stopped by the timeout."""
    waits: float = 0.0
    """Seconds between attempts, all together."""
    is_repeated: bool = False
    """Whether it asked to be called again: then durations tell of its last call alone."""
    pruned: Profile | None = None

    @property
    def total_executions(self) -> int:
        return self.executions + (self.pruned.steps if self.pruned else 0)

    def duration(self, share: float) -> float | None:
        return quantile(self.durations, share) if self.durations else None

    @property
    def seconds(self) -> float:
        """What it takes on average, with failed attempts and the waits between."""
        if not self.durations:
            return (self.pruned.mean_seconds or 0.0) if self.pruned else 0.0
        return sum(self.durations) / len(self.durations) + (self.failed_attempt_seconds + self.waits) / self.executions


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """How a flow ran."""

    slug: str
    runs: list[RunFacts]
    """The newest first."""
    steps: dict[str, StepStats]
    intervals: list[Interval]
    work: dict[str, list[float]]
    """Of a typical run, the seconds of each step, or of each task of a map step."""
    overhead: float
    """Seconds that pass between the end of what a step waited for and its beginning, when nothing is in the way."""
    executions: int
    """Runs that were recorded, pruned ones included."""

    @property
    def typical_seconds(self) -> float | None:
        seconds = sorted(run.seconds for run in self.runs if not run.has_failed)
        return quantile(seconds, 0.5) if seconds else None


async def measure(slug: str, dependencies: Mapping[str, Sequence[str]]) -> Measurements:
    """How the newest runs of the flow went, whatever version of it they had."""
    rows = await _rows_of_runs(slug)
    steps = await Database.read(SQL.steps_of_ended_runs(ids=[row["id"] for row in rows], limit=MOST_STEPS))
    failed_attempts = await _failed_attempts(steps)
    stats = _stats(steps, failed_attempts)
    profiles = await step_profiles(slug)
    for profile in profiles:
        stats.setdefault(profile.step_name, StepStats(step=profile.step_name)).pruned = profile
    parents = {row["parent_step_id"] for row in steps}
    ended = [row for row in steps if row["id"] not in parents and _is_timed(row)]
    intervals = [_interval(row) for row in ended]
    return Measurements(
        slug=slug,
        runs=await _runs(rows),
        steps=stats,
        intervals=intervals,
        work=_work(intervals, stats),
        overhead=_overhead(steps, dependencies),
        executions=len(rows)
        + max((profile.steps for profile in profiles if profile.step_name in dependencies), default=0),
    )


async def ended_runs(slug: str) -> list[RunFacts]:
    """The newest runs of the flow that have ended, the newest first."""
    return await _runs(await _rows_of_runs(slug))


async def _rows_of_runs(slug: str) -> Sequence[Row]:
    return await Database.read(SQL.ended_runs_of_flow(slug=slug, within=AMONG_RUNS, limit=MOST_RUNS))


async def _runs(rows: Sequence[Row]) -> list[RunFacts]:
    await load_versions([row["definition_id"] for row in rows])
    versions = {each: _version_of(each) for each in {row["definition_id"] for row in rows}}
    return [
        RunFacts(
            id=row["id"],
            seconds=(_moment(row, "completed_date") - _moment(row, "start_date")).total_seconds(),
            has_failed=row["status"] == RunStatus.FAILED,
            optimization=versions[row["definition_id"]][0],
            base_hash=versions[row["definition_id"]][1],
        )
        for row in rows
    ]


def _version_of(definition_id: int | None) -> tuple[int | None, str | None]:
    """Which optimization a version came out of, and the hash of what it was made of."""
    version = None if definition_id is None else stored().version(definition_id)
    if version is None:
        return None, None
    optimization: Any = version.meta.get(OPTIMIZATION)
    base: Any = version.meta.get(BASE)
    return optimization, base or hash_of(version)


async def _failed_attempts(steps: Iterable[Row]) -> dict[int, list[Row]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    ids = [row["id"] for row in steps if row["retry"] > 0]
    for row in await Database.read(SQL.attempts_of_steps(ids=ids)) if ids else ():
        found[row["step_id"]].append(row)
    return found


def _stats(steps: Sequence[Row], attempts: Mapping[int, Sequence[Row]]) -> dict[str, StepStats]:
    found: dict[str, StepStats] = {}
    parents = {row["parent_step_id"] for row in steps}
    for row in steps:
        if row["id"] not in parents and row["status"] in ("COMPLETED", "FAILED") and not row["skipped_by"]:
            stats = found.setdefault(row["workflow_step_name"], StepStats(step=row["workflow_step_name"]))
            _note(stats, row, attempts.get(row["id"], ()))
    for stats in found.values():
        stats.durations.sort()
        stats.recovery_seconds.sort()
    return found


def _note(stats: StepStats, row: Row, failed: Sequence[Row]) -> None:
    has_completed = row["status"] == RunStatus.COMPLETED
    stats.executions += 1
    stats.failed += not has_completed
    stats.is_repeated |= row["repeats"] > 0
    if has_completed and row["repeats"] == 0 and _is_timed(row):
        stats.durations.append(_interval(row).seconds)
    if not failed:
        return
    stats.retried += 1
    stats.failed_attempts += len(failed)
    stats.timed_out += sum(each["error_type"] == TIMEOUT for each in failed)
    stats.failed_attempt_seconds += sum(_seconds(each) for each in failed)
    begins = [*(datetime_of(each, "start_date") for each in failed[1:]), datetime_of(row, "start_date")]
    if has_completed:
        stats.recovered += 1
        stats.recovered_at_once += len(failed) == 1
        stats.recovery_seconds.append((_moment(row, "start_date") - _moment(failed[0], "end_date")).total_seconds())
        stats.waits += sum(
            max(0.0, (begin - _moment(each, "end_date")).total_seconds())
            for each, begin in zip(failed, begins, strict=True)
            if begin is not None
        )


def _work(intervals: Sequence[Interval], stats: Mapping[str, StepStats]) -> dict[str, list[float]]:
    """Of each step as many durations as a run has tasks of it, spread as they usually are."""
    per_run: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for interval in intervals:
        per_run[interval.step][interval.run_id] += 1
    work: dict[str, list[float]] = {}
    for step, counts in per_run.items():
        tasks = round(quantile(sorted(counts.values()), 0.5))
        mean = stats[step].seconds
        durations = stats[step].durations or [mean]
        scale = mean / (sum(durations) / len(durations)) if sum(durations) else 1.0
        spread = [quantile(durations, (place + 0.5) / tasks) * scale for place in range(tasks)]
        work[step] = spread if tasks > 1 else [mean]
    return work


def _overhead(steps: Sequence[Row], dependencies: Mapping[str, Sequence[str]]) -> float:
    ends = {(row["workflow_run_id"], row["workflow_step_name"]): row for row in steps if row["parent_step_id"] is None}
    gaps: list[float] = []
    for (run_id, name), row in ends.items():
        before = [ends.get((run_id, each)) for each in dependencies.get(name, ())]
        moments = [datetime_of(each, "completed_date") for each in before if each is not None]
        freed = max((each for each in moments if each is not None), default=None)
        if freed is not None and row["retry"] == 0 and row["repeats"] == 0 and row["start_date"] is not None:
            gaps.append(max(0.0, (_moment(row, "start_date") - freed).total_seconds()))
    return quantile(sorted(gaps), 0.25) if gaps else 0.0


def _interval(row: Row) -> Interval:
    return Interval(
        row["workflow_run_id"], row["workflow_step_name"], _moment(row, "start_date"), _moment(row, "completed_date")
    )


def _is_timed(row: Row) -> bool:
    return row["start_date"] is not None and row["completed_date"] is not None and not row["skipped_by"]


def _seconds(attempt: Row) -> float:
    return (
        0.0
        if attempt["start_date"] is None
        else (_moment(attempt, "end_date") - _moment(attempt, "start_date")).total_seconds()
    )


def _moment(row: Row, name: str) -> datetime:
    moment = datetime_of(row, name)
    assert moment is not None
    return moment
