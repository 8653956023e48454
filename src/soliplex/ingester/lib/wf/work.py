"""What passes between the worker and the operations: claimed steps on the way out, results on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from soliplex.ingester.lib.models import Isolation, RunStatus, RunStep, loaded
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of
from soliplex.ingester.lib.wf.definitions import StepDefinition, WorkflowDefinition

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.pools import Calling

SUBFLOW: Final = ":run"
"""The key, in a step's answer, of the id of the run that the step waited for."""


class Company:
    """Steps that a worker has claimed together: what one of them needs to have read is read for many at once."""

    __slots__ = ("reading", "run_inputs", "steps")

    def __init__(self, steps: Sequence[ClaimedStep]) -> None:
        self.steps = steps
        self.run_inputs: dict[int, Any] = {}
        """Inputs of runs, by the runs' ids, that are too large for their rows, once they were read."""
        self.reading = asyncio.Lock()
        for step in steps:
            step.company = self


@dataclass(slots=True, eq=False)
class ClaimedStep:
    """A step this worker holds, with the run it belongs to."""

    id: int
    run_id: int
    name: str
    type: str
    lease: str
    resource_key: str | None
    parent_id: int | None
    timeout: float | None
    workflow_id: str
    group_id: int
    worker_id: str
    claimed_at: datetime
    row: Row
    run: Row
    definition: StepDefinition | None = None
    """The step as its workflow defines it, once somebody has looked it up (`execution.definition_of`)."""
    deciders: Mapping[str, str] | None = None
    """The types, by key, of steps before this one that may have decided that this one has nothing to do."""
    calling: Calling | None = None
    """How a pool calls this step, once it has looked that up."""
    company: Company | None = None
    """The steps that were claimed along with this one."""
    outputs: Mapping[str, Any] | None = None
    """The outputs of the steps that this one depends on, by the names of the steps, once they were read."""
    began_at: datetime | None = None
    """When a worker of a queue began with it, if one did."""
    values: Mapping[str, Any] | None = None
    """The values that stand in place of references in columns of the row, by column, once they were read
    (`operations.payloads.bring_payloads`)."""

    @property
    def retry(self) -> int:
        return self.row["retry"]

    @property
    def input(self) -> Any:
        return self._json("input")

    @property
    def state(self) -> Any:
        return self._json("state")

    @property
    def answer(self) -> Any:
        """What the step waited for: the payload of a signal, or the output of a run."""
        outcome = self.subflow_outcome
        return self._json("answer") if outcome is None else outcome["output"]

    @property
    def subflow_outcome(self) -> dict[str, Any] | None:
        """How the run ended that the step waited for, if it waited for one: its id, status, output and error."""
        answer = self._json("answer")
        return answer if isinstance(answer, dict) and SUBFLOW in answer else None

    @property
    def run_input(self) -> Any:
        """The run's input as its row has it: a reference, if it is large."""
        return json_of(self.run, "input")

    def _json(self, name: str) -> Any:
        values = self.values
        return values[name] if values is not None and name in values else json_of(self.row, name)

    def context(self) -> dict[str, Any]:
        """What the functions of flows are told about a call."""
        return {
            "step_name": self.name,
            "attempt": self.retry + 1,
            "item_index": self.row["item_index"],
            "run_id": self.run_id,
            "run_key": self.run["run_key"],
            "workflow_slug": self.workflow_id,
        }

    def run_step(self) -> RunStep:
        """The step as the model that handlers know, as it is since the claim."""
        names = RunStep.model_fields.keys() & self.row.keys()
        return loaded(
            RunStep,
            {
                **{name: _value(self.row, name) for name in names},
                **(self.values or {}),
                "status": RunStatus.RUNNING,
                "worker_id": self.worker_id,
                "lease_token": self.lease,
                "start_date": self.claimed_at,
                "status_date": self.claimed_at,
                "remaining_deps": 0,
                "remaining_tasks": 0,
                "failed_tasks": 0,
                "gather": True,
            },
        )


def claimed_step(row: Row, run: Row, *, worker_id: str, lease: str, now: datetime) -> ClaimedStep:
    """The step that a claim has just read back."""
    return ClaimedStep(
        id=row["id"],
        run_id=row["workflow_run_id"],
        name=row["workflow_step_name"],
        type=row["step_type"],
        lease=lease,
        resource_key=row["resource_key"],
        parent_id=row["parent_step_id"],
        timeout=row["timeout_seconds"],
        workflow_id=run["workflow_definition_id"],
        group_id=run["run_group_id"],
        worker_id=worker_id,
        claimed_at=now,
        row=row,
        run=run,
    )


def _value(row: Row, name: str) -> Any:
    match name:
        case "created_date":
            return datetime_of(row, name)
        case "status_meta" | "input" | "state" | "answer":
            return json_of(row, name)
        case "is_last_step" | "optional":
            return bool(row[name])  # SQLite gives 0 or 1
        case "isolation":
            return Isolation(row[name]) if row[name] else None
        case _:
            return row[name]


# One for every step executed: freezing would double the cost of making it.
@dataclass(slots=True, kw_only=True)
class Completed:
    """The handler returned."""

    step_id: int
    run_id: int
    lease: str
    output: str | None = None
    """As JSON."""
    message: str | None = None
    meta: Mapping[str, Any] | None = None
    started_at: datetime | None = None
    run: Row | None = None
    """The run as the claim saw it: what follows the step may be claimed along with recording it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errored:
    """The attempt failed. Permanent: there is no use in another one."""

    step_id: int
    run_id: int
    lease: str
    message: str
    permanent: bool = False
    delay: timedelta = timedelta()
    meta: Mapping[str, Any] | None = None
    started_at: datetime | None = None
    attempts: int = 1
    """How many attempts this was: workers of a queue may have lost the step before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The step goes back untouched: the worker stops, or the run was cancelled, in which case it ends CANCELLED."""

    step_id: int
    run_id: int
    lease: str
    message: str | None = None
    meta: Mapping[str, Any] | None = None
    delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """A map step has become one task for each item."""

    step_id: int
    run_id: int
    lease: str
    items: list[Any] = field(default_factory=list[Any])


@dataclass(frozen=True, slots=True)
class NewSubflow:
    """A run that a step starts and waits for."""

    workflow: WorkflowDefinition
    input: Any
    definition_id: int | None
    """The stored version of the workflow."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """A message to the workers of a queue of pgmq."""

    queue: str
    headers: Mapping[str, Any]
    attempts_made: int
    """How often the step was tried before. It is no end of an attempt to wait in a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The handler asks to be called again: after a delay, or once a signal with the key `awaits` has come."""

    step_id: int
    run_id: int
    lease: str
    state: str | None = None
    """As JSON."""
    awaits: str | None = None
    delay: timedelta | None = None
    """None: at once, or, for a step that awaits a signal, no limit of time."""
    subflow: NewSubflow | None = None
    """The run to start, whose end sends the signal."""
    task: NewTask | None = None
    """The message to send, whose task sends the signal once a worker has finished it."""


type Result = Completed | Errored | Released | Expanded | Parked
