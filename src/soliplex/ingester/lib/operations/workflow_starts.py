"""Starting workflows for documents: for a whole batch in one transaction, or for one document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, RunGroup, RunStep, WorkflowRun, WorkflowStepType
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.transactions import Rows, Script
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.step_parameters import check_step_parameters
from soliplex.ingester.lib.rag import checked_rag_path, rag_resource_key
from soliplex.ingester.lib.storable import LARGEST_INTEGER, checked_integer, unstorable_in
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition
from soliplex.ingester.lib.wf.operations.definitions import chosen_definitions, pin
from soliplex.ingester.lib.wf.operations.groups import end_without_runs
from soliplex.ingester.lib.wf.operations.runs import NewRun, Start, add_runs, hold_group, new_group
from soliplex.ingester.lib.wf.registry import effective_parameters
from soliplex.ingester.lib.wf.views import get_run_group, get_run_with_steps
from soliplex.ingester.lib.wf.wakeup import work_is_ready


@dataclass(frozen=True, slots=True)
class Started:
    """The group that was started or joined, and its new runs."""

    run_group: RunGroup
    run_ids: list[int]


async def start_workflows(
    batch_id: int,
    *,
    workflow_id: str | None = None,
    param_id: str | None = None,
    priority: int = 0,
    only_unparsed: bool = False,
    now: datetime | None = None,
) -> Started:
    """Start a run for each document of a batch.

    With `only_unparsed`, the batch's newest group of the same workflow and parameters is taken up again, and only
    documents without a run in it get one.
    """
    start = await plan_start(workflow_id, param_id, batch_id=batch_id, priority=priority, now=now)

    def script() -> Script[tuple[int, list[int]]]:
        name, source = yield from _hold_batch(batch_id)
        group_id = (yield from _newest_group(start)) if only_unparsed else None
        if group_id is None:
            group_id = yield from new_group(start, name)
            rows = yield SQL.batch_documents(batch_id=batch_id)
        else:
            yield from hold_group(group_id)
            rows = yield SQL.batch_documents_without_run(batch_id=batch_id, group_id=group_id)
        if not rows:
            yield from end_without_runs(group_id, start.now)
        return group_id, (yield from _add_documents(start, group_id, source, rows))

    group_id, run_ids = await Database.transact(script())
    work_is_ready()
    return Started(await get_run_group(group_id), run_ids)


async def start_document_workflow(
    doc_hash: str,
    *,
    workflow_id: str | None = None,
    param_id: str | None = None,
    priority: int = 0,
    now: datetime | None = None,
) -> tuple[WorkflowRun, Sequence[RunStep]]:
    """Start one run, in a group of its own, for a document that is stored already."""
    start = await plan_start(workflow_id, param_id, batch_id=None, priority=priority, now=now)

    def script() -> Script[int]:
        if unstorable_in(doc_hash) or not (yield SQL.lock_document(hash=doc_hash)):
            raise NotFoundError("document", doc_hash)
        place = yield from newest_place(doc_hash)
        _, run_id = yield from start_run(replace(start, batch_id=place.batch_id), doc_hash, place.source)
        return run_id

    run_id = await Database.transact(script())
    work_is_ready()
    created = await get_run_with_steps(run_id)
    return created.run, created.steps


def _add_documents(start: Start, group_id: int, source: str, rows: Rows) -> Script[list[int]]:
    """A run for each document, as urgent as its uploader said; where nothing was said, as the start says."""
    urgent: defaultdict[int, list[NewRun]] = defaultdict(list)
    params = run_params(start, source)
    for row in rows:
        urgent[_priority_of(row["priority"], start.priority)].append(NewRun(doc_id=row["doc_hash"], params=params))
    run_ids: list[int] = []
    for priority, runs in sorted(urgent.items(), reverse=True):
        run_ids += yield from add_runs(replace(start, priority=priority), group_id, runs)
    return run_ids


def _priority_of(told: Any, otherwise: int) -> int:
    """What the metadata of a document say, if it is a priority: clients may have written anything there."""
    digits = str(told).removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(LARGEST_INTEGER))
    return int(told) if is_number and abs(int(told)) <= LARGEST_INTEGER else otherwise


def start_run(start: Start, doc_hash: str, source: str | None) -> Script[tuple[int, int]]:
    """Start one run in a group of its own, as part of a transaction that holds the document; gives both ids."""
    group_id = yield from new_group(start, None)
    run_ids = yield from add_runs(start, group_id, [NewRun(doc_id=doc_hash, params=run_params(start, source))])
    return group_id, run_ids[0]


def run_params(start: Start, source: str | None, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a run says of itself to clients and handlers, in the words of the field."""
    told = {"param_id": start.param_id, "workflow_id": start.workflow.id, "source": source}
    return {name: value for name, value in told.items() if value is not None} | dict(more or {})


@dataclass(frozen=True, slots=True)
class NewestPlace:
    """The batch and the source of the URI that a document got last; both None for one that lives nowhere."""

    batch_id: int | None = None
    source: str | None = None


def newest_place(doc_hash: str) -> Script[NewestPlace]:
    rows = yield SQL.newest_place_of_document(hash=doc_hash)
    return NewestPlace(rows[0]["batch_id"], rows[0]["source"]) if rows else NewestPlace()


async def plan_start(
    workflow_id: str | None, param_id: str | None, *, batch_id: int | None, priority: int, now: datetime | None
) -> Start:
    """What is to be run, by definitions that are known; what is None is the default of the settings."""
    workflow, params = await chosen_definitions(workflow_id, param_id)
    check_step_parameters(workflow, params)
    return Start(
        workflow=workflow,
        params=params,
        batch_id=batch_id,
        priority=checked_integer("priority", priority),
        resource_keys=resource_keys(workflow, params),
        now=now or utcnow(),
        definition_id=await pin(workflow),
    )


def check_target(params: ParameterSet) -> None:
    """Refuse a parameter set that names a RAG database by a name that no database can have."""
    data_dir = params.config.get(WorkflowStepType.STORE, {}).get("data_dir")
    if data_dir is not None:
        checked_rag_path(str(data_dir), f"{WorkflowStepType.STORE}.data_dir")


def resource_keys(workflow: WorkflowDefinition, params: ParameterSet) -> dict[str, str]:
    """What the store steps need to themselves: the RAG database that the parameters name, where they name one."""
    keys: dict[str, str] = {}
    for step in workflow.steps:
        data_dir = effective_parameters(step, params).get("data_dir")
        if step.type == WorkflowStepType.STORE and data_dir:
            keys[step.key] = rag_resource_key(checked_rag_path(str(data_dir), f"{step.key}.data_dir"))
    return keys


def _hold_batch(batch_id: int) -> Script[tuple[str, str]]:
    """Keep the batch's documents from being deleted until the transaction is over; gives its name and its source."""
    if not 0 < batch_id <= LARGEST_INTEGER:
        raise NotFoundError("batch", batch_id)
    yield SQL.hold_batch(batch_id=batch_id)
    rows = yield SQL.find_batch(batch_id=batch_id)
    if not rows:
        raise NotFoundError("batch", batch_id)
    return rows[0]["name"], rows[0]["source"]


def _newest_group(start: Start) -> Script[int | None]:
    rows = yield SQL.newest_group(batch_id=start.batch_id, workflow_id=start.workflow.id, param_id=start.param_id)
    return rows[0]["id"] if rows else None
