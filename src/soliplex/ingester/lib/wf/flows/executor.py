"""Starting runs of flows, following them, and executing what is ready in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, override

from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import ANY_NUMBER, StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.flows.classes import Workflow, definition_of_class
from soliplex.ingester.lib.wf.flows.flow import Flow, Seconds, whole_number
from soliplex.ingester.lib.wf.flows.functions import TOKEN, Function, forget, keep
from soliplex.ingester.lib.wf.flows.runs import Run, RunFailed, run_of, status_of
from soliplex.ingester.lib.wf.metrics import LoggingMetrics
from soliplex.ingester.lib.wf.operations.claim import Look, this_process
from soliplex.ingester.lib.wf.operations.definitions import find_workflow
from soliplex.ingester.lib.wf.operations.task_queues import QUEUED, type_of
from soliplex.ingester.lib.wf.runner import CATCH_ALL, Worker, WorkerConfig
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.waiting import check_duration

type Startable = Flow | type[Workflow] | Workflow | WorkflowDefinition | str

FIRST_LOOK: Final = 0.002
LONGEST_PAUSE: Final = 0.1
SLOTS: Final = 10


class Executor:
    """Starts runs and tells of them. Everything here works for runs that other processes have started, too."""

    @staticmethod
    async def start_workflow(
        workflow: Startable,
        input: Any = None,  # noqa: A002  as everywhere
        *,
        key: str | None = None,
        priority: int = 0,
        start_at: datetime | None = None,
        deadline: datetime | None = None,
    ) -> int:
        """Start a run, and give its id. `key` is a name for it: the same key again gives the same run."""
        definition, token = await _definition_of(workflow)
        return await _start(definition, input, token, key=key, priority=priority, start_at=start_at, deadline=deadline)

    @staticmethod
    async def save(workflow: Startable) -> str:
        """Store a flow without starting it, and give its slug, by which subflows, schedules and commands find it."""
        definition, _ = await _definition_of(workflow)
        if not isinstance(workflow, str):
            await operations.save_workflow(definition)
        return definition.id

    @staticmethod
    async def status(run_id: int) -> Run:
        """The run as it is now."""
        return await run_of(run_id)

    @staticmethod
    async def wait(run_id: int, timeout: Seconds | None = None) -> Run:  # noqa: ASYNC109  what users expect
        """The run once it is over. TimeoutError: it was not, within so many seconds."""
        limit = None if timeout is None else check_duration("timeout", timeout).total_seconds()
        pause = FIRST_LOOK
        within = asyncio.timeout(limit)
        try:
            async with within:
                while not (await status_of(run_id)).is_final:
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, LONGEST_PAUSE)
        except TimeoutError as exc:
            if not within.expired():
                raise
            raise TimeoutError(f"run {run_id} is not over after {limit:g} s; it goes on") from exc
        return await run_of(run_id)

    @staticmethod
    async def cancel(run_id: int) -> Run:
        """Stop the run: what waits is cancelled now, what runs is stopped by its worker."""
        await operations.cancel_run(run_id)
        return await run_of(run_id)

    @staticmethod
    async def retry(run_id: int) -> Run:
        """Try again what failed or was cancelled. What has completed is kept."""
        await operations.retry_run(run_id)
        return await run_of(run_id)

    @staticmethod
    async def signal(key: str, payload: Any = None) -> int:
        """Resume the step that waits for the key, or the next one that will."""
        return await operations.send_signal(key, payload)

    @staticmethod
    async def execute_pending_tasks() -> int:
        """Execute in this process what is ready, until nothing is; gives how many steps and tasks were executed."""
        counts = _Counts()
        async with _worker({CATCH_ALL: SLOTS}, counts) as worker:
            while not await _nothing_is_left(worker, counts):  # noqa: ASYNC110  the database is asked
                await asyncio.sleep(FIRST_LOOK)
        return counts.executed

    @staticmethod
    async def execute_dynamic(
        slug: str,
        input: Any = None,  # noqa: A002  as everywhere
        step_functions: Mapping[str, Function] | None = None,
        timeout: Seconds = 300.0,  # noqa: ASYNC109  what users expect
    ) -> dict[str, Any]:
        """Run a flow in this process, with these functions for its steps, and give its output.

        RunFailed says why there is none. Flows that its steps start (`Subflow`) are left to workers.
        """
        functions = dict(step_functions or {})
        flow = await find_workflow(slug)
        _check_functions(flow, functions)
        token = keep(functions)
        limit = check_duration("timeout", timeout)
        local = replace(flow, steps=tuple(_with_function(step, functions) for step in flow.steps))
        try:
            async with _worker(dict.fromkeys({type_of(step) for step in local.steps}, SLOTS)):
                run_id = await _start(local, input, token, deadline=utcnow() + limit)
                run = await Executor.wait(run_id, limit + timedelta(seconds=30))
        finally:
            forget(token)
        if run.status != "completed":
            raise RunFailed(run)
        return run.output


async def _definition_of(workflow: Startable) -> tuple[WorkflowDefinition, str | None]:
    """The workflow, and the token of functions that only this process has."""
    match workflow:
        case Flow():
            return workflow.definition(), workflow.token
        case WorkflowDefinition():
            return workflow, None
        case str():
            return await find_workflow(workflow), None
        case Workflow():
            return definition_of_class(workflow)
        case type() if issubclass(workflow, Workflow):  # pyright: ignore[reportUnnecessaryIsInstance]  users may err
            return definition_of_class(workflow)
        case _:  # pyright: ignore[reportUnnecessaryComparison]  as above
            pass
    problem = f"is {workflow!r}; give a Flow, a class derived from Workflow, a definition or a slug"
    raise InvalidInputError("workflow", problem)


async def _start(
    definition: WorkflowDefinition,
    given: Any,
    token: str | None,
    *,
    key: str | None = None,
    priority: int = 0,
    start_at: datetime | None = None,
    deadline: datetime | None = None,
) -> int:
    whole_number("priority", priority, least=-ANY_NUMBER)
    params = {TOKEN: token} if token is not None else None
    run = operations.NewRun(input={} if given is None else given, key=key, params=params)
    started = await operations.start_run(definition, None, run, priority=priority, start_at=start_at, deadline=deadline)
    return started.run_id


def _check_functions(flow: WorkflowDefinition, functions: Mapping[str, Function]) -> None:
    keys = [step.key for step in flow.steps]
    if unknown := functions.keys() - set(keys):
        raise NotFoundError("step", min(unknown))
    missing = [step.key for step in flow.steps if _needs_function(step) and step.key not in functions]
    if wrong := [name for name, each in functions.items() if not callable(each)]:
        raise InvalidInputError(f"step_functions[{wrong[0]!r}]", f"is {functions[wrong[0]]!r}; give a function")
    if missing:
        raise InvalidInputError("step_functions", f"has no function for {', '.join(missing)}; give one for each step")


def _needs_function(step: StepDefinition) -> bool:
    is_elsewhere = type_of(step) == QUEUED
    return step.method == calling.CALL and calling.FUNCTION not in step.parameters and not is_elsewhere


def _with_function(step: StepDefinition, functions: Mapping[str, Function]) -> StepDefinition:
    if step.key not in functions:
        return step
    return replace(step, method=calling.CALL, parameters={}, type=this_process())


class _Counts(LoggingMetrics):
    """How many steps were claimed and executed."""

    claimed = 0
    executed = 0

    @override
    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        if name == "claim_success":
            self.claimed += value
        if name in ("step_completed", "step_error", "step_failed"):
            self.executed += value
        super().incr(name, value, **labels)


@asynccontextmanager
async def _worker(consumers: Mapping[str, int], metrics: LoggingMetrics | None = None) -> AsyncGenerator[Worker]:
    worker = Worker(WorkerConfig(consumers=consumers), metrics=metrics)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def _nothing_is_left(worker: Worker, counts: _Counts) -> bool:
    """Whether there is nothing that the worker executes, or could execute or deliver now.

    What it claims between two of these looks is held at the second; or it has been executed, and counted, by then.
    """
    before = counts.claimed
    if await _holds(worker) or await can_do_something(worker) or await _holds(worker):
        return False
    return worker.is_idle and counts.claimed == before


async def _holds(worker: Worker) -> bool:
    return bool(await operations.steps_held(worker.id))


async def can_do_something(worker: Worker) -> bool:
    """Asked in the order in which work passes on, event, signal, ready step: what moves meanwhile is met later."""
    due = await operations.next_event_due()
    if (due is not None and due <= utcnow()) or await Database.read(SQL.any_new_signal()):
        return True
    look = Look.at(await Database.read(SQL.look_for_work()))
    kinds: Collection[str] = {*(head["step_type"] for head in look.plain), *look.keyed}
    return any(worker.accepts(kind) for kind in kinds) or look.is_due(utcnow())
