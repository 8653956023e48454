"""What benchmarks share: their arguments, and how their results are shown.

A result is one JSON object. A benchmark's lines say which of its values are shown, under what words, and what is to be
reached. Peers measured in the same run stand in the object under `peers`, with values of the same names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

type Result = dict[str, Any]
type DatabaseKind = Literal["sqlite", "postgres"]

DATABASES: Final[tuple[DatabaseKind, ...]] = ("sqlite", "postgres")
NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Target:
    """What a value is to reach: at least the bound, or at most."""

    bound: float
    at_most: bool = False
    databases: tuple[DatabaseKind, ...] = DATABASES
    """Where it is asked for."""

    def is_reached_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {number(self.bound)}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a benchmark's table. The path leads to the value: `start_latency_ms.p50`."""

    what: str
    path: str
    target: Target | None = None

    def target_on(self, result: Result) -> Target | None:
        asked = self.target is not None and result.get("database", DATABASES[0]) in self.target.databases
        return self.target if asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller of a benchmark asks for."""

    database: DatabaseKind = "sqlite"
    as_json: bool = False
    quick: bool = False
    peers: bool = False
    postgres_url: str | None = None
    data: Path | None = None
    """A folder of documents, for the benchmarks that need them."""
    choi: Path | None = None
    """A folder of texts in Choi's form, for the benchmark of the segmenter."""
    only: tuple[str, ...] = ()
    """The measures to take; none named, all of them."""


def parse_options(description: str, measures: Iterable[str], arguments: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=DATABASES, default=DATABASES[0])
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    parser.add_argument("--only", nargs="+", choices=tuple(measures), default=(), help="take these measures alone")
    parser.add_argument(
        "--choi", type=Path, help="a folder of texts in Choi's form, for the benchmark of the segmenter"
    )
    add_shared_arguments(parser)
    options = parser.parse_args(arguments)
    options.only = tuple(options.only)
    return Options(**vars(options))


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what one benchmark takes as well as all of them together."""
    parser.add_argument("--quick", action="store_true", help="smaller sizes: less than 40 seconds, rougher figures")
    parser.add_argument("--peers", action="store_true", help="measure peers too; installs them where they are missing")
    parser.add_argument("--postgres-url", help="a server to use; without it, one is started for the time of the run")
    parser.add_argument("--data", type=Path, help="a folder of documents, for the benchmarks that need them")


def machine() -> dict[str, Any]:
    """What was measured on, and how busy it was with other things."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def show(result: Result, lines: Sequence[Line], *, as_json: bool) -> None:
    """Print a result."""
    print(json.dumps(result, indent=2) if as_json else as_text(result, lines))


def as_text(result: Result, lines: Sequence[Line]) -> str:
    """The result as an aligned table under a heading."""
    rows = [HEADINGS, *table(result, lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([heading(result), "", *aligned, *notes(result)])


def as_markdown(result: Result, lines: Sequence[Line]) -> str:
    """The result as a table in Markdown."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *table(result, lines)]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), *(f"\n{note}" for note in notes(result))])


def heading(result: Result) -> str:
    facts = result["machine"]
    return (
        f"{result['benchmark']} on {result['database_version']}{', quick form' if result['quick'] else ''}"
        f" · {facts['cores']} cores, {facts['memory_gib']} GiB, Python {facts['python']}, {facts['date']}, "
        f"load {facts['load_before']} before, {facts['load_after']} after"
    )


HEADINGS: Final = ("what", "ours", "peers", "ours / theirs", "target", "")


def table(result: Result, lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """The rows below the headings, as texts: one for each line whose measure was taken."""
    return [_row(result, line) for line in lines if line.path.partition(".")[0] in result]


def _row(result: Result, line: Line) -> tuple[str, ...]:
    ours = value_at(result, line.path)
    theirs = dict(_peers_at(result, line.path))
    target = line.target_on(result)
    return (
        line.what.format(**result.get("sizes", {})),
        number(ours),
        " · ".join(f"{label} {number(value)}" for label, value in theirs.items()) or NOTHING,
        " · ".join(number(ours / value) for value in theirs.values() if value and ours is not None) or NOTHING,
        str(target or NOTHING),
        _verdict(ours, target),
    )


def _verdict(value: float | None, target: Target | None) -> str:
    if target is None:
        return ""
    return "reached" if value is not None and target.is_reached_by(value) else "not reached"


def value_at(result: Result, path: str) -> float | None:
    """The number a path leads to; None where there is none."""
    found: Any = result
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _peers_at(result: Result, path: str) -> Iterator[tuple[str, float]]:
    for peer in result.get("peers", {}).values():
        value = value_at(peer, path)
        if value is not None:
            yield peer["label"], value


def notes(result: Result) -> list[str]:
    """What could not be measured, and why: ours and the peers'."""
    failed = [f"{name} could not be measured: {reason}" for name, reason in result.get("failed", {}).items()]
    for peer in result.get("peers", {}).values():
        label = f"{peer['label']} {peer['version']}"
        failed += [f"{label}, {name} could not be measured: {reason}" for name, reason in peer["failed"].items()]
    return failed


def number(value: float | None) -> str:
    """As many digits as a reader can use."""
    if value is None:
        return NOTHING
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
