"""Watching run groups until they have ended, with a worker in this process and a bar for each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from soliplex.ingester.cli.ingest.display import display_for, undisturbed
from soliplex.ingester.cli.output import console
from soliplex.ingester.cli.stopping import STOPPED_BY_SIGNAL, stopping_on_signals
from soliplex.ingester.installation.following import Follower
from soliplex.ingester.installation.interruptible import Interruptible, Stopped
from soliplex.ingester.installation.protocol import Target
from soliplex.ingester.installation.values import Failure

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
    is_stopped = False
    with undisturbed(display), stopping_on_signals() as stopping:
        async with target.working():
            try:
                for group_id in group_ids:
                    await Follower(target, group_id, display, Interruptible(stopping)).follow()
            except Stopped:
                is_stopped = True
    failures = [each for group_id in group_ids for each in await target.failures(group_id, FAILURES_READ)]
    return Followed(failures, is_stopped=is_stopped)
