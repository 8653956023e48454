"""Creating runs: a whole group in one transaction with a handful of statements, whatever its size.

Each run gets a queue key in virtual time: the key of the work that is under way, plus its place in its group. Steps are
claimed in the order of keys, so a small group that starts late goes beside a large one and not behind it, at no cost
per claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from asyncpg.exceptions import UniqueViolationError

from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json, to_json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.storable import as_storable_json, checked_key
from soliplex.ingester.lib.wf.definitions import ParameterSet, StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.operations.belonging import groups_began
from soliplex.ingester.lib.wf.operations.definitions import pin
from soliplex.ingester.lib.wf.operations.payloads import refuse_references, set_inputs
from soliplex.ingester.lib.wf.operations.task_queues import type_of
from soliplex.ingester.lib.wf.references import is_large
from soliplex.ingester.lib.wf.registry import CumulativeConfig, cumulative_configs
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL, work_is_ready

RUN_KEY_INDEX: Final = "ix_workflowrun_run_key"
LONGEST_NOTICE: Final = 1_900
"""Characters of a notification, of which PostgreSQL takes at most 8,000 bytes."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """What one run is about: a document, or an input of its own."""

    doc_id: str | None = None
    params: Mapping[str, Any] | None = None
    input: Any = None
    key: str | None = None
    """A name for the run: the workflow has no other run with it."""
    parent_step_id: int | None = None
    """The step of another run that waits for the end of this one."""

    def large_input(self) -> str | None:
        """The input as JSON, if it is too large for the run's row."""
        text = None if self.input is None else as_storable_json("input", self.input)
        if text is not None:
            refuse_references("input", text)
        return text if text is not None and is_large(text) else None

    def packed(self, *, with_input: bool = True) -> dict[str, Any]:
        facts = {
            "doc_id": self.doc_id,
            "params": dict(self.params) if self.params else None,
            "input": self.input if with_input else None,
            "key": self.key,
            "parent_step_id": self.parent_step_id,
        }
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Created:
    """The group and its new runs."""

    group_id: int
    run_ids: list[int]


async def create_run_group(
    workflow: WorkflowDefinition,
    params: ParameterSet | None,
    runs: Sequence[NewRun],
    *,
    name: str | None = None,
    batch_id: int | None = None,
    priority: int = 0,
    resource_keys: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> Created:
    """Start a group with these runs. `resource_keys` gives steps, by key, the resource each needs to itself."""
    start = await _pinned(workflow, params, batch_id, priority, resource_keys, now)
    created = await Database.transact(_insert_group(start, name, runs))
    work_is_ready()
    return created


async def create_runs(
    group_id: int,
    workflow: WorkflowDefinition,
    params: ParameterSet | None,
    runs: Sequence[NewRun],
    *,
    batch_id: int | None = None,
    priority: int = 0,
    resource_keys: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> Created:
    """Add runs to a group."""
    start = await _pinned(workflow, params, batch_id, priority, resource_keys, now)

    def script() -> Script[Created]:
        yield from hold_group(group_id)
        run_ids = yield from add_runs(start, group_id, runs)
        return Created(group_id, run_ids)

    created = await Database.transact(script())
    work_is_ready()
    return created


async def _pinned(
    workflow: WorkflowDefinition,
    params: ParameterSet | None,
    batch_id: int | None,
    priority: int,
    resource_keys: Mapping[str, str] | None,
    now: datetime | None,
) -> Start:
    return Start(
        workflow=workflow,
        params=params,
        batch_id=batch_id,
        priority=priority,
        resource_keys=resource_keys or {},
        now=now or utcnow(),
        definition_id=await pin(workflow),
    )


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was asked for."""

    run_id: int
    group_id: int
    is_new: bool
    """Whether it was started now: a run with the same key may have been there."""


async def start_run(
    workflow: WorkflowDefinition,
    params: ParameterSet | None = None,
    run: NewRun | None = None,
    *,
    name: str | None = None,
    priority: int = 0,
    start_at: datetime | None = None,
    deadline: datetime | None = None,
    resource_keys: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> StartedRun:
    """Start one run, in a group of its own. If the workflow has a run with the same key, that one is given instead."""
    new = run or NewRun()
    moment = now or utcnow()
    _check_times(start_at, deadline, moment)
    if new.key is not None:
        checked_key(new.key)
    start = Start(
        workflow=workflow,
        params=params,
        priority=priority,
        resource_keys=resource_keys or {},
        now=moment,
        start_at=start_at,
        deadline=deadline,
        definition_id=await pin(workflow),
    )
    try:
        started = await Database.transact(start_one(start, name, new))
    except UniqueViolationError as exc:
        if exc.constraint_name != RUN_KEY_INDEX:
            raise
        # Another process started it between the look and the insertion, and has committed.
        started = await Database.transact(start_one(start, name, new))
    if started.is_new:
        work_is_ready()
    return started


def _check_times(start_at: datetime | None, deadline: datetime | None, now: datetime) -> None:
    for name, moment in (("start_at", start_at), ("deadline", deadline)):
        if moment is not None and moment.tzinfo is None:
            raise InvalidInputError(name, f"is {moment}, without a time zone; give one, such as UTC")
    if deadline is not None and deadline <= (start_at or now):
        raise InvalidInputError("deadline", f"is {deadline}, before the run can begin; give a later moment")


def start_one(start: Start, name: str | None, run: NewRun) -> Script[StartedRun]:
    """Insert one run, in a group of its own, unless the workflow has a run with its key."""
    if run.key is not None:
        found = yield SQL.run_by_key(workflow_id=start.workflow.id, run_key=run.key)
        if found:
            return StartedRun(found[0]["id"], found[0]["run_group_id"], is_new=False)
    created = yield from _insert_group(start, name, [run])
    return StartedRun(created.run_ids[0], created.group_id, is_new=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is to be run, when and how urgently."""

    workflow: WorkflowDefinition
    params: ParameterSet | None
    batch_id: int | None = None
    priority: int = 0
    resource_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    now: datetime
    definition_id: int | None
    """The stored version that the runs are pinned to, as `pin` gives it."""
    start_at: datetime | None = None
    """Before this moment no step begins."""
    deadline: datetime | None = None
    """At this moment a run that has not ended fails."""

    @property
    def param_id(self) -> str:
        return self.params.id if self.params is not None else ""


def new_group(start: Start, name: str | None, *, runs: int = 0) -> Script[int]:
    """Insert a group without runs; `runs` of them are to follow in the same transaction."""
    rows = yield SQL.insert_group(
        name=name,
        workflow_id=start.workflow.id,
        param_id=start.param_id,
        batch_id=start.batch_id,
        runs=runs,
        now=start.now,
    )
    return rows[0]["id"]


def hold_group(group_id: int) -> Script[None]:
    """Keep the group from ending, or from being cancelled or deleted, until the transaction is over."""
    rows = yield SQL.lock_group(group_id=group_id)
    if not rows:
        raise NotFoundError("run group", group_id)
    if rows[0]["delete_requested_at"] is not None:
        raise ConflictError(f"run group {group_id} is being deleted: start a new one")
    if rows[0]["cancel_requested_at"] is not None:
        raise ConflictError(f"run group {group_id} was cancelled: start a new one, or retry it first")


def add_runs(start: Start, group_id: int, runs: Sequence[NewRun]) -> Script[list[int]]:
    """Insert runs into a group that exists and is held."""
    if runs:
        rows = yield SQL.grow_group(group_id=group_id, runs=len(runs), now=start.now)
        if rows[0]["remaining_runs"] == len(runs):
            yield from groups_began([start.batch_id])
    return (yield from _insert_runs(start, group_id, runs, [run.large_input() for run in runs]))


def _insert_group(start: Start, name: str | None, runs: Sequence[NewRun]) -> Script[Created]:
    if runs:
        yield from groups_began([start.batch_id])
    large = [run.large_input() for run in runs]
    if runs and not any(large) and Database.is_postgres():
        facts = yield from _facts(start, runs, large)
        group = {"name": name, "param_id": start.param_id, "total": len(runs)}
        rows = yield SQL.postgres.insert_group_with_runs(**group, **facts).last()
        return Created(rows[0]["run_group_id"], sorted(row["id"] for row in rows))
    group_id = yield from new_group(start, name, runs=len(runs))
    return Created(group_id, (yield from _insert_runs(start, group_id, runs, large)))


def _insert_runs(start: Start, group_id: int, runs: Sequence[NewRun], large: Sequence[str | None]) -> Script[list[int]]:
    if not runs:
        return []
    run_ids = yield from _insert_rows(start, group_id, (yield from _facts(start, runs, large)))
    if any(large):
        yield from set_inputs(run_ids, large, start.now)
    return run_ids


def _insert_rows(start: Start, group_id: int, facts: Mapping[str, Any]) -> Script[list[int]]:
    if Database.is_postgres():
        rows = yield SQL.postgres.insert_runs_with_steps(group_id=group_id, **facts)
        return sorted(row["id"] for row in rows)
    rows = yield SQL.sqlite.insert_runs(group_id=group_id, **facts)
    run_ids = sorted(row["id"] for row in rows)
    new_runs: dict[str, Any] = {"group_id": group_id, "first_id": run_ids[0]}
    yield SQL.sqlite.insert_steps(**new_runs, templates=facts["templates"], start_at=start.start_at, now=start.now)
    if start.workflow.steps[1:]:
        yield SQL.sqlite.insert_edges(**new_runs, edges=facts["edges"])
    return run_ids


def _facts(start: Start, runs: Sequence[NewRun], large: Sequence[str | None]) -> Script[dict[str, Any]]:
    """What is to be inserted."""
    config_ids = yield from _step_configs(start)
    return {
        "workflow_id": start.workflow.id,
        "batch_id": start.batch_id,
        "priority": start.priority,
        "now": start.now,
        "runs": Json([run.packed(with_input=text is None) for run, text in zip(runs, large, strict=True)]),
        "steps": len(start.workflow.steps),
        "templates": Json(_templates(start, config_ids)),
        "edges": Json(_edges(start.workflow)),
        "start_at": start.start_at,
        "deadline": start.deadline,
        "definition_id": start.definition_id,
        "channel": WORK_CHANNEL,
        "ready_types": _ready_types(start.workflow),
    }


def _ready_types(workflow: WorkflowDefinition) -> str:
    """The types of the steps that wait for nothing, as workers are told; nothing, where that would be too long."""
    told = to_json(sorted({type_of(step) for step in workflow.steps if not step.depends_on}))
    return told if len(told) < LONGEST_NOTICE else ""


def _templates(start: Start, config_ids: Mapping[str, int]) -> list[dict[str, Any]]:
    leaves = {step.key for step in start.workflow.leaf_steps}
    return [
        {
            "number": number,
            "name": step.key,
            "type": type_of(step),
            "config_id": config_ids[step.key],
            "is_last": step.key in leaves,
            "retries": step.retries,
            "resource_key": start.resource_keys.get(step.key) or None,
            "deps": len(step.depends_on),
            "timeout": step.timeout.total_seconds() if step.timeout else None,
            "isolation": step.isolation,
            "optional": step.optional,
            "max_failures": step.max_failures,
            "gather": step.gather,
            "priority": step.priority,
        }
        for number, step in enumerate(start.workflow.steps, start=1)
    ]


def _edges(workflow: WorkflowDefinition) -> list[tuple[int, int]]:
    numbers = {step.key: number for number, step in enumerate(workflow.steps, start=1)}
    return [(numbers[before], numbers[step.key]) for step in workflow.steps for before in step.depends_on]


def _step_configs(start: Start) -> Script[dict[str, int]]:
    """The ids of the steps' configurations, each stored once, and the record of the parameter set that led to them."""
    cumulative = cumulative_configs(start.workflow, start.params)
    ids: dict[str, int] = {}
    # In the same order whatever the workflow: two that store the same ones at once must not wait for one another.
    for step in sorted(start.workflow.steps, key=lambda step: (step.type, cumulative[step.key].cumulative_json)):
        ids[step.key] = yield from _step_config(step, cumulative[step.key], start.now)
    if start.params is not None:
        yield from _config_set(start.params, sorted(set(ids.values())), start.now)
    return ids


_known: Final[dict[tuple[Any, ...], Any]] = {}
"""What was found in the database and never changes there: step configurations, and parameter sets that are complete."""
_MOST_KNOWN: Final = 10_000


def _remember(key: tuple[Any, ...], value: Any) -> None:
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    _known[key] = value


def _step_config(step: StepDefinition, cumulative: CumulativeConfig, now: datetime) -> Script[int]:
    key = {"step_type": step.type, "hash": _sha256(cumulative.cumulative_json)}
    remembered = (Database.identity(), "step", *key.values())
    if remembered in _known:
        return _known[remembered]
    found = yield SQL.find_step_config(**key)
    if found:
        # A row that was found is committed; a row that is inserted below may still be rolled back.
        _remember(remembered, found[0]["id"])
    else:
        config = Json(cumulative.config)
        found = yield SQL.insert_step_config(**key, config=config, cumulative=cumulative.cumulative_json, now=now)
    if not found:  # another process stored it in the meantime
        found = yield SQL.find_step_config(**key)
    return found[0]["id"]


def _config_set(params: ParameterSet, config_ids: list[int], now: datetime) -> Script[None]:
    key = {"yaml_id": params.id, "hash": _sha256(params.text)}
    remembered = (Database.identity(), "set", *key.values(), *config_ids)
    if remembered in _known:
        return
    found = yield SQL.find_config_set(**key)
    if not found:
        found = yield SQL.insert_config_set(**key, contents=params.text, now=now)
    if not found:
        found = yield SQL.find_config_set(**key)
    set_id = found[0]["id"]
    there = {row["config_id"] for row in (yield SQL.items_of_config_set(config_set_id=set_id))}
    for config_id in config_ids:
        if config_id not in there:
            yield SQL.insert_config_set_item(config_set_id=set_id, config_id=config_id)
    if there.issuperset(config_ids):
        _remember(remembered, set_id)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
