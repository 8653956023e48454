"""`Orchestrator`: takes goals apart, makes flows of them, and executes them. A goal is itself a run:

    goal:   decompose ──▶ execute: stores the flow, starts it as a subflow, and gives what it gave

So whichever worker dies, another goes on: a goal that was taken apart is not taken apart again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from soliplex.ingester.goals.decomposers import Decomposer, decomposed
from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.task_graph import TaskGraph, task_graph
from soliplex.ingester.goals.tasks import USUAL_TIMEOUT, Functions, functions_of, step_of
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import INTERNAL, StepDefinition, WorkflowDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.flows import Executor, Run, calling
from soliplex.ingester.lib.wf.flows.functions import TOKEN, Function, address_of, forget, imported, keep, kept
from soliplex.ingester.lib.wf.operations.claim import THIS_PROCESS
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig, at_work
from soliplex.ingester.lib.wf.waiting import Subflow, check_duration
from soliplex.ingester.lib.wiring import current_wiring

WORKFLOW_ID: Final = "goal"
DECOMPOSE: Final = "decompose"
EXECUTE: Final = "execute"
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
    flow_run_id: int | None
    """The run whose steps are the tasks."""
    tasks: dict[str, str]
    """How each task stands: pending, started, completed, failed, cancelled."""


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
        return flow_of(graph, functions_of(steps), timeout=timeout)

    @staticmethod
    async def start_goal(
        goal: str,
        decomposer: Decomposer,
        steps: Mapping[str, Function | str] | None = None,
        *,
        key: str | None = None,
        timeout: float = USUAL_TIMEOUT,  # noqa: ASYNC109  of a task
    ) -> int:
        """Start the run of a goal, and give its id; workers execute it. The same key again: the same run."""
        return (await _started(goal, decomposer, steps, key=key, timeout=timeout)).run_id

    @staticmethod
    async def execute_goal(
        goal: str,
        decomposer: Decomposer,
        steps: Mapping[str, Function | str] | None = None,
        *,
        key: str | None = None,
        timeout: float = USUAL_TIMEOUT,  # noqa: ASYNC109  of all of it
        max_parallel: int | None = None,
    ) -> GoalResult:
        """Execute a goal in this process, and tell what became of it. A goal that fails raises nothing."""
        limit = check_duration("timeout", timeout)
        settings = current_wiring().settings
        config = (
            WorkerConfig(consumers={"*": max_parallel})
            if max_parallel
            else WorkerConfig.from_settings(settings, step_patience=0)
        )
        started = await _started(goal, decomposer, steps, key=key, timeout=timeout)
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

    @staticmethod
    async def goal_status(run_id: int) -> GoalResult:
        """How a goal fares."""
        run = await Executor.status(run_id)
        if run.workflow_slug != WORKFLOW_ID:
            raise GoalError("run_id", f"{run_id} is a run of {run.workflow_slug!r}, and of no goal")
        return await _result(run)


@dataclass(frozen=True, slots=True)
class _Started:
    run_id: int
    tokens: list[str]


async def _started(
    goal: str,
    decomposer: Decomposer,
    steps: Mapping[str, Function | str] | None,
    *,
    key: str | None,
    timeout: float,  # noqa: ASYNC109  of a task
) -> _Started:
    if not goal.strip():
        raise GoalError("goal", "is empty; say what is to be done")
    functions = functions_of(steps)
    address = address_of(decomposer) or _address_of_value(decomposer)
    own = None if address else keep({DECOMPOSE: decomposer})
    given = {
        "goal": goal,
        "decomposer": address,
        "steps": dict(functions.addresses),
        "steps_token": functions.token,
        "task_timeout": timeout,
    }
    params = {TOKEN: own} if own else None
    run = operations.NewRun(input=given, key=key, params=params)
    started = await operations.start_run(goal_workflow(is_local=own is not None), None, run)
    return _Started(started.run_id, [token for token in (own, functions.token) if token])


def goal_workflow(*, is_local: bool) -> WorkflowDefinition:
    """The workflow of goals. `is_local`: only this process has the decomposer."""
    settings = current_wiring().settings
    limit = timedelta(seconds=settings.orchestrator_timeout_seconds + 30)
    decompose = StepDefinition(
        key=DECOMPOSE,
        method=f"{_HERE}.decompose_step",
        type=THIS_PROCESS if is_local else "flow",
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
    address = input["decomposer"]
    decomposer = imported(address) if address else kept(run_params.get(TOKEN, ""), DECOMPOSE)
    graph = await Orchestrator.decompose_goal(input["goal"], decomposer)
    flow_of(graph, Functions(input["steps"], input["steps_token"]), timeout=input["task_timeout"])
    return graph


async def execute_step(input: dict[str, Any], answer: Any, state: Any) -> Any:  # noqa: A002
    """Store the flow of the tasks, run it, and give what it gave."""
    if state is not None:
        return answer
    functions = Functions(input["steps"], input["steps_token"])
    flow = flow_of(input[DECOMPOSE], functions, timeout=input["task_timeout"])
    await operations.save_workflow(flow)
    return Subflow(flow.id, {"goal": input["goal"]}, state={"flow": flow.id})


def flow_of(graph: TaskGraph, functions: Functions, *, timeout: float) -> WorkflowDefinition:
    """The flow of a graph. Graphs with the same tasks and parameters are the same flow."""
    steps = [step_of(task, functions, timeout=timeout) for task in graph["tasks"].values()]
    facts = [[step.key, step.depends_on, step.parameters] for step in steps]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return workflow_from_steps(f"goal_{digest}", steps, name=graph["goal"][:200], meta={INTERNAL: True})


async def _result(run: Run) -> GoalResult:
    by_name = {step.name: step for step in run.steps}
    graph = by_name[DECOMPOSE].output if by_name[DECOMPOSE].status == "completed" else None
    flow_run = await _flow_run(by_name[EXECUTE].id)
    error = run.error if flow_run is None or not flow_run.error else flow_run.error
    return GoalResult(
        goal=run.input["goal"],
        run_id=run.id,
        status=run.status,
        output=run.output[EXECUTE] if run.status == "completed" else None,
        error=error,
        graph=graph,
        flow_run_id=flow_run.id if flow_run else None,
        tasks={step.name: step.status for step in flow_run.steps}
        if flow_run
        else dict.fromkeys(graph["tasks"] if graph else (), "pending"),
    )


async def _flow_run(step_id: int) -> Run | None:
    """The newest run that the step started."""
    from sqlmodel import col, select  # noqa: PLC0415  heavy, and for this alone

    from soliplex.ingester.lib.models import Database, WorkflowRun  # noqa: PLC0415  as above

    query = select(WorkflowRun.id).where(WorkflowRun.parent_step_id == step_id)
    async with Database.session(read_only=True) as session:
        found = (await session.exec(query.order_by(col(WorkflowRun.id).desc()).limit(1))).first()
    return None if found is None else await Executor.status(found)


def _address_of_value(value: Callable[..., Any]) -> str | None:
    """The address of the shipped decomposer: an object, and no function."""
    from soliplex.ingester.goals import decomposers  # noqa: PLC0415  for this alone

    return f"{decomposers.__name__}:by_rules" if value is decomposers.by_rules else None
