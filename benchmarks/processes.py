"""What Linux tells about processes: their memory, and what they have used of the processor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """The memory of a process now, or with VmHWM the most it has had."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"the system does not tell {field}")


def forget_most_memory(pid: int) -> None:
    """Let VmHWM begin anew at what the process has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def processor_seconds(pid: int) -> float:
    """What a process and all below it have used of the processor, those that have ended included.

    Less swayed by what else the machine does than a rate is.
    """
    return sum(_processor_seconds(each) for each in (pid, *below(pid)))


def below(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    for child in _children(pid):
        yield child
        yield from below(child)


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except FileNotFoundError:  # it, or one of its threads, has just ended
        return []


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:  # it has just ended: its time is its parent's now
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
