"""How long a run would take, worked out from how long its steps take: slots take the most urgent of what is ready."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from soliplex.ingester.lib.wf import graph


def makespan(
    edges: Mapping[str, Sequence[str]],
    work: Mapping[str, Sequence[float]],
    *,
    slots: int,
    priorities: Mapping[str, int] | None = None,
    overhead: float = 0.0,
) -> float:
    """Seconds from the beginning to the end. `work` gives the seconds of a step's call, or of each task of a map step.

    `overhead` passes before each step: it is claimed, and recorded.
    """
    dependents = graph.dependents_of(edges)
    order = {step: place for place, step in enumerate(edges)}
    urgency = priorities or {}
    missing = {step: len(needed) for step, needed in edges.items()}
    waiting: list[tuple[int, int, int, str]] = []
    left: dict[str, int] = {}
    running: list[tuple[float, int, str]] = []
    now, counter, ended_at = 0.0, 0, 0.0

    def make_ready(step: str) -> None:
        left[step] = max(1, len(work.get(step, ())))
        for place in range(left[step]):
            heapq.heappush(waiting, (-urgency.get(step, 0), order[step], place, step))

    for step, count in missing.items():
        if not count:
            make_ready(step)
    while waiting or running:
        while waiting and len(running) < slots:
            _, _, place, step = heapq.heappop(waiting)
            seconds = work[step][place] if work.get(step) else 0.0
            counter += 1
            heapq.heappush(running, (now + overhead + seconds, counter, step))
        now, _, step = heapq.heappop(running)
        ended_at = now
        left[step] -= 1
        if left[step]:
            continue
        for dependent in dependents[step]:
            missing[dependent] -= 1
            if not missing[dependent]:
                make_ready(dependent)
    return ended_at
