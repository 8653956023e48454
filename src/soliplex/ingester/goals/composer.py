"""`WorkflowComposer`: from a goal to what became of it, in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from soliplex.ingester.goals.decomposers import Decomposer
from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.orchestrator import GoalResult, NewGoal, Orchestrator, executed
from soliplex.ingester.goals.task_graph import TaskGraph, tasks_of
from soliplex.ingester.lib.wf.flows.functions import Function

type Steps = Mapping[str, Function | str]


class WorkflowComposer:
    """Composes flows from goals and executes them in this process."""

    @staticmethod
    async def compose_from_goal(
        goal: str,
        decomposer: Decomposer,
        steps: Steps | None = None,
        *,
        max_parallel: int = 10,
        timeout: float = 300,  # noqa: ASYNC109  of all of it
    ) -> GoalResult:
        """Take a goal apart and execute it, with so many tasks at once at most."""
        return await Orchestrator.execute_goal(goal, decomposer, steps, timeout=timeout, max_parallel=max_parallel)

    @staticmethod
    async def compose_from_task_graph(
        graph: TaskGraph,
        steps: Steps | None = None,
        *,
        max_parallel: int = 10,
        timeout: float = 300,  # noqa: ASYNC109
    ) -> GoalResult:
        """Execute a graph that was made before."""
        new = NewGoal(goal=graph.get("goal") or "a task graph", tasks=tasks_of(graph), steps=steps, timeout=timeout)
        return await executed(new, timeout=timeout, max_parallel=max_parallel)

    @staticmethod
    async def compose_multiple_workflows(
        goals: Sequence[str],
        decomposer: Decomposer,
        steps: Steps | None = None,
        *,
        parallel: bool = True,
        max_parallel: int = 10,
        timeout: float = 300,  # noqa: ASYNC109  of each goal
    ) -> list[GoalResult]:
        """Execute several goals, side by side or one after the other; gives what became of each, in their order."""
        if not goals:
            raise GoalError("goals", "are none; give at least one")
        works = [
            WorkflowComposer.compose_from_goal(goal, decomposer, steps, max_parallel=max_parallel, timeout=timeout)
            for goal in goals
        ]
        return list(await asyncio.gather(*works)) if parallel else [await work for work in works]
