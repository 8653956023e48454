"""Driving the engine: backlogs to work on, and a worker of this process that is watched."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from benchmarks import workflows
from benchmarks.databases import settle
from soliplex.ingester.lib.models import Database, RunGroup, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.operations.runs import Created
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.wf.work import Completed, Parked

STALLED_AFTER: Final = 20


@dataclass(slots=True)
class Progress:
    """Metrics of a worker: what it has completed, and when. Set `reached` once that is enough."""

    enough: int
    completed: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = field(default_factory=time.perf_counter)
    marks: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """Seconds from the beginning, and how much was completed by then."""
    _processor_at_start: float = field(default_factory=time.process_time)
    _processor_time: float = 0.0

    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        del labels
        if name == "step_completed" and not self.reached.is_set():
            self.completed += value
            self.marks.append((time.perf_counter() - self.began, self.completed))
            if self.completed >= self.enough:
                self._processor_time = time.process_time() - self._processor_at_start
                self.reached.set()

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Durations are not asked for."""

    @property
    def rate(self) -> float:
        seconds, completed = self.marks[-1]
        return completed / seconds

    @property
    def python_us_per_step(self) -> float:
        """Processor time of this process: less swayed by what else the machine does than the rate is."""
        return self._processor_time / self.completed * 1e6

    def rate_after(self, steps: int) -> float:
        """The rate of what came after so many steps."""
        start = next((mark for mark in self.marks if mark[1] >= steps), (0.0, 0))
        end = self.marks[-1]
        return (end[1] - start[1]) / (end[0] - start[0])


async def work_off(steps: int) -> Progress:
    """Let a worker of default settings complete so many steps, from its start; then stop it."""
    progress = Progress(steps)
    worker = Worker(metrics=progress)
    await worker.start()
    try:
        await _wait_for(progress)
    finally:
        await worker.stop()
    return progress


async def _wait_for(progress: Progress) -> None:
    before = -1
    while not progress.reached.is_set():
        if progress.completed == before:
            raise RuntimeError(
                f"the worker has stalled: {before:,} of {progress.enough:,} steps, and none for {STALLED_AFTER} s"
            )
        before = progress.completed
        with suppress(TimeoutError):
            async with asyncio.timeout(STALLED_AFTER):
                await progress.reached.wait()


async def start_group(workflow: WorkflowDefinition, runs: int) -> int:
    """Start a group of documents' runs; gives its id."""
    new = [operations.NewRun(doc_id=f"sha256-{number:08}") for number in range(runs)]
    return (await operations.create_run_group(workflow, None, new)).group_id


async def status_of(group_id: int) -> RunStatus:
    async with Database.session(read_only=True) as session:
        return (await session.get_one(RunGroup, group_id)).status


async def expect_completed(group_id: int) -> None:
    """A rate counts only if the work was done."""
    status = await status_of(group_id)
    if status is not RunStatus.COMPLETED:
        raise RuntimeError(f"run group {group_id} should be COMPLETED and is {status}")


async def fill_backlog(runs: int) -> int:
    """Make one group of so many one-step runs that are ready; gives its id.

    All but the first are written by SQL, as `create_run_group` would: a million of them in one call would hold them all
    in memory.
    """
    created = await operations.create_run_group(workflows.ONE_STEP, None, [operations.NewRun(doc_id="sha256-0")])
    await copy_runs(created, runs - 1)
    return created.group_id


async def fill_parked(runs: int) -> None:
    """Make one group of so many runs whose step waits for a signal that never comes."""
    created = await operations.create_run_group(workflows.WAITING, None, [operations.NewRun(input={"key": "k"})])
    claim = await operations.claim_steps("benchmark", operations.Pool(), 1)
    step = claim.steps[0]
    parked = Parked(step_id=step.id, run_id=step.run_id, lease=step.lease, awaits="never sent")
    await operations.finish_steps([parked])
    await copy_runs(created, runs - 1)


async def fill_history(steps: int) -> None:
    """Make groups of runs that have ended: as many as have so many steps together."""
    created = await operations.create_run_group(workflows.ONE_STEP, None, [operations.NewRun(doc_id="sha256-0")])
    claim = await operations.claim_steps("benchmark", operations.Pool(), 1)
    step = claim.steps[0]
    await operations.finish_steps([Completed(step_id=step.id, run_id=step.run_id, lease=step.lease)])
    await copy_runs(created, steps - 1, are_open=False)


async def copy_runs(created: Created, copies: int, *, are_open: bool = True) -> None:
    """Add so many copies of a group's first run to the group."""
    facts = {"group_id": created.group_id, "run_id": created.run_ids[0], "copies": copies}
    async with Database.engine().begin() as connection:
        for statement in (_COPY_RUN, _COPY_STEP, _GROW_GROUP if are_open else _GROW_ENDED_GROUP):
            await connection.execute(sa.text(statement), facts)
    await settle()


def _columns(model: Any, *without: str) -> str:
    return ", ".join(column.name for column in model.__table__.columns if column.name not in {"id", *without})


_RUN: Final = _columns(WorkflowRun, "queue_key")
_STEP: Final = _columns(RunStep, "workflow_run_id", "queue_key")
_COPY_RUN: Final = f"""
WITH RECURSIVE copy (place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM copy WHERE place < :copies)
INSERT INTO workflowrun ({_RUN}, queue_key)
SELECT {_RUN}, queue_key + place FROM workflowrun CROSS JOIN copy WHERE id = :run_id
"""
_COPY_STEP: Final = f"""
INSERT INTO runstep ({_STEP}, workflow_run_id, queue_key)
SELECT {", ".join(f"step.{name}" for name in _STEP.split(", "))}, run.id, run.queue_key
  FROM workflowrun run CROSS JOIN runstep step
 WHERE step.workflow_run_id = :run_id AND run.run_group_id = :group_id AND run.id > :run_id
 ORDER BY run.id
"""
_GROW_GROUP: Final = """
UPDATE rungroup SET total_runs = total_runs + :copies, remaining_runs = remaining_runs + :copies WHERE id = :group_id
"""
_GROW_ENDED_GROUP: Final = "UPDATE rungroup SET total_runs = total_runs + :copies WHERE id = :group_id"
