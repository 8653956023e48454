"""`si-cli goal`: a sentence that is taken apart by rules, and executed."""

from __future__ import annotations

from typing import Annotated

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, echo, print_facts, print_json, print_rows

FAILED = 1


async def goal(
    text: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done.")],
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Show the tasks, and do nothing.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it to workers, and do not wait.")] = False,
    timeout: Annotated[  # noqa: ASYNC109  of the goal
        float, typer.Option(metavar="SECONDS", min=1, help="Longest it may take.")
    ] = 3600,
    as_json: AsJson = False,
) -> None:
    """Take a goal apart, and execute its tasks.

    Exit code 1 if it failed, 2 if it is not understood.
    """
    from soliplex.ingester.goals.decomposers import by_rules
    from soliplex.ingester.goals.orchestrator import Orchestrator

    graph = await Orchestrator.decompose_goal(text, by_rules)
    if plan:
        rows = [
            {
                "task": task["id"],
                "kind": task["kind"],
                "after": " ".join(task["depends_on"]),
                "says": task["description"],
            }
            for task in graph["tasks"].values()
        ]
        if as_json:
            print_json(graph)
        else:
            print_rows(rows, {name: name for name in rows[0]}, as_json=False, nothing="no tasks")
        return
    async with open_database():
        if detach:
            run_id = await Orchestrator.start_goal(text, by_rules, timeout=timeout)
            if as_json:
                print_json({"run_id": run_id})
            else:
                echo(f"run {run_id} is started; `si-cli flow status {run_id}` tells how it fares")
            return
        result = await Orchestrator.execute_goal(text, by_rules, timeout=timeout)
    if as_json:
        print_json(result)
    else:
        facts = {"run": result.run_id, "status": result.status, "output": result.output, "error": result.error}
        print_facts({name: value for name, value in facts.items() if value is not None}, as_json=False)
        tasks = [{"task": name, "status": status} for name, status in result.tasks.items()]
        print_rows(tasks, {"task": "task", "status": "status"}, as_json=False, nothing="no tasks")
    if result.status != "completed":
        raise typer.Exit(FAILED)
