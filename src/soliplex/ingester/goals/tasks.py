"""How a task becomes a step of a flow, and the handler that executes it.

A function of a task is given, by the names of its parameters: `task` (id, description, kind, params), what flows give
(`item`, `state`, `answer`, `input`, `context`), the outputs of tasks it depends on by their ids, the goal as `goal`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.rules import ON_DOCUMENTS
from soliplex.ingester.goals.task_graph import GATHER, PlannedTask, TaskGraph
from soliplex.ingester.lib.wf.definitions import ATTEMPTS_IN_JSON, StepDefinition
from soliplex.ingester.lib.wf.flows.calling import arguments_of, called, with_progress
from soliplex.ingester.lib.wf.flows.functions import TOKEN, Function, address_of, imported, keep, kept
from soliplex.ingester.lib.wf.operations.claim import this_process
from soliplex.ingester.lib.wf.progress import progress_of_this_call

EXECUTE: Final = f"{__name__}.execute_task"
SHIPPED: Final = "soliplex.ingester.goals.shipped"
SHIPPED_KINDS: Final = ("ingest", "parse", "segment", "search", "webhook", "http", "shell")
USUAL_TIMEOUT: Final = 300.0
FROM_OUTSIDE: Final = "from_outside"
"""In a task: that a client of the server asked for it."""


@dataclass(frozen=True, slots=True)
class Functions:
    """Which function does a task, by its id or kind: addresses, and the token of those that only this process has."""

    addresses: Mapping[str, str]
    token: str | None = None
    is_from_outside: bool = False
    """Whether a client of the server asked for the goal: then its tasks read files of some folders only."""

    def of(self, task: PlannedTask) -> tuple[str, str | None]:
        """The name under which the function of a task was given, and its address, if any process can import it."""
        for name in (task["id"], task["kind"]):
            if name in self.addresses:
                return name, self.addresses[name] or None
        if task["kind"] == GATHER or task["kind"] in SHIPPED_KINDS:
            return task["kind"], f"{SHIPPED}:{task['kind']}"
        known = ", ".join(sorted({*self.addresses, *SHIPPED_KINDS}))
        raise GoalError("steps", f"have nothing for task {task['id']!r} of kind {task['kind']!r}; known are: {known}")

    def shipped_kind(self, task: PlannedTask) -> str | None:
        """The shipped step that does the task, if one does."""
        module, _, name = (self.of(task)[1] or "").partition(":")
        return name if module == SHIPPED else None


def functions_of(steps: Mapping[str, Function | str] | None, *, is_from_outside: bool = False) -> Functions:
    """The functions that a user gave; a text is an address, or the name of a shipped step."""
    addresses: dict[str, str] = {}
    local: dict[str, Function] = {}
    for name, step in (steps or {}).items():
        if isinstance(step, str):
            addresses[name] = f"{SHIPPED}:{step}" if step in SHIPPED_KINDS else _checked_address(name, step)
        elif callable(step):  # pyright: ignore[reportUnnecessaryComparison]  users may err
            addresses[name] = address_of(step) or ""
            local |= {} if addresses[name] else {name: step}
        else:
            raise GoalError(f"steps[{name!r}]", f"is {step!r}; give a function, or the name of a shipped step")
    return Functions(addresses, keep(local) if local else None, is_from_outside)


def _checked_address(name: str, address: str) -> str:
    module, colon, function = address.partition(":")
    if not colon:
        module, _, function = address.rpartition(".")
    if not module or not function:
        known = ", ".join(SHIPPED_KINDS)
        raise GoalError(f"steps[{name!r}]", f"is {address!r}; give package.module.function, or one of {known}")
    return f"{module}:{function}"


def with_whole_paths(graph: TaskGraph, functions: Functions, folder: str | None) -> TaskGraph:
    """The graph with paths from the root, where they were meant to begin in this folder: workers are in other ones."""
    if folder is None or functions.is_from_outside:
        return graph
    tasks = {
        name: _with_whole_path(task, folder) if functions.shipped_kind(task) in ON_DOCUMENTS else task
        for name, task in graph["tasks"].items()
    }
    return {**graph, "tasks": tasks}


def _with_whole_path(task: PlannedTask, folder: str) -> PlannedTask:
    path = task["params"].get("path")
    if not isinstance(path, str) or not path or "\x00" in path:
        return task  # the shipped step says what is wrong with it
    with suppress(RuntimeError):  # the user whose home it names may not exist: then the shipped step says so
        path = os.path.normpath(Path(folder, Path(path).expanduser()))
    return {**task, "params": {**task["params"], "path": path}}


def step_of(task: PlannedTask, functions: Functions, *, timeout: float) -> StepDefinition:
    """The step that executes a task."""
    name, address = functions.of(task)
    told: dict[str, Any] = {key: task[key] for key in ("id", "description", "kind", "params")}
    if functions.is_from_outside:
        told[FROM_OUTSIDE] = True
    where: dict[str, Any] = {"function": address} if address else {"name": name}
    return StepDefinition(
        key=task["id"],
        name=task["description"][:200],
        method=EXECUTE,
        type="flow" if address else this_process(),
        retries=task["max_attempts"] or ATTEMPTS_IN_JSON,
        timeout=timedelta(seconds=task["timeout"] or timeout),
        depends_on=tuple(task["depends_on"]),
        parameters={"task": told, **where},
    )


async def execute_task(
    input: dict[str, Any],  # noqa: A002  what handlers ask for
    state: Any,
    answer: Any,
    step_def: StepDefinition,
    step_context: dict[str, Any],
) -> Any:
    """Call the function of a task."""
    given: Mapping[str, Any] = step_def.parameters
    address = given.get("function")
    # The token comes with the run, and not with the flow: so one flow is learned from, whoever brings its functions.
    # A run that was started like one of any other flow brings none.
    function = (
        imported(str(address))
        if address is not None
        else kept(input.get(TOKEN), str(given["name"]), step_context["workflow_slug"])
    )
    known = {name: value for name, value in input.items() if name != TOKEN}
    own = {"state": state, "answer": answer, "context": step_context, "input": known, "task": given["task"]}
    at_hand = with_progress(function, {**known, **own}, progress_of_this_call)
    return await called(function, arguments_of(function, step_def.key, at_hand))
