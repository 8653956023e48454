"""Watching run groups until they have ended, with a worker in this process and a bar for each step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from soliplex.ingester.cli.ingest.display import Display, Stage, display_for
from soliplex.ingester.cli.ingest.target import Failure, GroupProgress, Target
from soliplex.ingester.cli.output import console
from soliplex.ingester.cli.stopping import STOPPED_BY_SIGNAL, stopping_on_signals

LOOK_EVERY: Final = 0.15
FAILURES_READ: Final = 20


@dataclass(frozen=True, slots=True)
class Followed:
    """How the groups ended."""

    failures: list[Failure] = field(default_factory=list[Failure])
    is_stopped: bool = False
    """The watching was stopped before they had ended; they go on wherever a worker runs."""

    @property
    def exit_code(self) -> int:
        return STOPPED_BY_SIGNAL if self.is_stopped else int(bool(self.failures))


async def follow_groups(target: Target, group_ids: Sequence[int]) -> Followed:
    """Work, and show how far the groups are, until all have ended or we are told to stop."""
    display = display_for(console(stderr=True))
    with display, stopping_on_signals() as stopping:
        async with target.working():
            ended = [await _has_ended(target, group_id, display, stopping) for group_id in group_ids]
    failures = [each for group_id in group_ids for each in await target.failures(group_id, FAILURES_READ)]
    return Followed(failures, is_stopped=not all(ended))


async def _has_ended(target: Target, group_id: int, display: Display, stopping: asyncio.Event) -> bool:
    ended: set[str] = set()
    while not stopping.is_set():
        progress = await target.progress(group_id)
        _show(progress, display, ended)
        if progress.is_over:
            return True
        await _pause(stopping)
    return False


def _show(progress: GroupProgress, display: Display, ended: set[str]) -> None:
    for each in progress.stages:
        stage = Stage(name=each.name, total=each.total, done=each.completed, failed=each.failed, skipped=each.cancelled)
        if not stage.is_over:
            display.show(stage)
        elif each.name not in ended:
            ended.add(each.name)
            display.end(stage)


async def _pause(stopping: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LOOK_EVERY):
            await stopping.wait()
    except TimeoutError:
        return
