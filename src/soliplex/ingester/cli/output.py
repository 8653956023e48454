"""What commands print: tables for people, JSON for programs, each on standard output.

Everything that a command prints goes through `console`, `echo`, `echo_lines` or `print_json`: what they are given may
hold names and texts of strangers, and no control character of theirs reaches the terminal. `line` is for what a console
must show in one line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, override

import typer

from soliplex.ingester.lib.visible import visible, visible_json, visible_lines

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

type Row = Mapping[str, Any]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Show at most so many; 0 shows all.")]

_UNBOUNDED = 100_000
"""More columns than any table has: rich needs a number for the width of lines that are not to be broken."""
_PIPE_WIDTH = _UNBOUNDED
_MINUTE, _HOUR = 60, 3600
_KIBI = 1024


def console(*, stderr: bool = False) -> Console:
    """Where text goes. Into a pipe, lines are as long as they need to be, so that grep finds a name with its value."""
    stream = sys.stderr if stderr else sys.stdout
    return _console_class()(
        stderr=stderr,
        width=None if stream.isatty() else _PIPE_WIDTH,
        highlight=False,
        # In a name, [bold] is no markup, and :x: no picture; markup could even make a link of it.
        markup=False,
        emoji=False,
    )


@cache
def _console_class() -> type[Console]:
    """A console that makes control characters visible. Made when it is needed: rich takes a while to import."""
    from rich.console import Console, ConsoleDimensions
    from rich.segment import Segment

    class VisibleConsole(Console):
        @property
        @override
        def size(self) -> ConsoleDimensions:  # pyright: ignore[reportIncompatibleMethodOverride]  nobody sets it
            """The size of the terminal it writes to: rich asks descriptors 1 and 2, which may lead elsewhere."""
            try:
                columns, lines = os.get_terminal_size(self.file.fileno())
            except (OSError, ValueError):
                return super().size
            return ConsoleDimensions(self._width or columns, lines) if columns else super().size

        @override
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                # What rich itself does to the terminal, such as moving the cursor, is marked as control.
                yield segment if segment.control else Segment(visible_lines(segment.text), segment.style)

    return VisibleConsole


def echo(text: str, *, err: bool = False) -> None:
    """Print a line, which is one whatever it holds."""
    typer.echo(visible(text), err=err)


def echo_lines(text: str) -> None:
    """Print a text of several lines, and see that it ends with one."""
    typer.echo(visible_lines(text), nl=not text.endswith("\n"))


def line(text: str, style: str = "") -> Text:
    """A text that is one line whatever it holds, for a console."""
    from rich.text import Text

    return Text(visible(text), style=style)


def print_json(value: object) -> None:
    """Print a value, datetimes in ISO 8601."""
    from pydantic_core import to_jsonable_python

    typer.echo(visible_json(json.dumps(to_jsonable_python(_in_order(value)), indent=2, ensure_ascii=False)))


def print_rows(
    rows: Sequence[object], columns: Mapping[str, str], *, as_json: bool, nothing: str, total: int | None = None
) -> None:
    """Print rows: all that is known of each as JSON, or a table of some columns, given as {heading: field}.

    `total` is how many there are, where only some of them are given.
    """
    from rich.table import Table

    if as_json:
        print_json(rows)
        return
    if not rows:
        echo(nothing)
        return
    table = Table()
    plain = [fields_of(row) for row in rows]
    for heading, field in columns.items():
        table.add_column(heading, overflow="fold", justify=_side([row.get(field) for row in plain]))
    for row in plain:
        table.add_row(*(line(as_cell(row.get(field)), _style(row.get(field))) for field in columns.values()))
    out = console()
    if widths_of(table, out).maximum <= out.width:
        out.print(table)
    else:
        _print_records(out, [[(heading, row.get(field)) for heading, field in columns.items()] for row in plain])
    if total is not None and total > len(rows):
        echo(f"{len(rows):,} of {total:,} are shown; --limit 0 shows all")


def widths_of(table: Table, out: Console) -> Measurement:
    """How many columns a table needs: to show each value in one line, and at least, to cut no word in two."""
    return out.measure(table, options=out.options.update(max_width=_UNBOUNDED))


def _print_records(out: Console, rows: Sequence[Sequence[tuple[str, object]]]) -> None:
    """Rows that do not fit side by side, one below the other: a line for each value, and no word is cut in two."""
    width = max(len(heading) for heading, _ in rows[0])
    for number, row in enumerate(rows):
        if number:
            out.print()
        for heading, value in row:
            if cell := as_cell(value):
                out.print(line(heading.ljust(width), "bold"), line(cell, _style(value)), soft_wrap=True)


def print_facts(facts: Row, *, as_json: bool) -> None:
    """Print what is known about one thing, a line for each fact. Where there is room, long ones are wrapped."""
    from rich.table import Table

    if as_json:
        print_json(facts)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(line(name), line(as_cell(value), _style(value)))
    out = console()
    if widths_of(table, out).minimum <= out.width:
        out.print(table)
    else:
        print_unwrapped(out, [(name, as_cell(value)) for name, value in facts.items()])


def print_unwrapped(out: Console, rows: Iterable[Sequence[str]]) -> None:
    """A line for each row, its first cell as a heading. The terminal may wrap a line, so what is copied stays whole."""
    cells = [[line(cell) for cell in row] for row in rows]
    width = max((first.cell_len for first, *_ in cells), default=0)
    for first, *others in cells:
        first.stylize("bold")
        first.pad_right(width - first.cell_len)
        out.print(first, *others, soft_wrap=True)


def fields_of(row: object) -> Row:
    """What is known of a row, by name."""
    from dataclasses import asdict, is_dataclass

    from pydantic import BaseModel

    if isinstance(row, BaseModel):
        # In the order of the definition: a row that was read from the database keeps no order of its fields.
        kind = type(row)
        return {name: getattr(row, name) for name in (*kind.model_fields, *kind.model_computed_fields)}
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    assert isinstance(row, Mapping), f"a row is a model, a dataclass or a mapping, not {type(row).__name__}"
    return row


def as_cell(value: object) -> str:
    """A value as a person reads it in a table."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case float():
            text = f"{value:,.2f}"
        case datetime():
            text = f"{value.astimezone():%Y-%m-%d %H:%M:%S}"  # in the time zone of the reader; JSON has UTC
        case dict() | list() | tuple():
            text = _compact(value) if value else ""
        case _:
            text = str(value)
    return text


def as_duration(seconds: float | None) -> str:
    """A time span as short as it can be said."""
    if seconds is None:
        return ""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE)} s"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE)} min"


def as_size(count: float) -> str:
    """A number of bytes, with the unit that leaves one to three digits before the point."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < _KIBI:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _KIBI
    return f"{count:.1f} TiB"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _in_order(value: object) -> object:
    """The value with the fields of every model in the order of their definition."""
    from dataclasses import is_dataclass

    from pydantic import BaseModel

    if isinstance(value, Mapping):
        return {key: _in_order(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_order(item) for item in value]
    return _in_order(fields_of(value)) if isinstance(value, BaseModel) or is_dataclass(value) else value


def _side(values: Sequence[object]) -> Literal["left", "right"]:
    known = [value for value in values if value is not None]
    is_numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)
    return "right" if known and is_numeric else "left"


_STYLES = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "ERROR": "yellow",
    "FAILED": "red",
    "CANCELLED": "magenta",
    "PENDING": "dim",
}


def _style(value: object) -> str:
    return _STYLES.get(value, "") if isinstance(value, str) else ""


def _compact(value: object) -> str:
    from pydantic_core import to_jsonable_python

    return json.dumps(to_jsonable_python(value), ensure_ascii=False)
