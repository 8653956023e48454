"""How an ingestion goes, stage by stage, for whoever watches it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from soliplex.ingester.installation.values import Failure
from soliplex.ingester.lib.answers import Waiting

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Stage:
    """How far one stage is. `weight` measures it where files count by their size."""

    name: str
    total: int | None = None
    done: int = 0
    failed: int = 0
    skipped: int = 0
    left_out: int = 0
    weight: int = 0
    total_weight: int | None = None
    taken_bytes: int | None = None
    """Bytes of what is done, where the stage moved any; told at its end."""
    is_step: bool = False
    """Whether it is a step of a workflow. Those go on side by side; other stages come one after the other."""
    running: int = 0
    """How many documents a step is at work on."""
    loading: str = ""
    """Of a step that has begun and is done with no document yet: what it loads meanwhile, in words."""

    @property
    def share(self) -> tuple[int, int | None]:
        """How much is done, and of how much."""
        if self.is_over:
            return self.ended, self.total  # whatever the sizes: a file may have changed since it was looked at
        return (self.ended, self.total) if self.total_weight is None else (self.weight, self.total_weight)

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.skipped

    @property
    def is_busy(self) -> bool:
        """Whether it is being worked on. A step may have to wait for those before it, or for a worker."""
        return not self.is_over and (bool(self.running) or not self.is_step)

    @property
    def is_starting(self) -> bool:
        """Whether the stage is a step that is at work and has finished no document yet."""
        return bool(self.running) and not self.ended

    @property
    def is_over(self) -> bool:
        return self.total is not None and self.ended >= self.total


class Watcher(Protocol):
    """Is told how an ingestion goes, while it goes."""

    def show(self, stage: Stage) -> None:
        """Show how far the stage is. The first call for a stage says that it has begun."""
        ...

    def end(self, stage: Stage) -> None:
        """The stage is over."""
        ...

    def failed(self, failure: Failure) -> None:
        """A document could not be ingested. The first few are told so; the summary has more."""
        ...

    def waits(self, waiting: Waiting) -> None:
        """Steps wait to be tried again; each reason is told once."""
        ...

    def unattended(self) -> None:
        """No worker runs: what was started waits for one."""
        ...


class Unwatched:
    """Logs what somebody has to do something about, and shows nothing else."""

    def show(self, stage: Stage) -> None:
        pass

    def end(self, stage: Stage) -> None:
        pass

    def failed(self, failure: Failure) -> None:
        pass

    def waits(self, waiting: Waiting) -> None:
        _log.warning("%d steps %r wait to be tried again: %s", waiting.steps, waiting.stage, waiting.reason)

    def unattended(self) -> None:
        _log.warning("no worker is running: what was started waits for one")
