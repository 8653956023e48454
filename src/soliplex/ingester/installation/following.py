"""Following groups of runs until they have ended.

Where the installation tells of changes, the group is looked at when it does; elsewhere, now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from soliplex.ingester.installation.interruptible import Interruptible, Stopped
from soliplex.ingester.installation.protocol import Target
from soliplex.ingester.installation.stages import Stage, Watcher
from soliplex.ingester.installation.values import Changes, Failure, GroupProgress

LOOK_EVERY: Final = 0.15
LOOK_AT_LEAST_EVERY: Final = 2.0
"""Seconds between looks at a group: the longer a look takes, the longer the pause after it."""
LOOK_UNTOLD_EVERY: Final = 30.0
"""Seconds after which we look although nobody told of a change."""

ASK_WHAT_WAITS_EVERY: Final = 5.0
"""Seconds between questions for what waits to be tried again."""
REASONS_TOLD: Final = 10
FAILURES_READ: Final = 20

type Look = Callable[[GroupProgress], Awaitable[None]]


class GroupFollower:
    """Follows one group, and shows a watcher how far its steps are. Somebody works meanwhile: see `Target.working`."""

    def __init__(self, target: Target, group_id: int, watcher: Watcher, interruptible: Interruptible) -> None:
        self._target = target
        self._group_id = group_id
        self._watcher = watcher
        self._interruptible = interruptible
        self._ended_stages: set[str] = set()
        self._loads: Mapping[str, str] = {}
        self._asked_at = time.monotonic()
        self._told: set[tuple[str, str]] = set()

    async def follow(self, on_look: Look | None = None) -> None:
        """Return when the group has ended; raises `Stopped` if we are told to stop before. `on_look` sees each look."""
        if not await self._target.has_workers():
            self._watcher.unattended()
        self._loads = await self._target.loads(self._group_id)
        async with self._target.changes(self._group_id) as changes:
            while True:
                changes.happened.clear()
                asked = time.perf_counter()
                progress = await self._target.progress(self._group_id)
                self.show(progress)
                if on_look is not None:
                    await on_look(progress)
                if progress.is_over:
                    return
                await self._tell_what_waits()
                await self._until_it_changes(changes, progress, took=time.perf_counter() - asked)

    def show(self, progress: GroupProgress) -> None:
        for each in progress.stages:
            stage = Stage(
                name=each.name,
                total=each.total,
                done=each.completed,
                failed=each.failed,
                skipped=each.cancelled,
                is_step=True,
                running=each.running,
            )
            stage.loading = self._loads.get(each.name, "") if stage.is_starting else ""
            if not stage.is_over:
                self._watcher.show(stage)
            elif each.name not in self._ended_stages:
                self._ended_stages.add(each.name)
                self._watcher.end(stage)

    async def _tell_what_waits(self) -> None:
        if time.monotonic() - self._asked_at < ASK_WHAT_WAITS_EVERY:
            return
        self._asked_at = time.monotonic()
        for waiting in await self._target.reasons_to_wait(self._group_id, REASONS_TOLD):
            if (waiting.stage, waiting.reason) not in self._told and len(self._told) < REASONS_TOLD:
                self._told.add((waiting.stage, waiting.reason))
                self._watcher.waits(waiting)

    async def _until_it_changes(self, changes: Changes, progress: GroupProgress, *, took: float) -> None:
        """Wait for the next look at the group: until a change is told, or for a moment where nobody tells."""
        # No change is told when the handlers of an ended group's events were called: so the wait is bounded.
        if not changes.are_told or progress.status.is_final:
            await self._interruptible.pause(min(max(LOOK_EVERY, 5 * took), LOOK_AT_LEAST_EVERY))
            return
        await self._interruptible.pause(changes.looks_every)
        await self._interruptible.pause(LOOK_UNTOLD_EVERY, changes.happened)


@dataclass(frozen=True, slots=True)
class Followed:
    """How the groups ended."""

    failures: list[Failure] = field(default_factory=list[Failure])
    """The newest failures."""
    failed: int = 0
    """All runs that failed."""
    cancelled: int = 0
    is_stopped: bool = False
    """The watching was stopped before the groups had ended; they go on wherever a worker runs."""

    @property
    def is_success(self) -> bool:
        return not (self.failed or self.cancelled or self.is_stopped)


async def follow_groups(
    target: Target, group_ids: Sequence[int], watcher: Watcher, stopping: asyncio.Event
) -> Followed:
    """Work, and show the watcher how far the groups are, until all have ended or we are told to stop."""
    is_stopped = False
    async with target.working():
        try:
            for group_id in group_ids:
                await GroupFollower(target, group_id, watcher, Interruptible(stopping)).follow()
        except Stopped:
            is_stopped = True
    failures = [each for group_id in group_ids for each in await target.failures(group_id, FAILURES_READ)]
    ends = [await target.progress(group_id) for group_id in group_ids]
    failed, cancelled = sum(end.failed for end in ends), sum(end.cancelled for end in ends)
    return Followed(failures, failed, cancelled, is_stopped=is_stopped)
