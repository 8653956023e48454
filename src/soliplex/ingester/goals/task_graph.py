"""A goal's tasks and what waits for what: checked, and with nested tasks laid flat.

    [{"id": "a", "description": "…"},                              a
     {"id": "b", "description": "…", "depends_on": ["a"],          ├─▶ b__x ─▶ b__y ─▶ b ─▶ c
      "subtasks": [{"id": "x", …}, {"id": "y", "depends_on": ["x"], …}]},
     {"id": "c", "description": "…", "depends_on": ["b"]}]

A task with subtasks is done when they are: it gives what the last of them gave, by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, cast

from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.definitions import ANY_NUMBER, NAMES_OF_A_CALL
from soliplex.ingester.lib.wf.errors import CycleError, DefinitionError
from soliplex.ingester.lib.wf.flows.functions import TOKEN
from soliplex.ingester.lib.wf.reading import LONGEST_DURATION

GATHER: Final = "gather"
"""The kind of a task that has subtasks."""
MOST_TASKS: Final = 5_000
_ID: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN_NAMES: Final = NAMES_OF_A_CALL | {"task", "goal", TOKEN}
_KEYS: Final = frozenset({"id", "description", "depends_on", "subtasks", "kind", "params", "timeout", "max_attempts"})


class PlannedTask(TypedDict):
    """A task of a goal."""

    id: str
    description: str
    depends_on: list[str]
    kind: str
    """What kind of work it is; which function does it is looked up by its id, then by this."""
    params: dict[str, Any]
    timeout: float | None
    max_attempts: int | None
    depth: int
    parent: str | None


class TaskGraph(TypedDict):
    """The tasks of a goal, nested ones laid flat."""

    goal: str
    tasks: dict[str, PlannedTask]
    root_tasks: list[str]
    max_depth: int
    created_at: str


def task_graph(goal: str, tasks: object, *, max_depth: int) -> TaskGraph:
    """The graph of what a decomposer gave. GoalError says what is wrong with it, and where."""
    if isinstance(tasks, Mapping):
        given = cast("Mapping[str, Any]", tasks)
        tasks = list(given["tasks"].values()) if isinstance(given.get("tasks"), Mapping) else given.get("tasks", tasks)
    laid: dict[str, PlannedTask] = {}
    _lay(tasks, "tasks", None, [], 1, laid, max_depth)
    edges = {name: task["depends_on"] for name, task in laid.items()}
    try:
        graph.topological_order(edges)
    except CycleError as exc:
        raise GoalError("tasks", f"go round in a circle: {' → '.join(exc.cycle)}") from exc
    except DefinitionError as exc:
        raise GoalError("tasks", str(exc)) from exc
    return TaskGraph(
        goal=goal,
        tasks=laid,
        root_tasks=[name for name, needed in edges.items() if not needed],
        max_depth=max((task["depth"] for task in laid.values()), default=0),
        created_at=utcnow().isoformat(),
    )


def tasks_of(graph: object) -> list[dict[str, Any]]:
    """The tasks of a graph that was made before, as a decomposer gives them: still laid flat."""
    found = cast("Mapping[str, Any]", graph).get("tasks") if isinstance(graph, Mapping) else None
    if not isinstance(found, Mapping):
        raise GoalError("graph", f"is {_shown(graph)}; give what decompose_goal gave, with its tasks by their ids")
    return [
        {key: value for key, value in _read(task, f"graph.tasks[{name!r}]").items() if value is not None}
        for name, task in cast("Mapping[str, object]", found).items()
    ]


def _lay(
    tasks: object,
    where: str,
    parent: str | None,
    before: list[str],
    depth: int,
    laid: dict[str, PlannedTask],
    deepest: int,
) -> list[str]:
    """Lay out the tasks of one level; gives the ids of those that no other of the level waits for."""
    if isinstance(tasks, str | bytes) or not isinstance(tasks, Sequence):
        raise GoalError(where, f"is {_shown(tasks)}; give a list of tasks, each with an id and a description")
    if not tasks:
        raise GoalError(where, "is empty; a goal needs at least one task")
    if depth > deepest:
        raise GoalError(
            where, f"is nested more than {deepest} deep; say less, or raise ORCHESTRATOR_MAX_DEPTH, or max_depth"
        )
    level = [_read(task, f"{where}[{place}]") for place, task in enumerate(cast("Sequence[object]", tasks))]
    names = {str(task["id"]): _full(parent, str(task["id"])) for task in level}
    if len(names) < len(level):
        ids = [task["id"] for task in level]
        raise GoalError(where, f"have the id {next(each for each in ids if ids.count(each) > 1)!r} twice")
    for place, task in enumerate(level):
        needed = [names.get(each, each) for each in _dependencies(task, f"{where}[{place}]")] or before
        _lay_one(task, f"{where}[{place}]", names[str(task["id"])], parent, needed, depth, laid, deepest)
    waited_for = {each for name in names.values() for each in laid[name]["depends_on"]}
    return [name for name in names.values() if name not in waited_for]


def _lay_one(
    task: Mapping[str, Any],
    where: str,
    name: str,
    parent: str | None,
    needed: Sequence[str],
    depth: int,
    laid: dict[str, PlannedTask],
    deepest: int,
) -> None:
    if name in _OWN_NAMES:
        own = ", ".join(sorted(_OWN_NAMES))
        raise GoalError(
            f"{where}.id", f"is {name!r}, and {own} are what functions are told of their call; choose another"
        )
    if name in laid:
        raise GoalError(where, f"its id {name!r} is that of another task")
    if len(laid) >= MOST_TASKS:
        raise GoalError(where, f"is one of more than {MOST_TASKS} tasks; a decomposer that loops makes such graphs")
    kind = str(task.get("kind") or task["id"])
    laid[name] = PlannedTask(
        id=name,
        description=str(task.get("description") or name),
        depends_on=list(needed),
        kind=kind,
        params=_params(task, where),
        timeout=_number(task, "timeout", where),
        max_attempts=_attempts(task, where),
        depth=depth,
        parent=parent,
    )
    if task.get("subtasks"):
        last = _lay(task["subtasks"], f"{where}.subtasks", name, list(needed), depth + 1, laid, deepest)
        # Behind its subtasks, in the order of the graph and of the listing.
        laid[name] = PlannedTask(**{**laid.pop(name), "depends_on": last, "kind": GATHER})  # pyright: ignore[reportArgumentType]


def _read(task: object, where: str) -> Mapping[str, Any]:
    if not isinstance(task, Mapping):
        raise GoalError(where, f"is {_shown(task)}; give a task: id, description, depends_on, subtasks")
    found = cast("Mapping[str, Any]", task)
    if unknown := found.keys() - _KEYS - {"depth", "parent"}:
        raise GoalError(where, f"has an unknown key {min(unknown)!r}; known are {', '.join(sorted(_KEYS))}")
    name = found.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise GoalError(f"{where}.id", f"is {_shown(name)}; begin with a letter or _, go on with letters, digits or _")
    return found


def _dependencies(task: Mapping[str, Any], where: str) -> list[str]:
    needed = task.get("depends_on") or []
    if not isinstance(needed, list) or not all(isinstance(each, str) for each in cast("list[object]", needed)):
        raise GoalError(f"{where}.depends_on", f"is {_shown(needed)}; give a list of ids of tasks")
    return list(dict.fromkeys(cast("list[str]", needed)))


def _params(task: Mapping[str, Any], where: str) -> dict[str, Any]:
    params = task.get("params") or {}
    if not isinstance(params, dict):
        raise GoalError(f"{where}.params", f"is {_shown(params)}; give an object")
    return cast("dict[str, Any]", params)


def _number(task: Mapping[str, Any], key: str, where: str) -> float | None:
    value = task.get(key)
    if value is None:
        return None
    longest = LONGEST_DURATION.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= longest:
        raise GoalError(f"{where}.{key}", f"is {_shown(value)}; give a number of seconds, up to {longest:.0f}")
    return float(value)


def _attempts(task: Mapping[str, Any], where: str) -> int | None:
    value = task.get("max_attempts")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= ANY_NUMBER):
        raise GoalError(f"{where}.max_attempts", f"is {_shown(value)}; give a whole number from 1 to {ANY_NUMBER}")
    return value


def _full(parent: str | None, name: str) -> str:
    return name if parent is None else f"{parent}__{name}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004  a line
