"""How far a job is: its status, progress and stage, worked out from its run and the run's steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from soliplex.ingester.lib.answers import DocumentStatus, JobStatus
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.models.transactions import Row, Rows, json_of

TIMED_OUT: Final = "Job cancelled due to timeout"
DONE: Final = 100
_STATUSES: Final = {
    RunStatus.PENDING: JobStatus.NEW,
    RunStatus.RUNNING: JobStatus.PROCESSING,
    RunStatus.ERROR: JobStatus.PROCESSING,
    RunStatus.COMPLETED: JobStatus.COMPLETED,
    RunStatus.FAILED: JobStatus.FAILED,
    RunStatus.CANCELLED: JobStatus.CANCELED,
}
_DOCUMENTS: Final = {JobStatus.COMPLETED: DocumentStatus.PROCESSED, JobStatus.CANCELED: DocumentStatus.CANCELED}


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of a job's run, in the words of clients."""

    name: str
    until: int
    """The progress when the stage is over: about the share of its time that a PDF of a few pages has taken by then."""


STAGES: Final[Mapping[str, Stage]] = {
    "validate": Stage("validating", 5),
    "parse": Stage("converting", 50),
    "segment": Stage("segmenting", 60),
    "tag": Stage("tagging", 98),
    "publish": Stage("publishing", DONE),
}


@dataclass(frozen=True, slots=True)
class StepStanding:
    """What is known of one step of a run."""

    name: str
    status: RunStatus
    fraction: float = 0.0
    """How much of it is done, from 0 to 1, while it runs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a job is."""

    progress: int
    stage: str | None


def job_status(status: RunStatus, *, has_begun: bool) -> JobStatus:
    """The status of a job whose run has this one."""
    if status is RunStatus.PENDING and has_begun:
        return JobStatus.PENDING
    return _STATUSES[status]


def run_statuses(status: JobStatus) -> list[str]:
    """The statuses of runs whose jobs may have this one."""
    wanted = JobStatus.NEW if status is JobStatus.PENDING else status
    return [run.value for run, job in _STATUSES.items() if job is wanted]


def document_status(status: JobStatus) -> DocumentStatus:
    """The status of the document of a job."""
    return _DOCUMENTS.get(status, DocumentStatus.NEW)


def standing_of(status: JobStatus, steps: Sequence[StepStanding]) -> Standing:
    """How far a job is. One that has failed stays where it was when it did."""
    if status is JobStatus.COMPLETED:
        return Standing(DONE, None)
    known = {step.name: step for step in steps}
    begins = 0
    for name, stage in STAGES.items():
        step = known.get(name)
        if step is None or step.status is not RunStatus.COMPLETED:
            fraction = step.fraction if step is not None else 0.0
            progress = begins + int((stage.until - begins) * min(max(fraction, 0.0), 1.0))
            # All steps are done, and the end of the run is not recorded yet: only a job that is COMPLETED is at 100.
            return Standing(min(progress, DONE - 1), None if status is JobStatus.NEW else stage.name)
        begins = stage.until
    return Standing(DONE - 1, STAGES["publish"].name)


def step_standings(steps: Rows, articles: int) -> list[StepStanding]:
    """How far the steps of a run are, of whose document there are so many articles."""
    return [
        StepStanding(row["workflow_step_name"], RunStatus(row["status"]), _fraction_of(row, articles)) for row in steps
    ]


def _fraction_of(row: Row, articles: int) -> float:
    if row["workflow_step_name"] == "tag":
        done = articles - row["remaining_tasks"] if row["remaining_tasks"] else row["tagged"] or 0
        return done / articles if articles else 0.0
    told: Mapping[str, Any] | None = json_of(row, "progress")
    return (told or {}).get("fraction") or 0.0
