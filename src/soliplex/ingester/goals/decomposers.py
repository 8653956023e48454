"""Decomposers: any function from a goal to a list of tasks, plain or async; and those that are shipped."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from soliplex.ingester.goals.errors import GoalError, NotUnderstoodError
from soliplex.ingester.goals.rules import RuleDecomposer
from soliplex.ingester.goals.sql import SQL
from soliplex.ingester.goals.task_graph import task_graph
from soliplex.ingester.lib.llm import Asks, UnusableAnswerError, open_chat
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.storable import unstorable_in
from soliplex.ingester.lib.wf.flows.functions import address_of
from soliplex.ingester.lib.wiring import current_wiring

type Decomposer = Callable[[str], Any] | Callable[[str], Awaitable[Any]]

_SYSTEM: Final = (
    "You break a goal into tasks for a workflow. Each task has an id (letters, digits, _), a description, the ids of "
    "the tasks it depends on, a kind and params. Use as few tasks as will do, and no circle of dependencies."
)

MOST_KNOWN: Final = 10_000
"""Goals of which the database keeps what a model made of them: those that were used last."""
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

    @property
    def asks(self) -> str:
        """What the model is asked besides the goal."""
        return f"{_SYSTEM} Kinds of tasks: {self._kinds}." if self._kinds else _SYSTEM

    async def __call__(self, goal: str) -> list[dict[str, Any]]:
        """The tasks of the goal, as the model sees them."""
        settings = current_wiring().settings
        chat = self._chat or open_chat(settings)
        if chat is None:
            raise no_model()
        seconds = self._timeout or settings.orchestrator_timeout_seconds
        try:
            answer = await chat.ask_for(
                use="goals", system=self.asks, user=goal, timeout=timedelta(seconds=seconds), answer=_AnsweredTasks
            )
        except UnusableAnswerError as exc:
            raise GoalError("goal", f"the language model answered with no list of tasks: {exc.problem}") from exc
        return [_told(task) for task in answer.tasks]


class HybridDecomposer:
    """What the rules know, or a goal that was seen before, without the model; the model for the rest.

    What a model made of a goal is kept in the database, for every process, once it is seen to be a graph of tasks.
    """

    def __init__(self, llm: Decomposer | None = None, rules: RuleDecomposer | None = None) -> None:
        self._llm = llm or LlmDecomposer()
        self._rules = rules or RuleDecomposer()

    async def __call__(self, goal: str) -> Any:
        """The tasks of the goal."""
        try:
            return self._rules(goal)
        except NotUnderstoodError:
            key = self._key(goal)
        if key is None or not Database.is_open():
            return await _asked(self._llm, goal)
        if (tasks := await _known_tasks(key)) is not None:
            return tasks
        tasks = await _asked(self._llm, goal)
        task_graph(goal, tasks, max_depth=current_wiring().settings.orchestrator_max_depth)
        await _keep(key, tasks)
        return tasks

    def _key(self, goal: str) -> str | None:
        """The key under which the answer is kept; None for a decomposer that only this process knows."""
        settings = current_wiring().settings
        asked = self._llm.asks if isinstance(self._llm, LlmDecomposer) else address_of(self._llm)
        if asked is None:
            return None
        facts = [" ".join(goal.lower().split()), asked, settings.llm_backend, settings.llm_model]
        return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()


async def _known_tasks(key: str) -> Any:
    def script() -> Script[Any]:
        rows = yield SQL.known_decomposition(goal_hash=key, now=utcnow())
        return json.loads(rows[0]["tasks"]) if rows else None

    return await Database.transact(script())


async def _keep(key: str, tasks: Any) -> None:
    def script() -> Script[None]:
        yield SQL.keep_decomposition(goal_hash=key, tasks=to_json(tasks), now=utcnow())
        yield SQL.forget_decompositions(most=MOST_KNOWN)

    await Database.transact(script())


def check_goal(goal: object) -> None:
    """Refuse what says nothing."""
    if not isinstance(goal, str):
        raise GoalError("goal", f"is {goal!r}; give a text that says what is to be done")
    if not goal.strip():
        raise GoalError("goal", "is empty; say what is to be done")
    if problem := unstorable_in(goal):
        raise GoalError("goal", f"must not hold {problem}")


async def decomposed(goal: str, decomposer: Decomposer, *, timeout: float) -> Any:  # noqa: ASYNC109  of the decomposer
    """What the decomposer makes of the goal, within the time."""
    check_goal(goal)
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
