"""All that the measurements of a flow say, and how long a run would take with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from soliplex.ingester.goals.optimizer import structure
from soliplex.ingester.goals.optimizer.concurrency import best_at_once
from soliplex.ingester.goals.optimizer.flow_changes import Change, apply_changes
from soliplex.ingester.goals.optimizer.measurements import Measurements
from soliplex.ingester.goals.optimizer.simulation import makespan
from soliplex.ingester.goals.optimizer.tuning import ENOUGH, Finding, tuned
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition

SHORT: Final = 0.05
"""Most seconds of a step that is merged: a longer step is worth a record, and a slot, of its own."""
RELIABLE: Final = 0.02
"""The share of failures up to which a step is merged: each failure repeats the whole chain."""
MOST_NAMED: Final = 5
WORTH_ORDERING: Final = 0.02
"""The share of a run's time that other priorities must save."""


def findings(flow: WorkflowDefinition, measured: Measurements, slots: int) -> list[Finding]:
    """What to change about a flow, whatever the level."""
    runs = len(measured.runs)
    found = chain.from_iterable(
        tuned(step, measured.steps[step.key], runs) for step in flow.steps if step.key in measured.steps
    )
    return [
        *found,
        *_parallelism(measured, slots),
        *_edges(flow, measured),
        *_order(flow, measured, slots),
        *_merges(flow, measured),
    ]


def predicted_seconds(flow: WorkflowDefinition, measured: Measurements, slots: int, *, saves: float = 0.0) -> float:
    """How long a run of the flow takes, worked out from its steps; `saves` is what was found out about single steps."""
    work: dict[str, Sequence[float]] = {}
    for step in flow.steps:
        keys = [link["key"] for link in structure.chains.links_of(step)]
        parts = [measured.work[key] for key in keys if key in measured.work]
        work[step.key] = parts[0] if len(parts) == 1 else [sum(sum(part) for part in parts)]
    order = {step.key: step.priority for step in flow.steps}
    seconds = makespan(flow.dependencies, work, slots=slots, priorities=order, overhead=measured.overhead)
    return max(0.0, seconds - saves)


def _parallelism(measured: Measurements, slots: int) -> Iterator[Finding]:
    best = best_at_once(measured.intervals)
    if best is None:
        return
    at_once, known = best
    most = known[-1].at_once
    if at_once >= most or at_once >= slots:
        return
    told = ", ".join(f"{each.at_once} at once: {each.work:.2g}" for each in known)
    yield Finding(
        kind="parallelism",
        step="",
        current=most,
        proposed=at_once,
        why=f"more than {at_once} steps at once got no more done (in steps that are alone; {told})",
        samples=len(measured.intervals),
    )


def _edges(flow: WorkflowDefinition, measured: Measurements) -> Iterator[Finding]:
    def keeps(needed: str, step: str) -> bool:
        return structure.carries_data(flow, needed, step)

    for needed, step in structure.redundant_edges(flow.dependencies, keeps):
        yield Finding(
            kind="redundant_edge",
            step=step,
            current=needed,
            proposed=None,
            why=f"{step} waits for {needed} through other steps, too, and does not read what it gave",
            samples=measured.executions,
        )


def _order(flow: WorkflowDefinition, measured: Measurements, slots: int) -> Iterator[Finding]:
    if any(step.priority for step in flow.steps):
        return  # the author of the flow has given priorities: they stay
    seconds = {key: max(durations) for key, durations in measured.work.items() if durations}
    wanted = structure.priorities(flow.dependencies, seconds)
    lower = {step: value for step, value in wanted.items() if value}
    before = predicted_seconds(flow, measured, slots)
    changed = apply_changes(flow, [Change("priority", "", lower)])
    saved = before - predicted_seconds(changed, measured, slots)
    if saved <= WORTH_ORDERING * before:
        return
    longest = structure.remaining_path(flow.dependencies, seconds)
    critical = [step for step in flow.dependencies if step not in lower]
    yield Finding(
        kind="priority",
        step="",
        current={},
        proposed=lower,
        why=f"the longest way takes {max(longest.values()):.3g} s and begins with {', '.join(critical[:MOST_NAMED])}; "
        f"where what is on it goes first, a run takes {saved:.3g} s less with {slots} slots",
        samples=measured.executions,
    )


def _merges(flow: WorkflowDefinition, measured: Measurements) -> Iterator[Finding]:
    def is_short(key: str) -> bool:
        stats = measured.steps.get(key)
        if stats is None or len(stats.durations) < ENOUGH:
            return False
        return stats.durations[-1] <= SHORT and stats.failed_attempts <= RELIABLE * stats.executions

    for before, step in structure.mergeable_pairs(flow, is_short):
        longest = max(measured.steps[each].durations[-1] for each in (before, step))
        yield Finding(
            kind="merge",
            step=step,
            current=[before, step],
            proposed=[step],
            why=f"{step} alone waits for {before}; neither took longer than {longest * 1000:.3g} ms, and each step "
            f"costs {measured.overhead * 1000:.3g} ms besides",
            samples=measured.executions,
        )


def changes_of(found: Sequence[Finding]) -> list[Change]:
    """The changes of a flow that the findings propose."""
    return [Change(each.kind, each.step, _value(each)) for each in found if each.kind != "parallelism"]


def _value(found: Finding) -> Any:
    if found.kind == "redundant_edge":
        return found.current
    return found.current[0] if found.kind == "merge" else found.proposed


def saved_by(found: Sequence[Finding], dependencies: Mapping[str, Sequence[str]]) -> float:
    """What findings about single steps save in all."""
    return sum(each.saves for each in found if each.step in dependencies)
