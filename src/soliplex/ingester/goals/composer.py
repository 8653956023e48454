"""`WorkflowComposer`: from a goal to what became of it, in one call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from soliplex.ingester.goals.decomposers import Decomposer, check_goal
from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.notifications import ALL, Event, OrchestratorNotifications, events_of_runs
from soliplex.ingester.goals.optimizer.flow_changes import Level
from soliplex.ingester.goals.orchestrator import GoalResult, NewGoal, executed
from soliplex.ingester.goals.task_graph import TaskGraph, tasks_of
from soliplex.ingester.lib.wf.flows.functions import Function
from soliplex.ingester.lib.wiring import current_wiring

type Steps = Mapping[str, Function | str]

_log = logging.getLogger(__name__)


class WorkflowComposer:
    """Composes flows from goals and executes them in this process.

    `optimization_level` says how far what earlier executions taught is applied; steps and edges stay as they are unless
    `preserve_structure` is False. With `monitoring`, the result tells what began and ended; with
    `real_time_notifications`, that is logged as it happens. `max_parallel` tasks go at once at most, and all of it may
    take `timeout` seconds.
    """

    @staticmethod
    async def compose_from_goal(
        goal: str,
        decomposer: Decomposer,
        steps: Steps | None = None,
        *,
        optimization_level: Level = "basic",
        monitoring: bool = True,
        real_time_notifications: bool = False,
        preserve_structure: bool = True,
        max_parallel: int = 10,
        timeout: float = 300,  # noqa: ASYNC109  of all of it
    ) -> GoalResult:
        """Take a goal apart and execute it."""
        new = NewGoal(
            goal=goal,
            decomposer=decomposer,
            steps=steps,
            timeout=timeout,
            level=optimization_level,
            preserve_structure=preserve_structure,
        )
        return await _composed(new, max_parallel, monitoring=monitoring, at_once=real_time_notifications)

    @staticmethod
    async def compose_from_task_graph(
        graph: TaskGraph,
        steps: Steps | None = None,
        *,
        optimization_level: Level = "basic",
        monitoring: bool = True,
        real_time_notifications: bool = False,
        preserve_structure: bool = True,
        max_parallel: int = 10,
        timeout: float = 300,  # noqa: ASYNC109
    ) -> GoalResult:
        """Execute a graph that was made before."""
        new = NewGoal(
            goal=graph.get("goal") or "a task graph",
            tasks=tasks_of(graph),
            steps=steps,
            timeout=timeout,
            level=optimization_level,
            preserve_structure=preserve_structure,
        )
        return await _composed(new, max_parallel, monitoring=monitoring, at_once=real_time_notifications)

    @staticmethod
    async def compose_multiple_workflows(
        goals: Sequence[str],
        decomposer: Decomposer,
        steps: Steps | None = None,
        *,
        parallel: bool = True,
        optimization_level: Level = "basic",
        monitoring: bool = True,
        real_time_notifications: bool = False,
        preserve_structure: bool = True,
        max_parallel: int = 10,
        timeout: float = 300,  # noqa: ASYNC109  of each goal
    ) -> list[GoalResult]:
        """Execute several goals, side by side or one after the other; gives what became of each, in their order.

        Where one raises an error, such as that its time is over, those beside it are executed to their end all the
        same, and those after it are not begun.
        """
        if isinstance(goals, str) or not goals:
            raise GoalError("goals", f"is {goals!r}; give a list of at least one goal")
        for goal in goals:
            check_goal(goal)

        async def composed(goal: str) -> GoalResult:
            return await WorkflowComposer.compose_from_goal(
                goal,
                decomposer,
                steps,
                optimization_level=optimization_level,
                monitoring=monitoring,
                real_time_notifications=real_time_notifications,
                preserve_structure=preserve_structure,
                max_parallel=max_parallel,
                timeout=timeout,
            )

        if not parallel:
            return [await composed(goal) for goal in goals]
        ended = await asyncio.gather(*map(composed, goals), return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each
        return [each for each in ended if isinstance(each, GoalResult)]


async def _composed(new: NewGoal, max_parallel: int, *, monitoring: bool, at_once: bool) -> GoalResult:
    async with _logged(at_once):
        result = await executed(new, timeout=new.timeout, max_parallel=max_parallel)
    if not monitoring or not current_wiring().settings.orchestrator_notifications_enabled:
        return result
    runs = [run_id for run_id in (result.run_id, result.flow_run_id) if run_id is not None]
    return replace(result, events=await events_of_runs(runs))


@asynccontextmanager
async def _logged(at_once: bool) -> AsyncGenerator[None]:  # noqa: FBT001  whether to log at all
    """Events as they happen, in the log."""
    if not at_once:
        yield
        return
    ref = await OrchestratorNotifications.listen(ALL, _log_event)
    try:
        yield
    finally:
        await OrchestratorNotifications.unlisten(ref)


def _log_event(event: Event) -> None:
    _log.info("%s: run %d, %s", event.kind, event.run_id, event.step or event.workflow_slug)
