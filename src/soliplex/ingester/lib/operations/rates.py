"""How fast documents were processed, by kind and step: what a forecast goes by.

Steps run side by side, and many share a call, so their durations add up to far more than the time that passed. What is
told here adds up to it: the time in which a group was worked on is shared out among its steps and documents.

    parse   ██████████████░░          busy for 14 s ┐  21 s in all, but only 16 s passed: each second
    embed   ░░░░░░░░░███████          busy for  7 s ┘  counts for 16/21 of one

What passes until parser and model are loaded is told apart: it does not grow with the number of documents.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median
from typing import Any, Final

from soliplex.ingester.lib.models import Database, WorkflowStepType
from soliplex.ingester.lib.models.transactions import datetime_of
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.wf.operations.definitions import chosen_definitions

GROUPS_LOOKED_AT: Final = 20
DOCUMENTS_LOOKED_AT: Final = 2_000
"""So many documents are enough for a forecast, and few enough to be read while somebody waits."""
ENOUGH_TO_TELL: Final = 4
IN_SHARED_CALLS: Final = frozenset({WorkflowStepType.EMBED, WorkflowStepType.STORE})
"""Steps of many documents that are executed in one call: how long each took says nothing about its document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingRate:
    """What steps of one type did with documents of one kind, and the time that passed for it."""

    mime_type: str
    step_type: str
    documents: int
    bytes: int
    pages: int
    """Pages of the documents whose parser counted them."""
    chunks: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingRates:
    """The rates of a workflow with a parameter set, from the documents that were processed so last."""

    workflow_definition_id: str
    param_definition_id: str
    documents: int
    start_up_seconds: float
    """What a group took, on average, until parser and model were loaded."""
    rates: list[ProcessingRate]


async def processing_rates(workflow_id: str | None = None, param_id: str | None = None) -> ProcessingRates:
    """The rates of this workflow with these parameters; where there are none, of any workflow with these parameters."""
    workflow, params = (each.id for each in await chosen_definitions(workflow_id, param_id))
    executed = await _executed(workflow, params) or await _executed(None, params)
    return ProcessingRates(
        workflow_definition_id=workflow,
        param_definition_id=params,
        documents=len({step.run_id for steps in executed for step in steps}),
        start_up_seconds=round(fmean(map(start_up_of_all, executed)), 3) if executed else 0.0,
        rates=summed_up(executed),
    )


@dataclass(frozen=True, slots=True)
class Executed:
    """A step of a document that was executed to its end."""

    run_id: int
    step_type: str
    began: datetime
    ended: datetime
    mime_type: str
    size: int
    pages: int
    chunks: int

    @property
    def seconds(self) -> float:
        return (self.ended - self.began).total_seconds()


async def _executed(workflow_id: str | None, param_id: str) -> list[list[Executed]]:
    """The steps of the newest groups, group by group."""
    wanted = SQL.newest_groups(workflow_id=workflow_id, param_id=param_id, most=GROUPS_LOOKED_AT)
    left, groups = DOCUMENTS_LOOKED_AT, list[list[Executed]]()
    for row in await Database.read(wanted):
        if left <= 0:
            break
        documents = await Database.read(SQL.completed_documents(group_id=row["id"], most=left))
        left -= len(documents)
        if steps := await _steps({each["id"]: each for each in documents}):
            groups.append(steps)
    return groups


async def _steps(documents: Mapping[int, Any]) -> list[Executed]:
    rows = await Database.read(SQL.executed_steps(ids=list(documents))) if documents else []
    outputs = [_output(row["output"]) for row in rows]
    skipped = _skipped(rows, outputs)
    facts: defaultdict[int, dict[str, int]] = defaultdict(lambda: {"pages": 0, "chunks": 0})
    for row, output in zip(rows, outputs, strict=True):
        seen = facts[row["workflow_run_id"]]
        seen |= {name: max(seen[name], _number(output.get(name))) for name in seen}
    return [
        Executed(
            run_id=row["workflow_run_id"],
            step_type=row["step_type"],
            began=_moment(row, "start_date"),
            ended=_moment(row, "completed_date"),
            mime_type=documents[row["workflow_run_id"]]["mime_type"],
            size=documents[row["workflow_run_id"]]["file_size"] or 0,
            **facts[row["workflow_run_id"]],
        )
        for row, output in zip(rows, outputs, strict=True)
        if not output.get("skipped") and row["workflow_run_id"] not in skipped
    ]


def _skipped(rows: Sequence[Any], outputs: Sequence[Mapping[str, Any]]) -> set[int]:
    """Runs that had nothing to parse: what they took says nothing about a document that is new."""
    parsing = {True: set[int](), False: set[int]()}
    for row, output in zip(rows, outputs, strict=True):
        if row["step_type"] == WorkflowStepType.PARSE:
            parsing[bool(output.get("skipped"))].add(row["workflow_run_id"])
    return parsing[True] - parsing[False]


def summed_up(groups: Iterable[Sequence[Executed]]) -> list[ProcessingRate]:
    """The rates by kind of document and step type, in the order of these."""
    sums: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * 5)
    for steps in groups:
        for step, seconds in shared_out(steps):
            facts = (1, step.size, step.pages, step.chunks, seconds)
            sums[step.mime_type, step.step_type] = [
                before + more for before, more in zip(sums[step.mime_type, step.step_type], facts, strict=True)
            ]
    return [
        ProcessingRate(
            mime_type=mime_type,
            step_type=step_type,
            documents=int(documents),
            bytes=int(size),
            pages=int(pages),
            chunks=int(chunks),
            seconds=round(seconds, 6),
        )
        for (mime_type, step_type), (documents, size, pages, chunks, seconds) in sorted(sums.items())
    ]


def shared_out(steps: Sequence[Executed]) -> list[tuple[Executed, float]]:
    """Each step with its share of the time in which the group was worked on."""
    by_type: defaultdict[str, list[Executed]] = defaultdict(list)
    for step in steps:
        by_type[step.step_type].append(step)
    busy = {step_type: covered_seconds(some) for step_type, some in by_type.items()}
    scale = covered_seconds(steps) / (sum(busy.values()) or 1.0)
    shares: list[tuple[Executed, float]] = []
    for step_type, some in by_type.items():
        weights = _weights(some)
        unit = (busy[step_type] - start_up(some)) * scale / sum(weights)
        shares += [(step, weight * unit) for step, weight in zip(some, weights, strict=True)]
    return shares


def _weights(steps: Sequence[Executed]) -> list[float]:
    """What decides the shares of steps of one type: how long each took, without the time to load parser or model."""
    if steps[0].step_type in IN_SHARED_CALLS:
        return [step.chunks + 1.0 for step in steps]
    loading, loaded = start_up(steps), min(step.ended for step in steps)
    return [max(step.seconds - (loading if step.began < loaded else 0.0), 0.0) + 1e-6 for step in steps]


def start_up(steps: Sequence[Executed]) -> float:
    """How much longer the first step of a type took than such steps usually take; 0 where there are too few steps."""
    if len(steps) < ENOUGH_TO_TELL:
        return 0.0
    first = min(step.ended for step in steps) - min(step.began for step in steps)
    return max(first.total_seconds() - median(step.seconds for step in steps), 0.0)


def start_up_of_all(steps: Sequence[Executed]) -> float:
    """What passed until all that a group needs was loaded."""
    return covered_seconds(steps) - sum(seconds for _, seconds in shared_out(steps))


def covered_seconds(steps: Iterable[Executed]) -> float:
    """The time in which at least one of the steps ran."""
    total, until = 0.0, None
    for step in sorted(steps, key=lambda step: step.began):
        begin = step.began if until is None else max(step.began, until)
        if step.ended > begin:
            total += (step.ended - begin).total_seconds()
            until = step.ended
    return total


def _output(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _moment(row: Any, name: str) -> datetime:
    moment = datetime_of(row, name)
    assert moment is not None
    return moment
