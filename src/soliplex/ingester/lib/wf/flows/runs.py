"""What is told of a run of a flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from soliplex.ingester.lib.models import RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.errors import EngineError
from soliplex.ingester.lib.wf.operations.payloads import value_of
from soliplex.ingester.lib.wf.views.steps import attempts_begun, current_progress

STATUSES: Final = {
    RunStatus.PENDING: "started",
    RunStatus.RUNNING: "started",
    RunStatus.ERROR: "started",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
"""How those who use flows name the statuses of runs."""


class RunFailed(EngineError):  # noqa: N818  what happened, as with HandlerCrashed
    """A run that somebody waited for has failed, or was cancelled."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"run {run.id} of flow {run.workflow_slug!r} is {run.status}: {run.error}")
        self.run = run


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOfRun:
    """A step of a run, as it is now."""

    id: int
    name: str
    status: str
    """pending, started, completed, failed, cancelled."""
    attempt: int
    output: Any
    error: str | None
    message: str | None
    """What there is to say of it: what it waits for, why it was skipped, how it failed."""
    skipped: bool
    progress: dict[str, Any] | None
    """How far the call has come, as the function says: `fraction`, `text`, and `at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, as it is now."""

    id: int
    workflow_slug: str
    status: str
    """started, completed, failed, cancelled."""
    input: Any
    output: Any
    """What the last steps gave, by their names; None before the end."""
    error: str | None
    remaining_steps: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    steps: list[StepOfRun]

    @property
    def is_over(self) -> bool:
        return self.status != "started"


async def run_of(run_id: int) -> Run:
    """The run with its steps; the tasks of map steps are not among them."""
    run = await run_as_stored(run_id)
    steps = [replace(step, output=await _value(step.output)) for step in run.steps]
    return replace(run, input=await _value(run.input), output=await _value(run.output), steps=steps)


async def run_as_stored(run_id: int) -> Run:
    """The run with its steps, with references in place of large values (`wf/references.py`)."""
    found = await views.get_run_with_steps(run_id, with_tasks=False)
    run = found.run
    failed = run.status in (RunStatus.FAILED, RunStatus.CANCELLED)
    assert run.id is not None
    return Run(
        id=run.id,
        workflow_slug=run.workflow_definition_id,
        status=STATUSES[run.status],
        input=run.input,
        output=run.output,
        error=_error_of(run, found.steps) if failed else None,
        remaining_steps=run.remaining_steps,
        created_at=run.created_date,
        started_at=run.start_date,
        completed_at=None if failed else run.completed_date,
        failed_at=run.completed_date if failed else None,
        steps=[_step(each) for each in found.steps],
    )


async def status_of(run_id: int) -> RunStatus:
    return (await views.get_run(run_id)).status


def _step(step: RunStep) -> StepOfRun:
    assert step.id is not None
    waits = step.status in (RunStatus.PENDING, RunStatus.ERROR)
    return StepOfRun(
        id=step.id,
        name=step.workflow_step_name,
        status="pending" if waits else STATUSES[step.status],
        attempt=attempts_begun(step.status, step.retry),
        output=step.output,
        error=step.status_message if step.status in (RunStatus.ERROR, RunStatus.FAILED) else None,
        message=step.status_message,
        skipped="skipped" in step.status_meta,
        progress=current_progress(step.progress, step.start_date),
    )


def _error_of(run: WorkflowRun, steps: list[RunStep]) -> str:
    messages = [step.status_message for step in steps if step.status is RunStatus.FAILED and step.status_message]
    return run.status_message or (messages[0] if messages else run.status.lower())


async def _value(value: Any) -> Any:
    """The value, with stored payloads in place of the references to them."""
    return await value_of(to_json(value)) if isinstance(value, dict | list) else value
