"""How much memory processes of this machine hold, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

_PROCESSES: Final = Path("/proc")
_STARTED: Final = 19
"""The number of the start time among the fields that follow the name of a process in its `stat`."""
_SLACK: Final = 2.0
"""Seconds by which the time of a process's start may be wrong."""


class Resident(NamedTuple):
    """Bytes of memory that a process holds."""

    own: int
    children: int
    """Bytes of all processes below it: of a worker, those in which documents are read."""


def resident_of(pid: int, *, since: datetime | None = None) -> Resident | None:
    """What a process holds; None if there is none of this number that was there at that time, or nobody can tell.

    Process ids are used again: a process that began later is another one.
    """
    try:
        if since is not None and _started_at(pid) > since.timestamp() + _SLACK:
            return None
        return Resident(_bytes_of(pid), sum(map(_bytes_if_there, _descendants(pid))))
    except (OSError, ValueError, IndexError):
        return None


def _bytes_of(pid: int) -> int:
    return int((_PROCESSES / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _bytes_if_there(pid: int) -> int:
    try:
        return _bytes_of(pid)
    except OSError:
        return 0  # the process has just ended


def _descendants(pid: int) -> Iterator[int]:
    try:
        tasks = list((_PROCESSES / str(pid) / "task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return  # the process has just ended
    for child in children:
        yield child
        yield from _descendants(child)


def _started_at(pid: int) -> float:
    # The name of a process may hold spaces and brackets: fields are counted from its last bracket on.
    after_name = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
    lines = (_PROCESSES / "stat").read_text().splitlines()
    booted_at = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return booted_at + int(after_name[_STARTED]) / os.sysconf("SC_CLK_TCK")
