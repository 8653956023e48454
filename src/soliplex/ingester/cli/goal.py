"""`si-cli goal`: a sentence that is taken apart, and executed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, echo, print_facts, print_json, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.goals.orchestrator import GoalResult
    from soliplex.ingester.goals.task_graph import TaskGraph

FAILED = 1
LONGEST_OUTPUT = 120
"""Characters that are shown of what a task gave."""


async def goal(
    text: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done.")],
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Show the tasks, and do nothing.")] = False,
    decomposer: Annotated[
        str, typer.Option(metavar="NAME", help="rules, or with a language model llm or hybrid.")
    ] = "rules",
    detach: Annotated[bool, typer.Option("--detach", help="Leave it to workers, and do not wait.")] = False,
    timeout: Annotated[  # noqa: ASYNC109  of the goal
        float, typer.Option(metavar="SECONDS", min=1, help="Longest it may take.")
    ] = 3600,
    as_json: AsJson = False,
) -> None:
    """Take a goal apart, and execute its tasks.

    Exit code 1 if it failed, 2 if it is not understood.
    """
    from soliplex.ingester.goals.decomposers import shipped_decomposer
    from soliplex.ingester.goals.orchestrator import Orchestrator, plan_here

    chosen = shipped_decomposer(decomposer)
    if plan or decomposer == "rules":
        graph = await plan_here(text, chosen)
        _warn(graph)
        if plan:
            _show_plan(graph, as_json=as_json)
            return
    async with open_database():
        if detach:
            _say_started(await Orchestrator.start_goal(text, chosen, timeout=timeout), as_json=as_json)
            return
        result = await Orchestrator.execute_goal(text, chosen, timeout=timeout)
        if as_json:
            print_json(result)
        else:
            await _tell(result)
    if result.status != "completed":
        raise typer.Exit(FAILED)


def _warn(graph: TaskGraph) -> None:
    """Say what will not work here as things are; it may be otherwise when its turn comes, or where a worker is."""
    from soliplex.ingester.lib.config import get_settings

    for task in graph["tasks"].values():
        path = task["params"].get("path")
        if path and not Path(path).exists():
            echo(f"! {task['id']}: {path} does not exist here, as yet", err=True)
        if task["kind"] == "shell" and not get_settings().orchestrator_allow_shell:
            echo(f"! {task['id']}: commands are not run while ORCHESTRATOR_ALLOW_SHELL is off", err=True)


def _show_plan(graph: TaskGraph, *, as_json: bool) -> None:
    if as_json:
        print_json(graph)
        return
    rows = [
        {
            "task": task["id"],
            "kind": task["kind"],
            "after": " ".join(task["depends_on"]),
            "with": _in_words(task["params"]),
            "says": task["description"],
        }
        for task in graph["tasks"].values()
    ]
    print_rows(rows, {name: name for name in rows[0]}, as_json=False, nothing="no tasks")


def _say_started(run_id: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"run_id": run_id})
    else:
        echo(f"run {run_id} is started; `si-cli flow status {run_id}` tells how it fares")


async def _tell(result: GoalResult) -> None:
    from soliplex.ingester.lib.wf.flows import Executor

    facts = {"run": result.run_id, "status": result.status, "error": result.error}
    print_facts({name: value for name, value in facts.items() if value is not None}, as_json=False)
    steps = [] if result.flow_run_id is None else (await Executor.status(result.flow_run_id)).steps
    tasks = [{"task": step.name, "status": step.status, "gave": step.error or _in_words(step.output)} for step in steps]
    print_rows(tasks, {name: name for name in ("task", "status", "gave")}, as_json=False, nothing="no tasks")


def _in_words(value: Any) -> str:
    """A value in a line: of an object its members that are neither empty nor objects."""
    if isinstance(value, dict):
        told = [
            f"{name} {_in_words(each)}" for name, each in value.items() if not isinstance(each, dict) and each != []
        ]
        text = ", ".join(told)
    elif isinstance(value, list):
        text = " ".join(str(each) for each in value if not isinstance(each, dict | list)) or f"{len(value)} of them"
    else:
        text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= LONGEST_OUTPUT else f"{text[:LONGEST_OUTPUT]}…"
