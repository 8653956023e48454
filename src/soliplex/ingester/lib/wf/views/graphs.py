"""Graphs: of a workflow as it is defined, and of a run as far as it has come.

Steps are known by their key in both, so that the two can be laid over one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import Database, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of
from soliplex.ingester.lib.models.workflows import NEVER
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.definitions import StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.operations.definitions import load_versions
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.stored import stored
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page
from soliplex.ingester.lib.wf.views.queues import WaitReason
from soliplex.ingester.lib.wf.views.runs import get_run
from soliplex.ingester.lib.wf.views.steps import attempts_begun, current_progress, get_step

FEW_TASKS: Final = 10_000
"""Most tasks of a map step that are counted by status."""


@dataclass(frozen=True, slots=True)
class Edge:
    """That one step waits for another."""

    source: str
    target: str
    """The step that waits."""


@dataclass(frozen=True, slots=True)
class DefinedNode:
    """A step of a workflow."""

    key: str
    name: str
    step_type: str
    method: str
    is_map: bool
    optional: bool
    retries: int
    timeout_seconds: float | None
    when: str | None
    """The condition under which it is not skipped."""
    repeat_until: str | None
    """The condition that ends its loop."""
    max_failures: int | None
    gather: bool


@dataclass(frozen=True, slots=True)
class DefinitionGraph:
    """A workflow: its steps in topological order, and what waits for what."""

    workflow_definition_id: str
    name: str
    nodes: list[DefinedNode]
    edges: list[Edge]


@dataclass(frozen=True, slots=True)
class MapProgress:
    """How far the tasks of a map step are."""

    total: int
    ended: int
    failed: int
    counts: dict[RunStatus, int] | None
    """By status; None where they are too many to be counted."""


@dataclass(frozen=True, slots=True)
class RunNode:
    """A step of a run, and how it fares."""

    step_id: int
    key: str
    number: int
    step_type: str
    status: RunStatus
    message: str | None
    start_date: datetime | None
    completed_date: datetime | None
    duration: float | None
    """Seconds that the step took, or has taken so far if it runs."""
    attempts: int
    """Attempts that have begun since it was last called anew."""
    retries: int
    """How many attempts the step may have."""
    repeats: int
    """How often its handler asked to be called again."""
    optional: bool
    worker_id: str | None
    is_map: bool | None
    """None: nobody here knows its workflow any more."""
    progress: dict[str, Any] | None
    """What its handler reports while it runs: `fraction`, `text`, and when (`at`)."""
    tasks: MapProgress | None
    """How far the tasks of a map step are; None for other steps, and before it has tasks."""
    skipped_by: str | None
    """The condition that was false."""
    waits_for: WaitReason | None
    awaits: str | None
    """The key of the signal that it waits for."""
    waits_until: datetime | None
    resource_key: str | None
    subflow_run_id: int | None
    """The run that it waits for."""


@dataclass(frozen=True, slots=True)
class RunGraph:
    """A run: its steps in their order, without the tasks of map steps, and what waits for what."""

    workflow_run_id: int
    run_group_id: int
    workflow_definition_id: str
    status: RunStatus
    start_date: datetime | None
    completed_date: datetime | None
    duration: float | None
    parent_step_id: int | None
    """The step that waits for this run, if the run is a subflow."""
    parent_run_id: int | None
    nodes: list[RunNode]
    edges: list[Edge]


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A task of a map step, and how it fares."""

    step_id: int
    item_index: int
    status: RunStatus
    message: str | None
    start_date: datetime | None
    completed_date: datetime | None
    duration: float | None
    attempts: int
    retries: int
    worker_id: str | None
    awaits: str | None
    progress: dict[str, Any] | None


def graph_of_definition(workflow: WorkflowDefinition) -> DefinitionGraph:
    edges = [Edge(needed, step.key) for step in workflow.steps for needed in step.depends_on]
    return DefinitionGraph(workflow.id, workflow.name, [_defined(step) for step in workflow.steps], edges)


async def graph_of_run(run_id: int, *, now: datetime | None = None) -> RunGraph:
    """The steps of a run and how they fare. A map step is one node, however many tasks it has."""
    moment = now or utcnow()
    run = await get_run(run_id)
    rows = await Database.read(SQL.nodes_of_run(run_id=run_id, now=moment))
    ids = [row["id"] for row in rows]
    tasks = await _tasks_by_status([row["id"] for row in rows if row["last_item"] is not None and _has_few(row)])
    subflows = {row["parent_step_id"]: row["id"] for row in await Database.read(SQL.subflows_of_steps(ids=ids))}
    defined = await _definitions(run)
    keys = {row["id"]: row["workflow_step_name"] for row in rows}
    edges = await Database.read(SQL.edges_of_steps(ids=ids))
    return RunGraph(
        workflow_run_id=run_id,
        run_group_id=run.run_group_id,
        workflow_definition_id=run.workflow_definition_id,
        status=run.status,
        start_date=run.start_date,
        completed_date=run.completed_date,
        duration=_seconds(run.start_date, run.completed_date or moment),
        parent_step_id=run.parent_step_id,
        parent_run_id=await _run_of(run.parent_step_id),
        nodes=[_node(row, tasks, subflows, defined.get(row["workflow_step_name"]), moment) for row in rows],
        edges=sorted(
            (Edge(keys[edge["depends_on_id"]], keys[edge["step_id"]]) for edge in edges if edge["step_id"] in keys),
            key=lambda edge: (edge.target, edge.source),
        ),
    )


async def tasks_of_step(
    step_id: int, *, status: RunStatus | None = None, paging: Paging = FIRST_PAGE, now: datetime | None = None
) -> Page[TaskNode]:
    """The tasks of a map step by their items; of another step, none."""
    moment = now or utcnow()
    await get_step(step_id)
    is_own = [col(RunStep.parent_step_id) == step_id]
    # The last item tells how many there are, without looking at each.
    total: Any = select(func.coalesce(func.max(RunStep.item_index) + 1, 0))
    if status is not None:
        is_own.append(col(RunStep.status) == status)
        total = select(func.count()).select_from(RunStep)
    names = ("id", "item_index", "status", "status_message", "start_date", "completed_date", "retry", "retries")
    columns: Any = [getattr(RunStep, name) for name in (*names, "worker_id", "awaits", "progress")]
    rows = select(*columns).where(*is_own).order_by(col(RunStep.item_index))
    page = await read_page(paging.within(rows), total.where(*is_own), paging)
    return page.with_items([_task(row, moment) for row in page.items])


def _defined(step: StepDefinition) -> DefinedNode:
    return DefinedNode(
        key=step.key,
        name=step.name,
        step_type=step.type,
        method=step.method,
        is_map=step.map is not False,
        optional=step.optional,
        retries=step.retries,
        timeout_seconds=None if step.timeout is None else step.timeout.total_seconds(),
        when=None if step.when is None else step.when.text,
        repeat_until=None if step.repeat is None else step.repeat.until.text,
        max_failures=step.max_failures,
        gather=step.gather,
    )


async def _definitions(run: WorkflowRun) -> dict[str, StepDefinition]:
    """The steps of a run's workflow by key: of the version it keeps to, or else as it is defined now, if it is."""
    if run.definition_id is None:
        workflow = get_registry().find_workflow(run.workflow_definition_id)
    else:
        await load_versions([run.definition_id])
        workflow = stored().version(run.definition_id)
    return {} if workflow is None else {step.key: step for step in workflow.steps}


def _has_few(row: Row) -> bool:
    return row["last_item"] < FEW_TASKS


async def _tasks_by_status(step_ids: Sequence[int]) -> dict[int, dict[RunStatus, int]]:
    found = {step_id: dict.fromkeys(RunStatus, 0) for step_id in step_ids}
    for row in await Database.read(SQL.count_tasks_by_status(ids=list(step_ids))) if step_ids else ():
        found[row["parent_step_id"]][RunStatus(row["status"])] = row["tasks"]
    return found


async def _run_of(step_id: int | None) -> int | None:
    """The run of a step, as long as there is one."""
    if step_id is None:
        return None
    async with Database.session(read_only=True) as session:
        return (await session.exec(select(RunStep.workflow_run_id).where(RunStep.id == step_id))).first()


def _node(
    row: Row,
    tasks: Mapping[int, dict[RunStatus, int]],
    subflows: Mapping[int, int],
    defined: StepDefinition | None,
    now: datetime,
) -> RunNode:
    status = RunStatus(row["status"])
    start, end = datetime_of(row, "start_date"), datetime_of(row, "completed_date")
    until = datetime_of(row, "available_at")
    return RunNode(
        step_id=row["id"],
        key=row["workflow_step_name"],
        number=row["workflow_step_number"],
        step_type=row["step_type"],
        status=status,
        message=row["status_message"],
        start_date=start,
        completed_date=end,
        duration=_duration(status, start, end, now),
        attempts=0 if row["skipped_by"] else attempts_begun(status, row["retry"]),
        retries=row["retries"],
        repeats=row["repeats"],
        optional=bool(row["optional"]),
        worker_id=row["worker_id"],
        is_map=None if defined is None else defined.map is not False,
        progress=current_progress(json_of(row, "progress"), start),
        tasks=None if row["last_item"] is None else _progress(row, tasks.get(row["id"])),
        skipped_by=row["skipped_by"],
        waits_for=_waits_for(row, status),
        awaits=row["awaits"],
        waits_until=None if until is None or until >= NEVER else until,
        resource_key=row["resource_key"],
        subflow_run_id=subflows.get(row["id"]),
    )


def _waits_for(row: Row, status: RunStatus) -> WaitReason | None:
    if status.is_final or (status is RunStatus.RUNNING and not row["remaining_tasks"]):
        return None
    if row["remaining_tasks"]:
        return WaitReason.TASKS
    if row["remaining_deps"]:
        return WaitReason.STEPS
    if row["available_at"] is not None:
        return WaitReason(row["reason"])
    return WaitReason.RESOURCE if row["is_locked"] else None


def _progress(row: Row, counts: dict[RunStatus, int] | None) -> MapProgress:
    total = row["last_item"] + 1
    if counts is None:
        return MapProgress(total, total - row["remaining_tasks"], row["failed_tasks"], None)
    ended = sum(count for status, count in counts.items() if status.is_final)
    return MapProgress(total, ended, counts[RunStatus.FAILED], counts)


def _task(row: Any, now: datetime) -> TaskNode:
    return TaskNode(
        step_id=row.id,
        item_index=row.item_index,
        status=row.status,
        message=row.status_message,
        start_date=row.start_date,
        completed_date=row.completed_date,
        duration=_duration(row.status, row.start_date, row.completed_date, now),
        attempts=attempts_begun(row.status, row.retry),
        retries=row.retries,
        worker_id=row.worker_id,
        awaits=row.awaits,
        progress=current_progress(row.progress, row.start_date),
    )


def _duration(status: RunStatus, start: datetime | None, end: datetime | None, now: datetime) -> float | None:
    """None for a step that neither runs nor has ended: its last attempt is over, and its next has not begun."""
    return _seconds(start, now if status is RunStatus.RUNNING else end)


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
