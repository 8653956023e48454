"""How far a group is: cheap enough to be asked several times a second by whoever waits for its end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, LifecycleHistory, RunStatus, RunStep, WorkflowRun


@dataclass(frozen=True, slots=True)
class StepCounts:
    """How many steps of a group, of one name, are in each status."""

    name: str
    counts: dict[RunStatus, int]
    """Every status, also those no step is in."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


async def step_counts(run_group_id: int) -> list[StepCounts]:
    """The steps of a group by name, in the order of the workflow.

    As `step_stats`, without the pages, which are read from the outputs of the steps.
    """
    name, number = col(RunStep.workflow_step_name), func.min(RunStep.workflow_step_number)
    query = (
        select(name, col(RunStep.status), func.count(), number)
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(col(WorkflowRun.run_group_id) == run_group_id, col(RunStep.parent_step_id).is_(None))
        .group_by(name, col(RunStep.status))
        .order_by(number)
    )
    found: dict[str, dict[RunStatus, int]] = defaultdict(lambda: dict.fromkeys(RunStatus, 0))
    async with Database.session(read_only=True) as session:
        for step, status, count, _ in await session.exec(query):
            found[step][RunStatus(status)] += count
    return [StepCounts(step, counts) for step, counts in found.items()]


async def count_waiting_events(run_group_id: int) -> int:
    """How many handlers of the group's events have yet to be called."""
    query = (
        select(func.count())
        .select_from(LifecycleHistory)
        .where(
            LifecycleHistory.run_group_id == run_group_id,
            col(LifecycleHistory.status).in_([RunStatus.PENDING, RunStatus.RUNNING, RunStatus.ERROR]),
        )
    )
    async with Database.session(read_only=True) as session:
        return (await session.exec(query)).one()
