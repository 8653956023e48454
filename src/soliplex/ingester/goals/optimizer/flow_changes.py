"""Changes of a flow: each of something that the engine honours, and all of them together as one new definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal

from soliplex.ingester.goals.optimizer import chains
from soliplex.ingester.lib.wf.definitions import StepDefinition, WorkflowDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.operations.claim import OF_A_PROCESS
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.stored_form import stored_form

type Level = Literal["basic", "advanced", "aggressive"]
type Kind = Literal["timeout", "attempts", "backoff", "parallelism", "redundant_edge", "priority", "merge"]

LEVELS: Final[tuple[Level, ...]] = ("basic", "advanced", "aggressive")
LEVEL_OF: Final[dict[Kind, Level]] = {
    "timeout": "basic",
    "attempts": "basic",
    "backoff": "advanced",
    "parallelism": "advanced",
    "redundant_edge": "aggressive",
    "priority": "aggressive",
    "merge": "aggressive",
}
OPTIMIZATION: Final = "optimization"
"""The key in the meta of a flow that says which optimization it came out of."""
BASE: Final = "optimized_from"
"""The key beside it: the hash of the flow as its author defined it."""
_ORDER: Final = ("timeout", "attempts", "backoff", "priority", "redundant_edge", "merge")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a step; a change of priorities is of the flow, and has no step."""

    kind: Kind
    step: str
    value: Any
    """Seconds, a number of attempts, `{first, longest, factor, jitter}` of a back-off, `{step: priority}`, the step on
    which it depends no more, or the step before it that it takes in."""


def apply_changes(flow: WorkflowDefinition, changes: Sequence[Change]) -> WorkflowDefinition:
    """The flow with these changes. Those of steps that it does not have are left out."""
    steps = {step.key: step for step in flow.steps}
    for change in sorted(changes, key=lambda change: _ORDER.index(change.kind)):
        if change.kind == "priority":
            wanted = {key: value for key, value in change.value.items() if key in steps}
            steps |= {key: replace(steps[key], priority=value) for key, value in wanted.items()}
        elif change.step in steps:
            _apply(steps, change)
    return workflow_from_steps(
        flow.id, list(steps.values()), name=flow.name, meta=flow.meta, lifecycle_events=flow.lifecycle_events
    )


def _apply(steps: dict[str, StepDefinition], change: Change) -> None:
    step = steps[change.step]
    match change.kind:
        case "timeout":
            step = replace(step, timeout=timedelta(seconds=change.value))
        case "attempts":
            step = replace(step, retries=change.value)
        case "backoff":
            step = replace(step, backoff=backoff_from(change.value))
        case "redundant_edge":
            step = replace(step, depends_on=tuple(each for each in step.depends_on if each != change.value))
        case "merge":
            if change.value in steps:
                step = chains.merged(steps.pop(change.value), step)
        case "parallelism" | "priority":
            return  # the first changes workers, the second several steps at once (see `apply_changes`)
    steps[change.step] = step


def backoff_from(value: dict[str, float]) -> Backoff:
    first, longest = timedelta(seconds=value["first"]), timedelta(seconds=value["longest"])
    return Backoff(first, longest, value["factor"], value["jitter"])


def backoff_as_json(backoff: Backoff) -> dict[str, float]:
    return {
        "first": backoff.first.total_seconds(),
        "longest": backoff.longest.total_seconds(),
        "factor": backoff.factor,
        "jitter": backoff.jitter,
    }


def hash_of(flow: WorkflowDefinition) -> str:
    """What tells a definition from another, whichever process has its functions, and whatever it is called."""
    steps = [replace(step, type="local") if step.type.startswith(OF_A_PROCESS) else step for step in flow.steps]
    meta = {name: value for name, value in flow.meta.items() if name not in (OPTIMIZATION, BASE)}
    return stored_form(replace(flow, steps=tuple(steps), name=flow.id, meta=meta)).hash
