"""What is shown while files are ingested: bars in a terminal, a line now and then in a log.

Everything goes to standard error; standard output is for the summary.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, override

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from soliplex.ingester.cli.output import as_duration, line
from soliplex.ingester.lib.visible import visible

LOG_EVERY = 10.0
"""Seconds between lines about a stage that goes on, where there is no terminal."""
WARM_UP = 2.0
"""Seconds before a remaining time is told: earlier it would be a guess."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """How far one stage is. `weight` is what the bar goes by, where files count by their size."""

    name: str
    total: int | None = None
    done: int = 0
    failed: int = 0
    skipped: int = 0
    weight: int = 0
    total_weight: int | None = None
    note: str = ""

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
    def is_over(self) -> bool:
        return self.total is not None and self.ended >= self.total

    @property
    def count(self) -> str:
        return f"{self.done:,}" if self.total is None else f"{self.done:,}/{self.total:,}"

    @property
    def remarks(self) -> str:
        failed = f"{self.failed:,} failed" if self.failed else ""
        skipped = f"{self.skipped:,} not reached" if self.skipped else ""
        return ", ".join(filter(None, (failed, skipped, self.note)))


class Display(Protocol):
    """Shows stages as they go."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, stage: Stage) -> None:
        """Show how far the stage is; the first time, it begins."""
        ...

    def end(self, stage: Stage) -> None:
        """Show that the stage is over."""
        ...

    def say(self, text: str, style: str = "") -> None:
        """Show a line that stays."""
        ...


def display_for(console: Console) -> Display:
    """Bars where they can be drawn, lines elsewhere."""
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else LineDisplay(console)


class LiveDisplay:
    """A bar for each stage, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            _Count(),
            _Time(),
            _Remarks(),
            console=console,
            transient=False,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._progress.tasks:
            if task.total is None:
                self._progress.remove_task(task.id)
        self._progress.stop()

    def show(self, stage: Stage) -> None:
        done, total = stage.share
        if stage.name not in self._tasks:
            self._tasks[stage.name] = self._progress.add_task(visible(stage.name), total=total, stage=stage)
        self._progress.update(self._tasks[stage.name], completed=done, total=total, stage=stage)

    def end(self, stage: Stage) -> None:
        self.show(stage)
        self._progress.stop_task(self._tasks[stage.name])

    def say(self, text: str, style: str = "") -> None:
        self._progress.console.print(line(text, style), soft_wrap=True)


class LineDisplay:
    """A line when a stage ends, and one now and then while it goes on."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._began: dict[str, float] = {}
        self._last = 0.0

    def __enter__(self) -> Self:
        self._last = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, stage: Stage) -> None:
        now = self._clock()
        self._began.setdefault(stage.name, now)
        if now - self._last >= LOG_EVERY:
            self._last = now
            self._print(stage)

    def end(self, stage: Stage) -> None:
        began = self._began.setdefault(stage.name, self._clock())
        self._print(stage, as_duration(self._clock() - began))

    def say(self, text: str, style: str = "") -> None:
        self._console.print(line(text, style), soft_wrap=True)

    def _print(self, stage: Stage, took: str = "") -> None:
        words = ", ".join(filter(None, (stage.count, stage.remarks, took and f"took {took}")))
        self._console.print(line(f"{stage.name}: {words}"), soft_wrap=True)


class SilentDisplay:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, stage: Stage) -> None:
        pass

    def end(self, stage: Stage) -> None:
        pass

    def say(self, text: str, style: str = "") -> None:
        pass


class _Count(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        stage: Stage = task.fields["stage"]
        return Text(stage.count, style="green" if stage.is_over and stage.done == stage.total else "", justify="right")


class _Time(ProgressColumn):
    """What is left, or what it took."""

    @override
    def render(self, task: Task) -> Text:
        if task.elapsed is None:
            return Text("")
        if task.finished or task.time_remaining is None or task.elapsed < WARM_UP:
            return Text(as_duration(task.finished_time or task.elapsed), style="dim")
        return Text(f"{as_duration(task.time_remaining)} left", style="cyan")


class _Remarks(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        stage: Stage = task.fields["stage"]
        return line(stage.remarks, "red" if stage.failed else "dim")
