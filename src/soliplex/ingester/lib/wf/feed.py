"""The feed of changes: one look at the database for all who follow along in this process.

    database ──▶ News.look() ──▶ ChangeFeed ──▶ one queue per follower ──▶ changes_for(follower)

Who follows may be a client of the server (`/events`), `si-cli ingest`, or whatever else wants to know. Each process
looks for itself, so whichever of them a client is connected to tells it the same. A look costs the database at most a
tenth of the time: the slower the answer, the longer the pause. While nobody follows, nobody looks; while all follow
groups that they name, only these are looked at.

A thousand runs that end at once are six thousand changes for each follower. So a change is written as JSON once for all
of them, changes are told by the hundred, and others on the loop have their turn in between.

Runs and groups are told with an id, made of the time of the change; a follower that comes back with the last id it saw
is told what changed since (and, within a few seconds of it, perhaps once more). Steps follow from their runs and have
no id of their own: those in flight are told as they begin and end; a step that came and went between two looks is told
of, at the latest, before the end of its run. Who comes back is told of every step that changed meanwhile. What is older
than a week is not told any more, and a change of the kind `gap` says so. Of a group that was deleted, nothing can be
told but that: who named it hears a `gone`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from soliplex.ingester.lib.models import RunGroup, WorkflowRun
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.pieces import in_pieces
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.lib.wf.views import changes
from soliplex.ingester.lib.wf.views.changes import StepState

_log = logging.getLogger(__name__)

PAUSE: Final = 0.25
SHARE: Final = 9
"""The pause after a look is this many times as long as the look took."""
SHARE_IN_VAIN: Final = 29
"""The same after a look that found nothing: pages that are open over night cost next to nothing."""
LONGEST_IN_VAIN: Final = 2.0
"""Seconds beyond which nobody waits for the first change because of it."""
SILENCE: Final = 15.0
"""Seconds after which a follower is told that nothing has changed."""
OVERLAP: Final = timedelta(seconds=5)
"""How far clocks of workers may be apart, and how long a transaction may take to commit."""
OLDEST: Final = timedelta(days=7)
PULSE: Final = "pulse"
GONE: Final = "gone"
QUEUE: Final = 10_000
"""Changes that may wait for a follower before it is sent away."""
TOLD_AT_ONCE: Final = 200
FOLLOWERS_AT_ONCE: Final = 50
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


type Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that changed, and what it has come to."""

    kind: str
    key: Key
    """What the change is about, and its state. Two changes with the same key are the same news."""
    run_group_id: int
    batch_id: int | None
    workflow_id: str
    run_id: int | None = None
    """None: it is about a group."""
    step_type: str | None = None
    """None: it is not about a step."""
    data: dict[str, Any]
    at: datetime | None = None
    """When it changed. None: the change has no place in the order of changes."""
    text: str = field(init=False, repr=False, compare=False)
    """The data as JSON."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", json.dumps(self.data, ensure_ascii=False, separators=(",", ":")))

    @property
    def id(self) -> str | None:
        return None if self.at is None else f"{(self.at - EPOCH) // MICROSECOND}-{self.kind[0]}{self.key[1]}"


@dataclass(slots=True, eq=False, kw_only=True)
class Follower:
    """Somebody who follows along: everything, or what is of a batch, group, run, workflow or type of steps."""

    run_group_id: int | None = None
    batch_id: int | None = None
    run_id: int | None = None
    """Somebody who follows a run names its group, too."""
    workflow_id: str | None = None
    kinds: frozenset[str] = frozenset()
    """Only changes of these kinds; none named, all but `pulse`. A pulse says, once for each look, that something has
    changed of what the follower asks about: it costs the same however much that is."""
    step_types: frozenset[str] = frozenset()
    """Of steps, only those of these types; runs and groups have none, and are told all the same."""
    most: int = QUEUE
    _told: asyncio.Queue[Sequence[Change] | None] = field(default_factory=asyncio.Queue[Sequence[Change] | None])
    _waiting: int = 0
    _moved: int = 0
    """Changes since the last pulse."""

    @property
    def _wants_all(self) -> bool:
        asked = (self.run_group_id, self.batch_id, self.run_id, self.workflow_id)
        return not (self.step_types or self.kinds) and all(each is None for each in asked)

    def wants(self, change: Change) -> bool:
        if change.kind == GONE:
            return change.run_group_id == self.run_group_id
        return (not self.kinds or change.kind in self.kinds) and self._is_about(change)

    def _is_about(self, change: Change) -> bool:
        asked = (
            (self.run_group_id, change.run_group_id),
            (self.batch_id, change.batch_id),
            (self.run_id, change.run_id),
            (self.workflow_id, change.workflow_id),
        )
        is_of_type = not self.step_types or change.step_type is None or change.step_type in self.step_types
        return is_of_type and all(wanted is None or wanted == found for wanted, found in asked)

    def tell(self, found: Sequence[Change]) -> bool:
        """Queue changes for the follower. False if it has not kept up: its stream ends, and it may come back later."""
        wanted = found if self._wants_all else [change for change in found if self.wants(change)]
        if PULSE in self.kinds:
            self._moved += sum(change.kind != GONE and self._is_about(change) for change in found)
        return self._queue(wanted)

    def tell_the_pulse(self) -> bool:
        """Say how many changes there were, if there were any. False as from `tell`."""
        moved, self._moved = self._moved, 0
        return not moved or self._queue([_pulse(moved)])

    def _queue(self, wanted: Sequence[Change]) -> bool:
        if self._waiting + len(wanted) > self.most:
            return False
        if wanted:
            self._waiting += len(wanted)
            self._told.put_nowait(wanted)
        return True

    def tell_the_end(self) -> None:
        self._told.put_nowait(None)

    async def next(self) -> Sequence[Change] | None:
        """The next changes, at least one; None when there will be no more."""
        found = await self._told.get()
        self._waiting -= len(found or ())
        return found


def pause_after(seconds: float, *, in_vain: bool) -> float:
    """Seconds until the next look, after one that took so long."""
    usual = max(PAUSE, SHARE * seconds)
    return max(usual, min(SHARE_IN_VAIN * seconds, LONGEST_IN_VAIN)) if in_vain else usual


class ChangeFeed:
    """Looks for changes while somebody follows, and tells all followers."""

    def __init__(self, *, clock: Callable[[], datetime] = utcnow) -> None:
        self._clock = clock
        self._followers: set[Follower] = set()
        self._looking: asyncio.Task[None] | None = None
        self._news = News()
        self._has_looked = asyncio.Event()
        """Set when there is a look that the next ones can be compared with."""

    @asynccontextmanager
    async def following(self, follower: Follower) -> AsyncGenerator[Follower]:
        """Follow along for the time of the block: whatever changes from its beginning on is told."""
        self._followers.add(follower)
        if self._looking is None or self._looking.done():
            self._news, self._has_looked = News(), asyncio.Event()
            self._looking = asyncio.create_task(self._look_on(), name="change feed")
            self._looking.add_done_callback(self._when_it_ends)
        try:
            await self._has_looked.wait()
            yield follower
        finally:
            self._followers.discard(follower)

    async def changes_for(self, follower: Follower, resumed: str | None = None) -> AsyncGenerator[Sequence[Change]]:
        """What a follower is told: how things stand, or what it missed since the id it last saw; then what changes.

        An empty list says that nothing has changed for a while. The stream ends with the feed, or when it is not read.
        """
        # First it follows, then it is told what was before: what happens in between is told twice rather than never.
        async with self.following(follower):
            told: set[str | None] = {resumed}
            async with aclosing(_by_the_hundred(_before(follower, resumed, self._clock))) as before:
                async for some in before:
                    told.update(change.id for change in some)
                    yield some
            told.discard(None)
            while (found := await _next(follower)) is not None:
                news = [change for change in found if change.id not in told] if told else found
                if news or not found:
                    yield news
                # What waits is there at once, and who sends it to a client that keeps up never waits either: without
                # this, nobody else would have a turn before all is sent.
                await asyncio.sleep(0)

    async def close(self) -> None:
        """End every stream."""
        for follower in self._followers:
            follower.tell_the_end()
        self._has_looked.set()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._followers:
            began, found = loop.time(), list[Change]()
            try:
                named = self._named_groups()
                are_all = all(each.run_group_id is not None for each in self._followers)
                found = await self._news.look(self._clock(), groups=named if are_all else None, named=named)
                await self.spread(found)
                self._has_looked.set()
            except TROUBLES_OF_THE_DATABASE as error:
                _log.warning("the feed of changes cannot reach the database: %s", error)
            await asyncio.sleep(pause_after(loop.time() - began, in_vain=not found))

    def _when_it_ends(self, looking: asyncio.Task[None]) -> None:
        """End every stream if nobody looks any more because of an error; who comes back begins another look."""
        error = None if looking.cancelled() else looking.exception()
        if error is None:
            return
        _log.error("the feed of changes has failed: %s", error, exc_info=error)
        for follower in self._followers:
            follower.tell_the_end()
        self._has_looked.set()

    def _named_groups(self) -> frozenset[int]:
        """The groups that are followed by name."""
        return frozenset(each.run_group_id for each in self._followers if each.run_group_id is not None)

    async def spread(self, found: Iterable[Change]) -> None:
        async for some in in_pieces(found, TOLD_AT_ONCE):
            await self._tell_each(lambda follower, some=some: follower.tell(some))
        await self._tell_each(Follower.tell_the_pulse)

    async def _tell_each(self, tell: Callable[[Follower], bool]) -> None:
        for number, follower in enumerate(tuple(self._followers)):
            if not tell(follower):
                follower.tell_the_end()
                self._followers.discard(follower)
            if number % FOLLOWERS_AT_ONCE == FOLLOWERS_AT_ONCE - 1:
                await asyncio.sleep(0)


async def _by_the_hundred(told: AsyncGenerator[Change]) -> AsyncGenerator[Sequence[Change]]:
    some: list[Change] = []
    async with aclosing(told):
        async for change in told:
            some.append(change)
            if len(some) >= TOLD_AT_ONCE:
                yield some
                some = []
                await asyncio.sleep(0)
    if some:
        yield some


async def _before(follower: Follower, resumed: str | None, clock: Callable[[], datetime]) -> AsyncGenerator[Change]:
    moment = moment_of(resumed) if resumed else None
    if moment is not None:
        async with aclosing(changes_since(follower, moment, now=clock())) as missed:
            async for change in missed:
                if change.id is None or change.id != resumed:
                    yield change
    for change in await _to_the_end(state_now(follower)):
        yield change
    if PULSE in follower.kinds:
        yield _pulse(0)  # what changed before this was not told, so now is the time for a first look


async def _to_the_end[T](reading: Coroutine[Any, Any, T]) -> T:
    """What is read, also if the client leaves meanwhile: a connection to the database would break in the middle."""
    return await asyncio.shield(asyncio.ensure_future(reading))


async def _next(follower: Follower) -> Sequence[Change] | None:
    """The next changes; no changes when there were none for a while, None when the stream has to end."""
    try:
        async with asyncio.timeout(SILENCE):
            return await follower.next()
    except TimeoutError:
        return ()


class News:
    """What is new since the last look."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._last_event: int | None = None
        self._told: dict[Key, datetime] = {}
        self._progress: dict[int, tuple[int, ...]] = {}
        self._in_flight: dict[int, StepState] = {}
        self._ended_steps: defaultdict[int, set[int]] = defaultdict(set)
        self._gone: frozenset[int] = frozenset()

    async def look(
        self, now: datetime, *, groups: frozenset[int] | None = None, named: frozenset[int] = frozenset()
    ) -> list[Change]:
        """What has changed since the last look, anywhere or in these groups; and which of those named are no more."""
        is_first = self._since is None
        since = (self._since or now) - OVERLAP
        among = await self._active_groups(since) if groups is None else groups
        changed_groups = await changes.changed_groups(among)
        runs = [run for run in await _all_changed_runs(among, since) if self._is_news(_key_of(run), run.status_date)]
        found = [
            *await self._steps(runs, groups),
            *await _written(runs, run_change),
            *self._groups(changed_groups, since),
            *await self._vanished(named.difference(group.id for group in changed_groups if group.id is not None)),
        ]
        self._since = now
        self._told = {key: at for key, at in self._told.items() if at >= since - OVERLAP}
        # Who begins to follow is told how things stand by its own stream.
        return [] if is_first else found

    async def _active_groups(self, since: datetime) -> frozenset[int]:
        last = self._last_event
        active = await (changes.groups_active_since(since) if last is None else changes.groups_active_after(last))
        self._last_event = active.last_event
        return active.ids

    async def _vanished(self, unseen: frozenset[int]) -> list[Change]:
        """Those of these groups that are no more, and of which nobody was told yet."""
        gone = unseen - await changes.existing_groups(unseen) if unseen else unseen
        news, self._gone = gone - self._gone, gone
        return [gone_change(group_id) for group_id in sorted(news)]

    def _is_news(self, key: Key, at: datetime | None) -> bool:
        is_new = key not in self._told
        self._told[key] = at or self._since or datetime.now(UTC)
        return is_new

    def _groups(self, groups: Iterable[RunGroup], since: datetime) -> list[Change]:
        """Groups in another status, and those whose counters moved."""
        found: list[Change] = []
        for group in groups:
            change = group_change(group)
            is_recent = group.status_date is not None and group.status_date >= since
            counters = (group.total_runs, group.remaining_runs, group.failed_runs, group.cancelled_runs)
            moved = self._progress.get(change.key[1]) != counters
            self._progress[change.key[1]] = counters
            if is_recent and self._is_news(change.key, change.at):
                found.append(change)
            elif moved:
                found.append(group_change(group, is_progress=True))
        return found

    async def _steps(self, changed_runs: Iterable[WorkflowRun], groups: frozenset[int] | None) -> list[Change]:
        """Steps that began, got on or ended, as far as they were seen in flight; and those of runs that have ended."""
        now_in_flight = {step.id: step for step in await changes.steps_in_flight(groups)}
        moved = [step for step in now_in_flight.values() if self._has_moved(step)]
        gone = await changes.steps_by_id(self._in_flight.keys() - now_in_flight.keys())
        ended_runs = [run.id for run in changed_runs if run.status.is_final and run.id is not None]
        of_ended = [step for step in await changes.begun_steps_of_runs(ended_runs) if self._was_not_told(step)]
        self._in_flight = now_in_flight
        for step in gone:
            # A step that is tried again, or waits, has not ended yet: it will be told when it does.
            if step.status.is_final:
                self._ended_steps[step.workflow_run_id].add(step.id)
        for run_id in ended_runs:
            self._ended_steps.pop(run_id, None)
        found = [step for step in (*moved, *gone, *of_ended) if self._is_news(_key_of_step(step), None)]
        return await _written(found, step_change)

    def _has_moved(self, step: StepState) -> bool:
        before = self._in_flight.get(step.id)
        return before is None or (before.status_date, before.progress) != (step.status_date, step.progress)

    def _was_not_told(self, step: StepState) -> bool:
        return step.id not in self._ended_steps.get(step.workflow_run_id, ())


async def changes_since(follower: Follower, since: datetime, *, now: datetime) -> AsyncGenerator[Change]:
    """What a follower missed since a moment, for one that comes back."""
    oldest = now - OLDEST
    if since < oldest:
        yield _gap(since, oldest)
    since = max(since - OVERLAP, oldest)
    named = follower.run_group_id
    ids = frozenset({named}) if named is not None else await _to_the_end(_active_since(since))
    changed = await _to_the_end(changes.changed_groups(ids, since))
    groups = [group for group in changed if follower.wants(group_change(group))]
    after: tuple[datetime, int] | None = None
    while runs := await _to_the_end(
        changes.changed_runs(ids, since, after=after, or_running=True, run_id=follower.run_id)
    ):
        for change in await _to_the_end(_of_runs(runs, since)):
            if follower.wants(change):
                yield change
        after = _place_of(runs[-1])
    for group in groups:
        yield group_change(group)


async def _active_since(since: datetime) -> frozenset[int]:
    return (await changes.groups_active_since(since)).ids


async def _of_runs(runs: Iterable[WorkflowRun], since: datetime) -> list[Change]:
    """Runs that changed since, each after its steps. Of a run that goes on, only the steps that changed since."""
    steps: defaultdict[int, list[Change]] = defaultdict(list)
    ended = [run.id for run in runs if run.status.is_final and run.id is not None]
    going_on = [run.id for run in runs if not run.status.is_final and run.id is not None]
    for step in (
        *await changes.begun_steps_of_runs(ended),
        *await changes.begun_steps_of_runs(going_on, since=since),
    ):
        steps[step.workflow_run_id].append(step_change(step))
    found: list[Change] = []
    for run in runs:
        found += steps[run.id or 0]
        if run.status_date is not None and run.status_date >= since:
            found.append(run_change(run))
    return found


async def state_now(follower: Follower) -> list[Change]:
    """How things stand for one that begins to follow: steps in flight, and its group or those that have not ended."""
    named = None if follower.run_group_id is None else frozenset({follower.run_group_id})
    steps = [step_change(step) for step in await changes.steps_in_flight(named)]
    ids: Collection[int] = named or (await changes.groups_active_after(2**62)).ids
    groups = [group_change(group, is_progress=True) for group in await changes.changed_groups(ids)]
    gone = [gone_change(each) for each in named or () if not groups]
    return [change for change in (*steps, *groups, *gone) if follower.wants(change)]


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
        if len(part) < changes.AT_ONCE:
            break
        after = _place_of(part[-1])
    return found


def _place_of(run: WorkflowRun) -> tuple[datetime, int]:
    """Where a run stands among those that changed."""
    assert run.status_date is not None
    return run.status_date, run.id or 0


async def _written[T](rows: Iterable[T], change: Callable[[T], Change]) -> list[Change]:
    return [change(row) async for some in in_pieces(rows, TOLD_AT_ONCE) for row in some]


def _key_of(run: WorkflowRun) -> Key:
    return "run", run.id or 0, f"{run.status} {run.status_date}"


def _key_of_step(step: StepState) -> Key:
    return "step", step.id, f"{step.status} {step.status_date} {step.progress}"


def run_change(run: WorkflowRun) -> Change:
    about = {"run_group_id", "batch_id", "workflow_definition_id", "doc_id", "parent_step_id", "run_key"}
    data = run.model_dump(
        mode="json", include={*about, "status", "status_message", "start_date", "completed_date", "deadline"}
    )
    return Change(
        kind="run",
        key=_key_of(run),
        run_group_id=run.run_group_id,
        batch_id=run.batch_id,
        workflow_id=run.workflow_definition_id,
        run_id=run.id,
        data={"workflow_run_id": run.id, **data, "duration": run.duration},
        at=run.status_date,
    )


def group_change(group: RunGroup, *, is_progress: bool = False) -> Change:
    """A group in its status; its progress is told without an id, since it is overtaken at once."""
    counted = {"total_runs", "remaining_runs", "failed_runs", "cancelled_runs"}
    about = {"batch_id", "name", "workflow_definition_id", "param_definition_id"}
    data = group.model_dump(
        mode="json", include={*about, "status", "start_date", "completed_date", "status_message", *counted}
    )
    return Change(
        kind="group",
        key=("group", group.id or 0, f"{group.status} {group.status_date}"),
        run_group_id=group.id or 0,
        batch_id=group.batch_id,
        workflow_id=group.workflow_definition_id,
        data={"run_group_id": group.id, **data},
        at=None if is_progress else group.status_date,
    )


def step_change(step: StepState) -> Change:
    return Change(
        kind="step",
        key=_key_of_step(step),
        run_group_id=step.run_group_id,
        batch_id=step.batch_id,
        workflow_id=step.workflow_definition_id,
        run_id=step.workflow_run_id,
        step_type=step.step_type,
        data=step.as_json(),
    )


def gone_change(group_id: int) -> Change:
    """That a group is no more. It stands at no place in the order of changes: who comes back is refused."""
    told = {"run_group_id": group_id}
    return Change(kind=GONE, key=(GONE, group_id, ""), run_group_id=group_id, batch_id=None, workflow_id="", data=told)


def _gap(since: datetime, oldest: datetime) -> Change:
    """That what changed between these moments is not told."""
    moments = {"since": since.isoformat(), "until": oldest.isoformat()}
    return Change(kind="gap", key=("gap", 0, ""), run_group_id=0, batch_id=None, workflow_id="", data=moments)


def _pulse(changes: int) -> Change:
    told = {"changes": changes}
    return Change(kind=PULSE, key=(PULSE, 0, ""), run_group_id=0, batch_id=None, workflow_id="", data=told)
