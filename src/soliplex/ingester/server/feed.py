"""The feed of changes: one look at the database for all who follow along in this process.

    database ──▶ ChangeFeed.look() ──▶ one queue per follower ──▶ its stream of server-sent events

Each server process looks for itself, so whichever of them a client is connected to tells it the same. A look costs the
database at most a tenth of the time: the slower the answer, the longer the pause. While nobody follows, nobody looks.

Runs and groups are told with an id, made of the time of the change; a client that comes back with the last id it saw
is told what changed since (and, within a few seconds of it, perhaps once more). Steps follow from their runs and have
no id of their own: those in flight are told as they begin and end; a step that came and went between two looks is told
of, at the latest, before the end of its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from soliplex.ingester.lib.models import RunGroup, RunStep, WorkflowRun
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.lib.wf.views import changes, steps_of_runs

_log = logging.getLogger(__name__)

PAUSE: Final = 0.25
SHARE: Final = 9
"""Of the time between looks, how many times as long as the look itself."""
OVERLAP: Final = timedelta(seconds=5)
"""How far clocks of workers may be apart, and how long a transaction may take to commit."""
OLDEST: Final = timedelta(days=7)
QUEUE: Final = 10_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed, and what it has come to."""

    kind: str
    key: tuple[str, int, str]
    """What it is about, and its state: the same key, the same news."""
    run_group_id: int
    batch_id: int | None
    data: dict[str, Any]
    at: datetime | None = None
    """None: it has no place in the order of changes."""

    @property
    def id(self) -> str | None:
        return None if self.at is None else f"{(self.at - EPOCH) // MICROSECOND}-{self.kind[0]}{self.key[1]}"


@dataclass(slots=True, eq=False)
class Follower:
    """Somebody who follows along: all, one batch or one group."""

    run_group_id: int | None = None
    batch_id: int | None = None
    queue: asyncio.Queue[Change | None] = field(default_factory=lambda: asyncio.Queue(QUEUE))

    def wants(self, change: Change) -> bool:
        is_group = self.run_group_id is None or change.run_group_id == self.run_group_id
        return is_group and (self.batch_id is None or change.batch_id == self.batch_id)

    def tell(self, change: Change | None) -> bool:
        """False: it has not kept up. Its stream ends, and it may come back with the last id it saw."""
        if change is not None and not self.wants(change):
            return True
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            return False
        return True


class ChangeFeed:
    """Looks for changes while somebody follows, and tells all followers."""

    def __init__(self, *, clock: Callable[[], datetime] = utcnow) -> None:
        self._clock = clock
        self._followers: set[Follower] = set()
        self._looking: asyncio.Task[None] | None = None
        self._news = _News()
        self._has_looked = asyncio.Event()
        """Set when there is a look that the next ones can be compared with."""

    @asynccontextmanager
    async def following(self, follower: Follower) -> AsyncGenerator[Follower]:
        """Follow along for the time of the block: whatever changes from its beginning on is told."""
        self._followers.add(follower)
        if self._looking is None or self._looking.done():
            self._news, self._has_looked = _News(), asyncio.Event()
            self._looking = asyncio.create_task(self._look_on(), name="change feed")
        try:
            await self._has_looked.wait()
            yield follower
        finally:
            self._followers.discard(follower)

    async def close(self) -> None:
        """End every stream."""
        for follower in self._followers:
            _tell_the_end(follower)
        self._has_looked.set()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._followers:
            began = loop.time()
            try:
                self.spread(await self._news.look(self._clock()))
                self._has_looked.set()
            except TROUBLES_OF_THE_DATABASE as error:
                _log.warning("the feed of changes cannot reach the database: %s", error)
            await asyncio.sleep(max(PAUSE, SHARE * (loop.time() - began)))

    def spread(self, found: Iterable[Change]) -> None:
        for change in found:
            for follower in [each for each in self._followers if not each.tell(change)]:
                _tell_the_end(follower)
                self._followers.discard(follower)


def _tell_the_end(follower: Follower) -> None:
    with contextlib.suppress(asyncio.QueueFull):
        follower.queue.put_nowait(None)
        return
    follower.queue.get_nowait()
    follower.queue.put_nowait(None)


class _News:
    """What is new since the last look."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._last_event = 0
        self._told: dict[tuple[str, int, str], datetime] = {}
        self._progress: dict[int, tuple[int, ...]] = {}
        self._in_flight: dict[int, RunStep] = {}
        self._ended_steps: defaultdict[int, set[int]] = defaultdict(set)

    async def look(self, now: datetime) -> list[Change]:
        is_first = self._since is None
        since = (self._since or now) - OVERLAP
        active = await (
            changes.groups_active_since(since) if is_first else changes.groups_active_after(self._last_event)
        )
        groups = await changes.changed_groups(active.ids)
        runs = await _all_changed_runs(active.ids, since)
        found = [*await self._steps(runs), *self._runs(runs), *self._groups(groups, since)]
        self._since, self._last_event = now, active.last_event
        self._told = {key: at for key, at in self._told.items() if at >= since - OVERLAP}
        # Who begins to follow is told how things stand by its own stream.
        return [] if is_first else found

    def _is_news(self, change: Change) -> bool:
        is_new = change.key not in self._told
        self._told[change.key] = change.at or self._since or datetime.now(UTC)
        return is_new

    def _runs(self, runs: Iterable[WorkflowRun]) -> list[Change]:
        return [change for change in map(run_change, runs) if self._is_news(change)]

    def _groups(self, groups: Iterable[RunGroup], since: datetime) -> list[Change]:
        """Groups in another status, and those whose counters moved."""
        found: list[Change] = []
        for group in groups:
            change = group_change(group)
            is_recent = group.status_date is not None and group.status_date >= since
            counters = (group.total_runs, group.remaining_runs, group.failed_runs, group.cancelled_runs)
            moved = self._progress.get(change.key[1]) != counters
            self._progress[change.key[1]] = counters
            if is_recent and self._is_news(change):
                found.append(change)
            elif moved:
                found.append(group_change(group, is_progress=True))
        return found

    async def _steps(self, runs: Iterable[WorkflowRun]) -> list[Change]:
        """Steps that began or ended, as far as they were seen in flight; and all of the runs that have ended."""
        now_in_flight = {step.id: step for step in await changes.steps_in_flight() if step.id is not None}
        begun = [step for step_id, step in now_in_flight.items() if step_id not in self._in_flight]
        gone = await changes.steps_by_id(self._in_flight.keys() - now_in_flight.keys())
        ended_runs = {run.id: run for run in runs if run.status.is_final and run.id is not None}
        of_ended = [step for steps in (await steps_of_runs(ended_runs)).values() for step in steps]
        self._in_flight = now_in_flight
        found = [*begun, *gone, *(step for step in of_ended if self._was_not_told(step))]
        for step in gone:
            self._ended_steps[step.workflow_run_id].add(step.id or 0)
        for run_id in ended_runs:
            self._ended_steps.pop(run_id, None)
        whose = await changes.runs_by_id({step.workflow_run_id for step in found})
        told = [step_change(step, whose[step.workflow_run_id]) for step in found if step.workflow_run_id in whose]
        return [change for change in told if self._is_news(change)]

    def _was_not_told(self, step: RunStep) -> bool:
        return step.start_date is not None and step.id not in self._ended_steps.get(step.workflow_run_id, ())


async def changes_since(follower: Follower, since: datetime, *, now: datetime) -> AsyncGenerator[Change]:
    """What a follower missed since a moment, for one that comes back."""
    since = max(since - OVERLAP, now - OLDEST)
    active = await changes.groups_active_since(since)
    groups = [group for group in await changes.changed_groups(active.ids, since) if follower.wants(group_change(group))]
    ids = {group_id for group_id in active.ids if follower.run_group_id in {None, group_id}}
    after: tuple[datetime, int] | None = None
    while runs := await changes.changed_runs(ids, since, after=after):
        steps = await steps_of_runs(run.id for run in runs if run.status.is_final and run.id is not None)
        for run in runs:
            if follower.wants(change := run_change(run)):
                for step in steps.get(run.id or 0, ()):
                    yield step_change(step, run)
                yield change
        last = runs[-1]
        assert last.status_date is not None
        after = (last.status_date, last.id or 0)
    for group in groups:
        yield group_change(group)


async def state_now(follower: Follower) -> list[Change]:
    """How things stand for one that begins to follow: steps in flight, and its group or those that have not ended."""
    active = await changes.groups_active_after(2**62)
    wanted = {follower.run_group_id} if follower.run_group_id is not None else active.ids
    steps = await changes.steps_in_flight()
    whose = await changes.runs_by_id({step.workflow_run_id for step in steps})
    in_flight = [step_change(step, whose[step.workflow_run_id]) for step in steps if step.workflow_run_id in whose]
    groups = [group_change(group, is_progress=True) for group in await changes.changed_groups(wanted)]
    return [change for change in (*in_flight, *groups) if follower.wants(change)]


def moment_of(event_id: str) -> datetime | None:
    """The moment that an event's id names; None for what is no such id."""
    number, _, rest = event_id.partition("-")
    if not (number.isascii() and number.isdigit() and rest) or len(number) > len("9999999999999999"):
        return None
    return EPOCH + int(number) * MICROSECOND


async def _all_changed_runs(among: frozenset[int], since: datetime) -> list[WorkflowRun]:
    found: list[WorkflowRun] = []
    after: tuple[datetime, int] | None = None
    while part := await changes.changed_runs(among, since, after=after):
        found += part
        last = part[-1]
        if last.status_date is None or len(part) < changes.AT_ONCE:
            break
        after = (last.status_date, last.id or 0)
    return found


def run_change(run: WorkflowRun) -> Change:
    data = run.model_dump(
        mode="json",
        include={"run_group_id", "batch_id", "doc_id", "status", "status_message", "start_date", "completed_date"},
    )
    state = f"{run.status} {run.status_date}"
    return Change(
        kind="run",
        key=("run", run.id or 0, state),
        run_group_id=run.run_group_id,
        batch_id=run.batch_id,
        data={"workflow_run_id": run.id, **data, "duration": run.duration},
        at=run.status_date,
    )


def group_change(group: RunGroup, *, is_progress: bool = False) -> Change:
    """A group in its status; its progress is told without an id, since it is overtaken at once."""
    counted = {"total_runs", "remaining_runs", "failed_runs", "cancelled_runs"}
    data = group.model_dump(
        mode="json", include={"batch_id", "name", "status", "start_date", "completed_date", "status_message", *counted}
    )
    return Change(
        kind="group",
        key=("group", group.id or 0, f"{group.status} {group.status_date}"),
        run_group_id=group.id or 0,
        batch_id=group.batch_id,
        data={"run_group_id": group.id, **data},
        at=None if is_progress else group.status_date,
    )


def step_change(step: RunStep, run: WorkflowRun) -> Change:
    told = {"workflow_run_id", "workflow_step_name", "step_type", "status", "status_message", "retry", "worker_id"}
    data = step.model_dump(mode="json", include={*told, "start_date", "completed_date"})
    return Change(
        kind="step",
        key=("step", step.id or 0, f"{step.status} {step.status_date}"),
        run_group_id=run.run_group_id,
        batch_id=run.batch_id,
        data={"step_id": step.id, "run_group_id": run.run_group_id, "batch_id": run.batch_id, **data},
    )
