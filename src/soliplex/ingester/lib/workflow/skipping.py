"""Steps that have nothing to do, because an earlier step of their run decided so.

A route step may send a document into another workflow, or into one of the branches of its own; an ingest step hands the
document it fetched to a run of its own. They write down what they decided as their output:

    {"continued_in": 17, ...}      the document goes on in run 17: nothing is left to do here
    {"skips": ["ocr"], ...}        these steps belong to branches that were not taken

Steps that follow them see it as `skip_reason`. They are executed like any other, do nothing, and complete with an
output that says why: so a run ends by the rules that every run ends by.
"""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from soliplex.ingester.lib.models import Database, WorkflowStepType
from soliplex.ingester.lib.models.transactions import json_of
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.handlers import BATCH_WANTS, StepContext, provide, workflow_of
from soliplex.ingester.lib.wf.work import ClaimedStep
from soliplex.ingester.lib.workflow.sql import SQL

DECIDING: Final = (WorkflowStepType.INGEST, WorkflowStepType.ROUTE)
ASKED_FOR: Final = "skip_reason"


class Decision(NamedTuple):
    """What a step decided about those that follow it."""

    step: str
    output: Mapping[str, Any]


async def decisions_of(steps: Sequence[ClaimedStep]) -> dict[int, list[Decision]]:
    """The decisions made in the runs of these steps; runs whose workflow cannot decide anything cost nothing."""
    runs = sorted({step.run_id for step in steps if _can_decide(workflow_of(step))})
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    if runs:
        for row in await Database.read(SQL.outputs_of_runs(ids=runs, types=list(DECIDING))):
            output = json_of(row, "output")
            if isinstance(output, dict):
                decisions[row["workflow_run_id"]].append(Decision(row["workflow_step_name"], output))
    return decisions


def reason_to_skip(step: str, workflow: WorkflowDefinition, decisions: Sequence[Decision]) -> str | None:
    """Why the step has nothing to do; None where it has.

    Only steps that wait for the decision are bound by it: what runs beside it must not depend on which was quicker.
    """
    if not decisions:
        return None
    before = graph.ancestors_of(step, workflow.dependencies)
    for decision in decisions:
        if decision.step not in before:
            continue
        if (run_id := decision.output.get("continued_in")) is not None:
            return f"the document goes on in run {run_id}"
        if step in (decision.output.get("skips") or ()):
            return f"step {decision.step!r} chose the branch {decision.output.get('branch')!r}"
    return None


def skippable[**P](handler: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    """Let a handler do nothing where an earlier step decided so. Stands above `@batch_handler`."""
    return _skippable_batch(handler) if hasattr(handler, "__batch_limit__") else _skippable_step(handler)


def skipped(reason: str) -> dict[str, Any]:
    """The output of a step that did nothing."""
    return {"skipped": True, "reason": reason}


def _skippable_step(handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(handler)
    async def handle(**arguments: Any) -> Any:
        reason = arguments.pop(ASKED_FOR)
        return skipped(reason) if reason else await handler(**arguments)

    asked = inspect.Parameter(ASKED_FOR, inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(handler)
    # The engine looks at the signature to see what a handler asks for.
    cast("Any", handle).__signature__ = signature.replace(parameters=[*signature.parameters.values(), asked])
    return handle


def _skippable_batch(handler: Callable[..., Awaitable[list[Any]]]) -> Callable[..., Awaitable[list[Any]]]:
    @functools.wraps(handler)
    async def handle(batch: list[StepContext], **arguments: Any) -> list[Any]:
        working = [step for step in batch if not step[ASKED_FOR]]
        results = iter(await handler(working, **arguments) if working else ())
        return [skipped(step[ASKED_FOR]) if step[ASKED_FOR] else next(results) for step in batch]

    wants = getattr(handler, BATCH_WANTS, None)
    setattr(handle, BATCH_WANTS, None if wants is None else wants | {ASKED_FOR})
    return handle


def _can_decide(workflow: WorkflowDefinition) -> bool:
    return any(step.type in DECIDING for step in workflow.steps)


async def _reasons(steps: Sequence[ClaimedStep]) -> list[str | None]:
    decisions = await decisions_of(steps)
    return [reason_to_skip(step.name, workflow_of(step), decisions.get(step.run_id, ())) for step in steps]


provide(ASKED_FOR, _reasons)
