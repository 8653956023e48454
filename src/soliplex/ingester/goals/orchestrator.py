"""`Orchestrator`: takes goals apart, makes flows of them, and executes them. A goal is itself a run:

    goal:   decompose ──▶ execute: stores the flow, starts it as a subflow, and gives what it gave

So whichever worker dies, another goes on: a goal that was taken apart is not taken apart again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

from soliplex.ingester.goals.decomposers import Decomposer, check_goal, decomposed
from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.notifications import Event
from soliplex.ingester.goals.optimizer.flow_changes import Level
from soliplex.ingester.goals.optimizer.optimizer import chosen, flow_to_run
from soliplex.ingester.goals.sql import SQL
from soliplex.ingester.goals.task_graph import TaskGraph, task_graph
from soliplex.ingester.goals.tasks import (
    FROM_OUTSIDE,
    USUAL_TIMEOUT,
    Functions,
    functions_of,
    step_of,
    with_whole_paths,
)
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import INTERNAL, StepDefinition, WorkflowDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.flows import Executor, Run, calling
from soliplex.ingester.lib.wf.flows.functions import TOKEN, Function, address_of, forget, imported, keep, kept, share
from soliplex.ingester.lib.wf.operations.claim import this_process
from soliplex.ingester.lib.wf.runner import CATCH_ALL, Worker, WorkerConfig, at_work
from soliplex.ingester.lib.wf.waiting import Subflow, check_duration
from soliplex.ingester.lib.wiring import current_wiring

WORKFLOW_ID: Final = "goal"
DECOMPOSE: Final = "decompose"
EXECUTE: Final = "execute"
FOLDER: Final = "folder"
"""In the input of a goal's run: where its paths begin that do not begin at the root."""
_HERE: Final = __name__


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """What became of a goal."""

    goal: str
    run_id: int
    status: str
    """started, completed, failed, cancelled."""
    output: Any
    """What the last tasks gave, by their ids."""
    error: str | None
    graph: TaskGraph | None
    """None until the goal was taken apart."""
    flow_slug: str | None
    """The flow of the tasks."""
    flow_run_id: int | None
    """The run whose steps are the tasks."""
    tasks: dict[str, str]
    """How each task stands: pending, started, completed, failed, cancelled."""
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    events: list[Event] | None = None
    """What began and ended, in its order; None where nobody asked for it."""


class Orchestrator:
    """Takes goals apart and executes them."""

    @staticmethod
    async def decompose_goal(
        goal: str,
        decomposer: Decomposer,
        *,
        max_depth: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  of the decomposer
    ) -> TaskGraph:
        """The tasks of a goal. GoalError says what is wrong with what the decomposer gave."""
        settings = current_wiring().settings
        tasks = await decomposed(goal, decomposer, timeout=timeout or settings.orchestrator_timeout_seconds)
        return task_graph(goal, tasks, max_depth=max_depth or settings.orchestrator_max_depth)

    @staticmethod
    def create_workflow(
        graph: TaskGraph, steps: Mapping[str, Function | str] | None = None, *, timeout: float = USUAL_TIMEOUT
    ) -> WorkflowDefinition:
        """The flow of a task graph. `steps` are functions, or names of shipped steps, by ids or kinds of tasks."""
        functions = functions_of(steps)
        flow = flow_of(graph, functions, timeout=timeout)
        if functions.token is not None:
            share(functions.token, flow.id)
        return flow

    @staticmethod
    async def start_goal(
        goal: str,
        decomposer: Decomposer,
        steps: Mapping[str, Function | str] | None = None,
        *,
        key: str | None = None,
        timeout: float = USUAL_TIMEOUT,  # noqa: ASYNC109  of a task
        optimization_level: Level | None = None,
        preserve_structure: bool | None = None,
    ) -> int:
        """Start the run of a goal, and give its id; workers execute it. The same key again: the same run."""
        new = NewGoal(
            goal=goal,
            decomposer=decomposer,
            steps=steps,
            key=key,
            timeout=timeout,
            level=optimization_level,
            preserve_structure=preserve_structure,
        )
        return (await start(new)).run_id

    @staticmethod
    async def execute_goal(
        goal: str,
        decomposer: Decomposer,
        steps: Mapping[str, Function | str] | None = None,
        *,
        key: str | None = None,
        timeout: float = USUAL_TIMEOUT,  # noqa: ASYNC109  of all of it
        max_parallel: int | None = None,
        optimization_level: Level | None = None,
        preserve_structure: bool | None = None,
    ) -> GoalResult:
        """Execute a goal in this process, and tell what became of it. A goal that fails raises nothing.

        Its flow is optimized to this level, or to that of the settings, by what its earlier executions taught.
        """
        new = NewGoal(
            goal=goal,
            decomposer=decomposer,
            steps=steps,
            key=key,
            timeout=timeout,
            level=optimization_level,
            preserve_structure=preserve_structure,
        )
        return await executed(new, timeout=timeout, max_parallel=max_parallel)

    @staticmethod
    async def goal_status(run_id: int) -> GoalResult:
        """How a goal fares."""
        return (await goal_and_flow(run_id))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGoal:
    """A goal to be started, with a decomposer or with its tasks."""

    goal: str
    decomposer: Decomposer | None = None
    tasks: Sequence[Mapping[str, Any]] | None = None
    """What a decomposer gave before: then none is asked."""
    steps: Mapping[str, Function | str] | None = None
    key: str | None = None
    timeout: float = USUAL_TIMEOUT
    """Longest that a task may take."""
    is_from_outside: bool = False
    """Whether a client of the server asks for it."""
    level: Level | None = None
    """The level to which its flow is optimized. None: that of the settings."""
    preserve_structure: bool | None = None
    slots: int | None = None
    """How many of its tasks are executed at once. None: as many as the workers have slots."""

    def optimization(self) -> dict[str, Any]:
        """What was asked for about optimizing, in the form in which the run of the goal stores it."""
        settings = current_wiring().settings
        level, preserves = chosen(self.level, self.preserve_structure)
        is_on = settings.orchestrator_optimization_enabled
        return {"level": level if is_on else None, "preserve_structure": preserves, "slots": self.slots}


@dataclass(frozen=True, slots=True)
class StartedGoal:
    """A goal that was started, and the tokens of functions that this process keeps for it."""

    run_id: int
    tokens: list[str]


async def plan_here(goal: str, decomposer: Decomposer) -> TaskGraph:
    """The tasks of a goal, with paths as they are meant in this process; nothing is started."""
    graph = await Orchestrator.decompose_goal(goal, decomposer)
    return with_whole_paths(graph, functions_of(None), str(Path.cwd()))


async def start(new: NewGoal) -> StartedGoal:
    """Start the run of a goal. GoalError: it is empty, or its tasks are no graph."""
    check_goal(new.goal)
    if check_duration("timeout", new.timeout) <= timedelta(0):
        raise GoalError("timeout", f"is {new.timeout}; give more than 0 seconds")
    functions = functions_of(new.steps, is_from_outside=new.is_from_outside)
    decomposer = new.decomposer
    if new.tasks is not None:
        graph = task_graph(new.goal, new.tasks, max_depth=current_wiring().settings.orchestrator_max_depth)
        flow_of(graph, functions, timeout=new.timeout)
    address = None if decomposer is None else address_of(decomposer) or address_of_shipped(decomposer)
    own = keep({DECOMPOSE: decomposer}) if decomposer is not None and address is None else None
    given = {
        "goal": new.goal,
        "decomposer": address,
        "tasks": new.tasks,
        "steps": dict(functions.addresses),
        TOKEN: functions.token,
        "task_timeout": new.timeout,
        FROM_OUTSIDE: new.is_from_outside,
        FOLDER: None if new.is_from_outside else str(Path.cwd()),
        "optimization": new.optimization(),
    }
    params = {TOKEN: own} if own else None
    # Every goal has a key, for there is an index of those that have one.
    run = operations.NewRun(input=given, key=new.key or uuid4().hex, params=params)
    started = await operations.start_run(goal_workflow(is_local=own is not None), None, run)
    return StartedGoal(started.run_id, [token for token in (own, functions.token) if token])


async def executed(new: NewGoal, *, timeout: float, max_parallel: int | None = None) -> GoalResult:  # noqa: ASYNC109
    """Execute a goal in this process, and tell what became of it."""
    limit = check_duration("timeout", timeout)
    settings = current_wiring().settings
    config = _config(max_parallel)
    started = await start(replace(new, slots=max_parallel))
    try:
        async with at_work(Worker(config), stop_timeout=settings.worker_stop_timeout_seconds):
            with suppress(TimeoutError):
                await Executor.wait(started.run_id, limit)
    finally:
        for token in started.tokens:
            forget(token)
    result = await Orchestrator.goal_status(started.run_id)
    if result.status == "started":
        await Executor.cancel(started.run_id)
        raise TimeoutError(f"the goal was not reached within {timeout:g} s; its run {started.run_id} is cancelled")
    return result


def _config(max_parallel: int | None) -> WorkerConfig:
    if max_parallel is None:
        return WorkerConfig.from_settings(current_wiring().settings, step_patience=0)
    if isinstance(max_parallel, bool) or not isinstance(max_parallel, int) or max_parallel < 1:  # pyright: ignore[reportUnnecessaryIsInstance]  users may err
        raise GoalError("max_parallel", f"is {max_parallel!r}; give a whole number of at least 1")
    return WorkerConfig(consumers={CATCH_ALL: max_parallel}, step_patience=0)


def goal_workflow(*, is_local: bool) -> WorkflowDefinition:
    """The workflow of goals. `is_local`: only this process has the decomposer."""
    settings = current_wiring().settings
    limit = timedelta(seconds=settings.orchestrator_timeout_seconds + 30)
    decompose = StepDefinition(
        key=DECOMPOSE,
        method=f"{_HERE}.decompose_step",
        type=this_process() if is_local else "flow",
        retries=3,
        timeout=limit,
    )
    execute = StepDefinition(
        key=EXECUTE,
        method=calling.CALL,
        type="flow",
        depends_on=(DECOMPOSE,),
        parameters={calling.FUNCTION: f"{_HERE}:execute_step"},
        timeout=timedelta(minutes=5),
    )
    return workflow_from_steps(WORKFLOW_ID, [decompose, execute], name="Goal", meta={INTERNAL: True})


async def decompose_step(input: dict[str, Any], run_params: dict[str, Any]) -> TaskGraph:  # noqa: A002
    """Take the goal of a run apart, and see that every task has a function."""
    settings = current_wiring().settings
    tasks, address = input["tasks"], input["decomposer"]
    if tasks is None:
        decomposer = imported(address) if address else kept(run_params.get(TOKEN, ""), DECOMPOSE)
        graph = await Orchestrator.decompose_goal(input["goal"], decomposer)
    else:
        graph = task_graph(input["goal"], tasks, max_depth=settings.orchestrator_max_depth)
    functions = _functions(input)
    flow_of(graph, functions, timeout=input["task_timeout"])
    return with_whole_paths(graph, functions, input.get(FOLDER))


async def execute_step(input: dict[str, Any], answer: Any, state: Any) -> Any:  # noqa: A002
    """Store the flow of the tasks, run it, and give what it gave."""
    if state is not None:
        return answer
    flow = flow_of(input[DECOMPOSE], _functions(input), timeout=input["task_timeout"])
    wanted = input["optimization"]
    if wanted["level"] is not None:
        preserves = wanted["preserve_structure"]
        flow = await flow_to_run(flow, wanted["level"], preserve_structure=preserves, slots=wanted["slots"])
    await operations.save_workflow(flow)
    token = {} if input[TOKEN] is None else {TOKEN: input[TOKEN]}
    return Subflow(flow.id, {"goal": input["goal"], **token}, state={"flow": flow.id})


def _functions(given: Mapping[str, Any]) -> Functions:
    return Functions(given["steps"], given[TOKEN], is_from_outside=given[FROM_OUTSIDE])


def flow_of(graph: TaskGraph, functions: Functions, *, timeout: float) -> WorkflowDefinition:
    """The flow of a graph. Graphs with the same tasks and parameters are the same flow."""
    steps = [step_of(task, functions, timeout=timeout) for task in graph["tasks"].values()]
    # In the order of their keys, for the tasks of a stored graph may come in another order than they were in.
    facts = sorted([step.key, step.depends_on, step.parameters] for step in steps)
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return workflow_from_steps(f"goal_{digest}", steps, name=graph["goal"][:200], meta={INTERNAL: True})


async def goal_and_flow(run_id: int) -> tuple[GoalResult, WorkflowDefinition | None]:
    """How a goal fares, and the flow of its tasks once it was taken apart."""
    run = await Executor.status(run_id)
    if run.workflow_slug != WORKFLOW_ID:
        raise NotFoundError("goal", run_id)
    by_name = {step.name: step for step in run.steps}
    graph = by_name[DECOMPOSE].output if by_name[DECOMPOSE].status == "completed" else None
    flow = None if graph is None else flow_of(graph, _functions(run.input), timeout=run.input["task_timeout"])
    if graph is not None and flow is not None:
        # A database may give the tasks in another order than they were in.
        graph = cast("TaskGraph", {**graph, "tasks": {step.key: graph["tasks"][step.key] for step in flow.steps}})
    flow_run = None if flow is None else await _flow_run(flow.id, by_name[EXECUTE].id)
    error = run.error if flow_run is None or not flow_run.error else flow_run.error
    result = GoalResult(
        goal=run.input["goal"],
        run_id=run.id,
        status=run.status,
        output=run.output[EXECUTE] if run.status == "completed" else None,
        error=error if run.status in ("failed", "cancelled") else None,
        graph=graph,
        flow_slug=None if flow is None else flow.id,
        flow_run_id=flow_run.id if flow_run else None,
        tasks={step.name: step.status for step in flow_run.steps}
        if flow_run
        else dict.fromkeys(graph["tasks"] if graph else (), "pending"),
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.completed_at or run.failed_at,
    )
    return result, flow


async def _flow_run(slug: str, step_id: int) -> Run | None:
    """The run of the tasks."""
    rows = await Database.read(SQL.run_that_step_started(slug=slug, step_id=step_id))
    return await Executor.status(rows[0]["id"]) if rows else None


def address_of_shipped(decomposer: Callable[..., Any]) -> str | None:
    """The address of a shipped decomposer, found by its name here: being an object, it has no address of its own."""
    from soliplex.ingester.goals import decomposers  # noqa: PLC0415  for this alone

    named = {name: getattr(decomposers, name) for name in decomposers.SHIPPED.values()}
    shipped = next((name for name, each in named.items() if each is decomposer), None)
    return None if shipped is None else f"{decomposers.__name__}:{shipped}"
