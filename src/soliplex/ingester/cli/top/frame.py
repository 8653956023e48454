"""An overview as lines: sections with a heading each, cut to the size of the terminal.

Where there is too little room, every section keeps its first rows, and says how many there are beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from soliplex.ingester.cli.ingest.time_left import in_words
from soliplex.ingester.cli.output import as_duration, as_size, counted, line
from soliplex.ingester.installation.overview import (
    ActiveGroup,
    BusyWorker,
    FailureCause,
    HeldLock,
    Overview,
    StepsOfType,
)
from soliplex.ingester.lib.visible import visible

BAR: Final = 12
"""Columns of the bar of a group."""
NARROW: Final = 80
_LONGEST_NAME: Final = 26
_OLD: Final = 60.0
"""Seconds after which a step that is ready has waited long, and is shown so."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how what is below it is set."""

    heading: str
    justify: Literal["left", "right"] = "left"
    is_wide: bool = False
    """Takes the room that is left; is cut where there is too little."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table of one kind of thing."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]
    beyond: int = 0
    """How many more there are than rows."""
    if_none: str = ""
    _height_of_heading: int = field(default=2, init=False)

    def height(self, rows: int) -> int:
        """Lines that it takes with so many rows: a blank one, the heading, the rows, and one for those beyond."""
        hidden = len(self.rows) - rows + self.beyond
        return self._height_of_heading + rows + (1 if hidden else 0)

    def shown(self, rows: int) -> list[RenderableType]:
        if not self.rows:
            return [Text(), line(self.if_none, "dim")]
        table = Table(box=None, expand=True, pad_edge=False, header_style="bold cyan", padding=(0, 2, 0, 0))
        for column in self.columns:
            ratio = 1 if column.is_wide else None
            table.add_column(column.heading, justify=column.justify, no_wrap=True, overflow="ellipsis", ratio=ratio)
        for row in self.rows[:rows]:
            table.add_row(*row)
        hidden = len(self.rows) - rows + self.beyond
        return [Text(), table, *([line(f"… and {hidden:,} more", "dim")] if hidden else [])]


def frame(overview: Overview, *, where: str, height: int | None = None, note: str = "") -> Group:
    """The overview, in so many lines; without a height, all of it."""
    sections = [
        _steps(overview.steps),
        _groups(overview.groups, overview.group_count),
        _workers(overview.workers, overview.worker_count),
        _locks(overview.locks, overview.lock_count, overview.at),
        _causes(overview.causes, overview.at),
    ]
    sections = [section for section in sections if section.rows or section.if_none]
    head = _head(overview, where)
    rows = _fitted(sections, None if height is None else height - 2)
    body = [part for section, count in zip(sections, rows, strict=True) for part in section.shown(count)]
    return Group(head, *body, *([] if height is None else [Text(), _foot(note)]))


def _fitted(sections: Sequence[Section], height: int | None) -> list[int]:
    """How many rows of each section are shown: in turn, one more of each, until there is no room."""
    wanted = [len(section.rows) for section in sections]
    if height is None:
        return wanted
    chosen = [min(1, count) for count in wanted]
    has_grown = True
    while has_grown:
        has_grown = False
        for place, section in enumerate(sections):
            more = [count + (1 if each == place else 0) for each, count in enumerate(chosen)]
            fits = sum(s.height(count) for s, count in zip(sections, more, strict=True)) + 1 <= height
            if chosen[place] < len(section.rows) and fits:
                chosen, has_grown = more, True
    return chosen


def _head(overview: Overview, where: str) -> Text:
    slots = sum(worker.slots for worker in overview.workers)
    running = sum(min(worker.running_steps, worker.slots) for worker in overview.workers)
    done = sum(steps.per_second for steps in overview.steps)
    told = [
        f"{overview.at.astimezone():%H:%M:%S}",
        counted(overview.worker_count, "worker"),
        f"{running:,}/{slots:,} slots",
        f"{sum(steps.ready for steps in overview.steps):,} ready",
        f"{done:,.1f} steps/s",
    ]
    head = line(where.removeprefix("http://").removeprefix("https://"), "bold")
    head.append(f"  {' · '.join(told)}")
    head.no_wrap, head.overflow = True, "ellipsis"
    return head


def _foot(note: str) -> Text:
    foot = line("q leaves", "dim")
    if note:
        foot.append(f"  {visible(note)}", style="yellow")
    foot.no_wrap, foot.overflow = True, "ellipsis"
    return foot


def _steps(steps: Sequence[StepsOfType]) -> Section:
    columns = (
        Column("step", is_wide=True),
        *(Column(name, "right") for name in ("ready", "running", "done/s", "failed", "oldest ready", "workers")),
    )
    return Section(columns, [_row_of_steps(each) for each in steps], if_none="no steps: nothing waits or runs")


def _row_of_steps(steps: StepsOfType) -> list[Text]:
    waits = steps.oldest_ready_seconds
    is_unattended = steps.ready > 0 and steps.workers == 0
    return [
        line(steps.step_type),
        line(f"{steps.ready:,}{'' if steps.is_exact else '+'}"),
        line(f"{steps.running:,}", "cyan" if steps.running else "dim"),
        line(f"{steps.per_second:,.1f}", "green" if steps.completed else "dim"),
        line(f"{steps.failed:,}", "red" if steps.failed else "dim"),
        line(as_duration(waits), "yellow" if waits is not None and waits > _OLD else ""),
        line("" if steps.workers is None else f"{steps.workers:,}", "bold red" if is_unattended else ""),
    ]


def _groups(groups: Sequence[ActiveGroup], count: int) -> Section:
    columns = (
        Column("group", "right"),
        Column("name", is_wide=True),
        Column("runs"),
        Column("done", "right"),
        Column("failed", "right"),
        Column("left"),
    )
    return Section(columns, [_row_of_group(each) for each in groups], count - len(groups), "no run group is under way")


def _row_of_group(group: ActiveGroup) -> list[Text]:
    ended = group.total_runs - group.remaining_runs
    full = BAR * ended // group.total_runs if group.total_runs else 0
    bar = line("█" * full, "green")
    bar.append("░" * (BAR - full), style="dim")
    return [
        line(str(group.id)),
        line(group.name or group.workflow_definition_id),
        bar,
        line(f"{ended:,}/{group.total_runs:,}"),
        line(f"{group.failed_runs:,}", "red" if group.failed_runs else "dim"),
        line(in_words(group.seconds_left)) if group.seconds_left is not None else line(group.reason or "", "dim"),
    ]


def _workers(workers: Sequence[BusyWorker], count: int) -> Section:
    columns = (
        Column("worker", is_wide=True),
        Column("host"),
        *(Column(name, "right") for name in ("busy", "slots", "memory", "checked in")),
    )
    rows = [_row_of_worker(each) for each in sorted(workers, key=lambda each: (-each.running_steps, each.id))]
    return Section(columns, rows, count - len(workers), "no worker: `si-cli worker` starts one")


def _row_of_worker(worker: BusyWorker) -> list[Text]:
    memory = (worker.resident_bytes or 0) + (worker.processes_resident_bytes or 0)
    return [
        line(worker.id),
        _short(worker.hostname or ""),
        line(f"{worker.running_steps:,}", "cyan" if worker.running_steps else "dim"),
        line(f"{worker.slots:,}"),
        line(as_size(memory) if memory else ""),
        line(_ago(worker.seconds_since_checkin)),
    ]


def _locks(locks: Sequence[HeldLock], count: int, now: datetime) -> Section:
    columns = (Column("locked", is_wide=True), Column("by", is_wide=True), Column("for", "right"))
    rows = [_row_of_lock(each, now) for each in locks]
    return Section(columns, rows, count - len(locks))


def _row_of_lock(lock: HeldLock, now: datetime) -> list[Text]:
    is_expired = lock.expires_at < now
    return [
        line(lock.resource_key),
        line(
            f"{lock.holder_kind} {lock.holder_id}{' (expired)' if is_expired else ''}", "yellow" if is_expired else ""
        ),
        line(as_duration(max(0.0, (now - lock.acquired_at).total_seconds()))),
    ]


def _causes(causes: Sequence[FailureCause], now: datetime) -> Section:
    columns = (
        Column("failed", "right"),
        Column("retrying", "right"),
        Column("step"),
        Column("cause, of the last day", is_wide=True),
        Column("newest", "right"),
    )
    return Section(columns, [_row_of_cause(each, now) for each in causes])


def _row_of_cause(cause: FailureCause, now: datetime) -> list[Text]:
    ago = None if cause.newest is None else max(0.0, (now - cause.newest).total_seconds())
    return [
        line(f"{cause.failed:,}", "red" if cause.failed else "dim"),
        line(f"{cause.to_be_retried:,}", "yellow" if cause.to_be_retried else "dim"),
        _short(", ".join(cause.step_types)),
        line(cause.message),
        line(_ago(ago) if ago is not None else ""),
    ]


def _ago(seconds: float) -> str:
    """In the largest unit: `32 min ago`, which leaves room for what tells more."""
    return f"{' '.join(as_duration(seconds).split()[:2])} ago"


def _short(text: str) -> Text:
    shown = line(text)
    shown.truncate(_LONGEST_NAME, overflow="ellipsis")
    return shown
