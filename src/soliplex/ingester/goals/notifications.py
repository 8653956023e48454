"""Being told of what runs: decompositions of goals, executions of flows, and their tasks, as they begin and end.

    ref = await OrchestratorNotifications.listen("task_failed", tell)
    ...
    await OrchestratorNotifications.unlisten(ref)

There is no table and no bus of their own: events follow from the feed of changes (`lib/wf/feed.py`), so whichever
process executes a run, those who listen in any other are told, on both databases. A decomposition is the step
`decompose` of a run of the workflow `goal`; every other step is a task.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.errors import ConfigurationError, InvalidInputError
from soliplex.ingester.lib.models import WorkflowRun
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.feed import Change, ChangeFeed, Follower
from soliplex.ingester.lib.wf.views import changes
from soliplex.ingester.lib.wf.views.changes import StepState
from soliplex.ingester.lib.wiring import current_wiring

_log = logging.getLogger(__name__)

GOAL_WORKFLOW: Final = "goal"
"""The id of the workflow whose runs are goals."""
DECOMPOSE: Final = "decompose"
"""The step of such a run that decomposes the goal."""
SUBJECTS: Final = ("decomposition", "execution", "task")
ALL: Final = "all"
_WORDS: Final = {
    RunStatus.RUNNING: "started",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "failed",
}
KINDS: Final = tuple(f"{subject}_{word}" for subject in SUBJECTS for word in ("started", "completed", "failed"))
MOST_EVENTS: Final = 1_000
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something began or ended."""

    kind: str
    """One of KINDS. What was cancelled has failed, and its message says so."""
    run_id: int
    workflow_slug: str
    at: datetime | None
    step_id: int | None = None
    """None: it is about a run."""
    step: str | None = None
    item_index: int | None = None
    """Of a task of a map step."""
    message: str | None = None
    """Why it failed."""


type Callback = Callable[[Event], Any]


class Telling:
    """Turns changes, as the feed tells them, into events."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, int]] = set()

    def events_of(self, found: Iterable[Change]) -> list[Event]:
        """What changes that were found together tell, in the order in which it happened."""
        return sorted((event for change in found for event in self._events_of(change)), key=_moment)

    def _events_of(self, change: Change) -> Iterator[Event]:
        """What the change tells. One that came and went between two looks of the feed began, too."""
        event = _event_of_change(change)
        if event is None:
            return
        subject, _, word = event.kind.rpartition("_")
        key = (subject, event.run_id if event.step_id is None else event.step_id)
        has_begun = change.data.get("start_date") is not None
        if key not in self._begun and (word == "started" or has_begun):
            self._begun.add(key)
            yield _as_started(event, change)
        if word != "started":
            self._begun.discard(key)
            yield event


class ListenRef:
    """Somebody who listens, until `unlisten`."""

    def __init__(self, name: str, callback: Callback) -> None:
        self.name = name
        self._callback = callback
        self._telling = Telling()
        self._feed = current_wiring().kept(ChangeFeed)
        self._follows = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name=f"notifications of {name}")

    async def follows(self) -> None:
        """Wait until everything that changes from now on will be told."""
        waiting = asyncio.create_task(self._follows.wait())
        await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            self._task.result()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            async with self._feed.following(Follower()) as follower:
                self._follows.set()
                while (found := await follower.next()) is not None:
                    for event in self._telling.events_of(found):
                        await self._tell(event)
            _log.warning("the listener to %s missed events: its callback is too slow, or the feed failed", self.name)

    async def _tell(self, event: Event) -> None:
        if not is_wanted(self.name, event.kind):
            return
        try:
            answer = self._callback(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001  whatever a callback does, it is told of the next event
            _log.exception("the listener to %s failed at %s of run %d", self.name, event.kind, event.run_id)


class OrchestratorNotifications:
    """Tells of decompositions, executions and tasks."""

    @staticmethod
    async def listen(name: str, callback: Callback) -> ListenRef:
        """Call `callback` with each event of this name, from now on, in this process; it may be plain or async.

        A name is a kind of events (`task_failed`), a subject (`decomposition`, `execution`, `task`) or `all`.
        """
        check_name(name)
        see_enabled(at_once=True)
        if not callable(callback):
            raise InvalidInputError("callback", f"is {callback!r}; give a function that takes an event")
        ref = ListenRef(name, callback)
        await ref.follows()
        return ref

    @staticmethod
    async def unlisten(ref: ListenRef) -> None:
        """Call its callback no more. Twice does no harm."""
        await ref.end()

    @staticmethod
    async def get_recent_events(*, kind: str | None = None, limit: int = 100) -> list[Event]:
        """What began or ended last, the newest first.

        It is about the hundred runs that were made last, and those of the hundred groups that ended last.
        """
        if kind is not None and kind not in KINDS:
            raise InvalidInputError("kind", f"is {kind!r}; give one of {', '.join(KINDS)}")
        if not 1 <= limit <= MOST_EVENTS:
            raise InvalidInputError("limit", f"is {limit}; give 1 to {MOST_EVENTS}")
        see_enabled()
        runs = await changes.newest_runs()
        found = [*_events_of_runs(runs), *_events_of_steps(await _newest_steps(runs, kind, limit))]
        wanted = [event for event in found if kind is None or event.kind == kind]
        return sorted(wanted, key=_moment, reverse=True)[:limit]


async def events_of_runs(run_ids: Iterable[int]) -> list[Event]:
    """What began and ended in these runs, in its order."""
    runs = [await views.get_run(run_id) for run_id in run_ids]
    return sorted(await _events_of(runs), key=_moment)


async def _newest_steps(runs: Sequence[WorkflowRun], kind: str | None, limit: int) -> list[StepState]:
    """The steps that the newest events of this kind, or of any, are about."""
    subject, _, word = (kind or "").rpartition("_")
    of_goals = subject == "decomposition"
    ids = [run.id for run in runs if run.id and (run.workflow_definition_id == GOAL_WORKFLOW or not of_goals)]
    if not ids or subject == "execution":
        return []
    found: dict[int, StepState] = {}
    for status in _WORDS:
        if word in ("", _WORDS[status]):
            # More than the limit are read: among the newest steps may be decompositions, at most one in each run, which
            # are no tasks.
            newest = await changes.newest_steps_of_runs(
                ids, status, limit + len(ids), named=DECOMPOSE if of_goals else None
            )
            found |= {step.id: step for step in newest}
    return list(found.values())


async def _events_of(runs: Sequence[WorkflowRun]) -> list[Event]:
    steps = await changes.begun_steps_of_runs([run.id for run in runs if run.id is not None])
    return [*_events_of_runs(runs), *_events_of_steps(steps)]


def check_name(name: str) -> None:
    """Refuse a name that no event has."""
    if name not in (*KINDS, *SUBJECTS, ALL):
        raise InvalidInputError("name", f"is {name!r}; give one of {', '.join((ALL, *SUBJECTS, *KINDS))}")


def see_enabled(*, at_once: bool = False) -> None:
    """Refuse to tell of events where the settings say that nobody is told, or nobody at once."""
    settings = current_wiring().settings
    if not settings.orchestrator_notifications_enabled:
        raise ConfigurationError("ORCHESTRATOR_NOTIFICATIONS_ENABLED", "is off", "set it to true to be told of events")
    if at_once and not settings.orchestrator_notifications_real_time:
        setting = "ORCHESTRATOR_NOTIFICATIONS_REAL_TIME"
        raise ConfigurationError(setting, "is off", "set it to true, or ask for recent events (get_recent_events)")


def _moment(event: Event) -> tuple[datetime, bool, bool]:
    """The order of events: in one moment, ends come after beginnings; a run begins first and ends last."""
    begins, is_of_run = event.kind.endswith("_started"), event.step_id is None
    return event.at or _LAST, not begins, is_of_run != begins


def is_wanted(name: str, kind: str) -> bool:
    return name in (ALL, kind, kind.rpartition("_")[0])


def _subject(workflow_id: str, step: str) -> str:
    return "decomposition" if (workflow_id, step) == (GOAL_WORKFLOW, DECOMPOSE) else "task"


def _event_of_change(change: Change) -> Event | None:
    data = change.data
    word = _WORDS.get(RunStatus(data["status"])) if change.kind in ("run", "step") else None
    if word is None or change.run_id is None:
        return None
    at = data.get("start_date" if word == "started" else "completed_date")
    is_step = change.kind == "step"
    name: str = data["workflow_step_name"] if is_step else ""
    return Event(
        kind=f"{_subject(change.workflow_id, name) if is_step else 'execution'}_{word}",
        run_id=change.run_id,
        workflow_slug=change.workflow_id,
        at=None if at is None else datetime.fromisoformat(at),
        step_id=change.key[1] if is_step else None,
        step=name or None,
        item_index=data.get("item_index"),
        message=data.get("status_message") if word == "failed" else None,
    )


def _as_started(event: Event, change: Change) -> Event:
    began = change.data.get("start_date")
    return Event(
        kind=f"{event.kind.rpartition('_')[0]}_started",
        run_id=event.run_id,
        workflow_slug=event.workflow_slug,
        at=None if began is None else datetime.fromisoformat(began),
        step_id=event.step_id,
        step=event.step,
        item_index=event.item_index,
    )


def _events_of_runs(runs: Iterable[WorkflowRun]) -> Iterator[Event]:
    for run in runs:
        about: dict[str, Any] = {"run_id": run.id, "workflow_slug": run.workflow_definition_id}
        if run.start_date is not None:
            yield Event(kind="execution_started", at=run.start_date, **about)
        if run.completed_date is not None:
            word = _WORDS[run.status]
            message = run.status_message if word == "failed" else None
            yield Event(kind=f"execution_{word}", at=run.completed_date, message=message, **about)


def _events_of_steps(steps: Iterable[StepState]) -> Iterator[Event]:
    for step in steps:
        subject = _subject(step.workflow_definition_id, step.workflow_step_name)
        about: dict[str, Any] = {
            "run_id": step.workflow_run_id,
            "workflow_slug": step.workflow_definition_id,
            "step_id": step.id,
            "step": step.workflow_step_name,
            "item_index": step.item_index,
        }
        yield Event(kind=f"{subject}_started", at=step.start_date, **about)
        if step.completed_date is not None:
            word = _WORDS[step.status]
            message = step.status_message if word == "failed" else None
            yield Event(kind=f"{subject}_{word}", at=step.completed_date, message=message, **about)
