"""What is shown while files are ingested: bars in a terminal, a line now and then in a log.

Everything goes to standard error; standard output is for the summary.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, override

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from soliplex.ingester.cli.ingest.time_left import in_words
from soliplex.ingester.cli.output import as_duration, as_size, counted, line
from soliplex.ingester.installation.local_files import printable
from soliplex.ingester.installation.stages import Stage, Watcher
from soliplex.ingester.installation.values import Failure
from soliplex.ingester.lib.answers import Waiting
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.logs import logged_beside
from soliplex.ingester.lib.visible import visible
from soliplex.ingester.lib.wf.remaining import Remaining, Share

LOG_EVERY = 10.0
"""Seconds between lines about a stage that goes on, where there is no terminal."""


def count_of(stage: Stage) -> str:
    return f"{stage.done:,}" if stage.total is None else f"{stage.done:,}/{stage.total:,}"


def remarks_on(stage: Stage) -> str:
    failed = f"{stage.failed:,} failed" if stage.failed else ""
    skipped = f"{stage.skipped:,} not reached" if stage.skipped else ""
    left_out = f"{stage.left_out:,} left out" if stage.left_out else ""
    size = "" if stage.taken_bytes is None else as_size(stage.taken_bytes)
    return ", ".join(filter(None, (failed, skipped, left_out, size, stage.loading)))


def in_words_of(waiting: Waiting) -> str:
    verb = "waits" if waiting.steps == 1 else "wait"
    documents = counted(waiting.steps, "document")
    return f"⧗ {documents} {verb} at {waiting.stage}, to be tried again: {waiting.reason}"


class _Times:
    """How long stages were worked on. The time in which a step waits for those before it does not count.

    A stage that begins and ends between two looks was never seen to run, and counts as having taken no time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._taken: dict[str, float] = {}
        self._busy_since: dict[str, float] = {}

    def note(self, stage: Stage) -> None:
        self._taken[stage.name] = self.seconds(stage.name)
        self._busy_since.pop(stage.name, None)
        if stage.is_busy:
            self._busy_since[stage.name] = self._clock()

    def seconds(self, name: str) -> float:
        now = self._clock()
        return self._taken.get(name, 0.0) + now - self._busy_since.get(name, now)


class _Estimate:
    """What is left of the stages that are shown: of all steps together, or of the one stage that goes on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._remaining = Remaining()
        self._stages: dict[str, Stage] = {}
        self._noted_at: dict[str, float] = {}

    def note(self, stage: Stage) -> None:
        now = self._clock()
        self._stages[stage.name], self._noted_at[stage.name] = stage, now
        self._remaining.note(self._shares(), now)

    @property
    def words(self) -> str:
        """What is left, for a line of its own."""
        words, stage = self._words(), self._going_on()[-1:]
        return f"{stage[0].name}: {words}" if words and not stage[0].is_step else words

    @property
    def words_beside(self) -> str:
        """What is left, for the line of the stage that goes on."""
        words, stage = self._words(), self._going_on()[-1:]
        return f"{words} in all" if words and stage[0].is_step else words

    def _words(self) -> str:
        seconds = self._remaining.seconds(self._clock())
        return "" if seconds is None else in_words(seconds)

    def _shares(self) -> list[Share]:
        return [
            Share(stage.name, done, total, stage.ended, self._noted_at[stage.name], stage.is_starting)
            for stage in self._going_on()
            for done, total in [stage.share]
            if total
        ]

    def _going_on(self) -> list[Stage]:
        steps = [stage for stage in self._stages.values() if stage.is_step]
        return steps or list(self._stages.values())[-1:]


class Display(Watcher, Protocol):
    """Shows stages as they go."""

    @property
    def console(self) -> Console | None:
        """Where the stages are shown; None where they are not."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str, style: str = "") -> None:
        """Show a line that stays."""
        ...


class Speaking(ABC):
    """What all displays have in common: failures, waits and the like become sentences, which `say` shows."""

    @abstractmethod
    def say(self, text: str, style: str = "") -> None: ...

    def failed(self, failure: Failure) -> None:
        at = f"{failure.stage}: " if failure.run_group_id is not None else ""
        self.say(f"✗ {printable(Path(failure.uri))}: {at}{failure.reason}", "red")

    def waits(self, waiting: Waiting) -> None:
        self.say(in_words_of(waiting), "yellow")

    def unattended(self) -> None:
        self.say("No worker is running there: `si-cli worker` starts one. Waiting.", "yellow")


def display_for(console: Console) -> Display:
    """Bars where they can be drawn, lines elsewhere, and where the log is JSON: each line is then a record of it."""
    can_be_drawn = console.is_terminal and not console.is_dumb_terminal and get_settings().log_format != "json"
    return LiveDisplay(console) if can_be_drawn else LineDisplay(console)


@contextmanager
def undisturbed(display: Display) -> Generator[Display]:
    """The display, up for the time of the block. What libraries print meanwhile goes to the log, and not into it."""
    out = display.console
    with logged_beside(get_settings(), lambda text: display.say(text, "yellow")) as err:
        if out is not None and err is not None and out.file is sys.__stderr__:
            out.file = err
        try:
            with display:
                yield display
        finally:
            if out is not None and out.file is err:
                out.file = sys.stderr


class LiveDisplay(Speaking):
    """A bar for each stage, redrawn in place."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._estimate = _Estimate(clock)
        self._times = _Times(clock)
        self._progress = _Bars(
            self._estimate,
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            _Count(),
            _Time(self._times),
            _Remarks(),
            console=console,
            transient=False,
            redirect_stdout=False,  # what others print is not for the display: see `undisturbed`
            redirect_stderr=False,
        )
        self.console = console
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
        self._estimate.note(stage)
        self._times.note(stage)
        done, total = stage.share
        if stage.name not in self._tasks:
            self._tasks[stage.name] = self._progress.add_task(visible(stage.name), total=total, stage=stage)
        self._progress.update(self._tasks[stage.name], completed=done, total=total, stage=stage)

    def end(self, stage: Stage) -> None:
        self.show(stage)
        self._progress.stop_task(self._tasks[stage.name])

    @override
    def say(self, text: str, style: str = "") -> None:
        self._progress.console.print(line(text, style), soft_wrap=True)


class _Bars(Progress):
    """The bars, and below them how long it takes in all."""

    def __init__(self, estimate: _Estimate, *columns: ProgressColumn, **options: Any) -> None:
        self._estimate = estimate
        super().__init__(*columns, **options)

    @override
    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if words := self._estimate.words:
            yield line(f"  {words}", "cyan")


class LineDisplay(Speaking):
    """A line when a stage ends, and one now and then while it goes on."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._times = _Times(clock)
        self._told_loading: set[str] = set()
        self._last = 0.0
        self._estimate = _Estimate(clock)

    def __enter__(self) -> Self:
        self._last = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, stage: Stage) -> None:
        now = self._clock()
        self._estimate.note(stage)
        self._times.note(stage)
        is_news = bool(stage.loading) and stage.name not in self._told_loading
        if is_news or now - self._last >= LOG_EVERY:
            self._told_loading.add(stage.name)
            self._last = now
            self._print(stage, self._estimate.words_beside)

    def end(self, stage: Stage) -> None:
        self._estimate.note(stage)
        self._times.note(stage)
        self._print(stage, f"took {as_duration(self._times.seconds(stage.name))}")

    @override
    def say(self, text: str, style: str = "") -> None:
        self.console.print(line(text, style), soft_wrap=True)

    def _print(self, stage: Stage, time: str = "") -> None:
        words = ", ".join(filter(None, (count_of(stage), remarks_on(stage), time)))
        self.console.print(line(f"{stage.name}: {words}"), soft_wrap=True)


class SilentDisplay(Speaking):
    """Shows nothing."""

    console = None

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

    @override
    def say(self, text: str, style: str = "") -> None:
        pass


class _Count(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        stage: Stage = task.fields["stage"]
        return Text(
            count_of(stage), style="green" if stage.is_over and stage.done == stage.total else "", justify="right"
        )


class _Time(ProgressColumn):
    """The column with how long a stage has been worked on; it is empty for a step that has not begun."""

    def __init__(self, times: _Times) -> None:
        self._times = times
        super().__init__()

    @override
    def render(self, task: Task) -> Text:
        stage: Stage = task.fields["stage"]
        has_begun = stage.is_busy or stage.ended or not stage.is_step
        return Text(as_duration(self._times.seconds(stage.name)) if has_begun else "", style="dim")


class _Remarks(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        stage: Stage = task.fields["stage"]
        return line(remarks_on(stage), "red" if stage.failed else "dim")
