"""Decomposers: any function from a goal to a list of tasks, plain or async; and those that are shipped."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.rules import RuleDecomposer
from soliplex.ingester.lib.llm import Asks, UnusableAnswerError, open_chat
from soliplex.ingester.lib.wiring import current_wiring

type Decomposer = Callable[[str], Any] | Callable[[str], Awaitable[Any]]

_SYSTEM: Final = (
    "You break a goal into tasks for a workflow. Each task has an id (letters, digits, _), a description, the ids of "
    "the tasks it depends on, a kind and params. Use as few tasks as will do, and no circle of dependencies."
)

SHIPPED_SAYINGS: Final = (
    "ingest (params: path, include), parse (path, include), segment (path, include), search (text, limit), "
    "webhook (url), http (url, method, body), shell (command). Include is a pattern such as *.pdf. Use no other kinds"
)
"""What a model is told of the shipped steps."""


class _AnsweredTask(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    description: str
    depends_on: list[str] = Field(default_factory=list)
    kind: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    subtasks: list[_AnsweredTask] = Field(default_factory=list["_AnsweredTask"])


class _AnsweredTasks(BaseModel):
    """What a language model answers."""

    model_config = ConfigDict(extra="forbid")

    tasks: list[_AnsweredTask]


class LlmDecomposer:
    """Asks the language model of the settings. An answer that is no list of tasks is refused, after one repair."""

    def __init__(self, chat: Asks | None = None, *, kinds: str = "", timeout: float | None = None) -> None:
        self._chat = chat
        self._kinds = kinds
        self._timeout = timeout

    async def __call__(self, goal: str) -> list[dict[str, Any]]:
        """The tasks of the goal, as the model sees them."""
        settings = current_wiring().settings
        chat = self._chat or open_chat(settings)
        if chat is None:
            raise no_model()
        system = f"{_SYSTEM} Kinds of tasks: {self._kinds}." if self._kinds else _SYSTEM
        seconds = self._timeout or settings.orchestrator_timeout_seconds
        try:
            answer = await chat.ask_for(
                use="goals", system=system, user=goal, timeout=timedelta(seconds=seconds), answer=_AnsweredTasks
            )
        except UnusableAnswerError as exc:
            raise GoalError("goal", f"the language model answered with no list of tasks: {exc.problem}") from exc
        return [_told(task) for task in answer.tasks]


class HybridDecomposer:
    """What the rules know, or a goal that was seen before, without the model; the model for the rest."""

    def __init__(self, llm: Decomposer | None = None, rules: RuleDecomposer | None = None) -> None:
        self._llm = llm or LlmDecomposer()
        self._rules = rules or RuleDecomposer()
        self._seen: dict[str, str] = {}

    async def __call__(self, goal: str) -> Any:
        """The tasks of the goal."""
        key = " ".join(goal.lower().split())
        if key in self._seen:
            return json.loads(self._seen[key])
        try:
            return self._rules(goal)
        except GoalError:
            tasks = await _asked(self._llm, goal)
        self._seen[key] = json.dumps(tasks)
        return tasks


async def decomposed(goal: str, decomposer: Decomposer, *, timeout: float) -> Any:  # noqa: ASYNC109  of the decomposer
    """What the decomposer makes of the goal, within the time."""
    if not isinstance(goal, str) or not goal.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  users may err
        raise GoalError("goal", "is empty; say what is to be done")
    try:
        async with asyncio.timeout(timeout):
            return await _asked(decomposer, goal)
    except TimeoutError as exc:
        raise GoalError(
            "decomposer", f"gave nothing within {timeout:g} s; it may loop; see ORCHESTRATOR_TIMEOUT_SECONDS"
        ) from exc


async def _asked(decomposer: Any, goal: str) -> Any:
    """The answer of a plain function, called in a thread, or of an async one."""
    if _is_async(decomposer):
        return await decomposer(goal)
    found = await asyncio.to_thread(decomposer, goal)
    return await found if asyncio.iscoroutine(found) else found


def _is_async(decomposer: Any) -> bool:
    return inspect.iscoroutinefunction(decomposer) or inspect.iscoroutinefunction(
        getattr(decomposer, "__call__", None)  # noqa: B004  whether it is async, not whether it is there
    )


def _told(task: _AnsweredTask) -> dict[str, Any]:
    told: dict[str, Any] = {"id": task.id, "description": task.description, "depends_on": task.depends_on}
    if task.kind:
        told["kind"] = task.kind
    if task.params:
        told["params"] = task.params
    if task.subtasks:
        told["subtasks"] = [_told(each) for each in task.subtasks]
    return told


by_rules: Final = RuleDecomposer()
by_llm: Final = LlmDecomposer(kinds=SHIPPED_SAYINGS)
by_rules_and_llm: Final = HybridDecomposer(by_llm, by_rules)
SHIPPED: Final = {"rules": "by_rules", "llm": "by_llm", "hybrid": "by_rules_and_llm"}
"""The decomposers of commands and of HTTP: names in this module, from which any worker can import them."""


def shipped_decomposer(name: str) -> Decomposer:
    """The decomposer of this name. GoalError: there is none, or it needs a language model that is not set up."""
    if name not in SHIPPED:
        raise GoalError("decomposer", f"is {name!r}; give one of {', '.join(SHIPPED)}")
    if name == "llm" and open_chat(current_wiring().settings) is None:
        raise no_model()
    return globals()[SHIPPED[name]]


def no_model() -> GoalError:
    return GoalError("decomposer", "needs a language model; set LLM_BACKEND, or use RuleDecomposer (`rules`)")
