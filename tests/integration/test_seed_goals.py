"""The goals of the seed, section by section: decomposers, the workflow of a goal, layers, settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from soliplex.ingester import (
    ConfigurationError,
    Executor,
    FlowBuilder,
    GoalError,
    HybridDecomposer,
    LlmDecomposer,
    Orchestrator,
    OrchestratorNotifications,
    WorkflowComposer,
)
from soliplex.ingester.goals.decomposers import SHIPPED_SAYINGS, by_rules_and_llm
from soliplex.ingester.goals.notifications import KINDS, Event
from soliplex.ingester.lib.config import get_settings
from tests.support.chat_server import ChatServer, chat_server
from tests.support.engine import registry_in_use, rows_of


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatServer]:
    async with chat_server() as server:
        monkeypatch.setenv("LLM_BACKEND", "openai")
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        get_settings.cache_clear()
        yield server


def auth_tasks() -> list[dict[str, Any]]:
    return [
        {"id": "schema", "description": "make the tables"},
        {"id": "login", "description": "let people in", "depends_on": ["schema"]},
    ]


def payment_tasks() -> list[dict[str, Any]]:
    return [{"id": "charge", "description": "take money"}]


def rule_based_decomposer(goal: str) -> list[dict[str, Any]]:
    if "auth" in goal:
        return auth_tasks()
    if "payment" in goal:
        return payment_tasks()
    raise GoalError("goal", "unknown_goal_type")


STEPS: Any = {"schema": lambda: "tables", "login": lambda schema: f"{schema}, and a door", "charge": lambda: 5}


# Rule-based decomposition


async def test_a_goal_is_taken_apart_executed_told_of_and_measured(database: None) -> None:
    """The eight steps of the seed's drawing, from the goal to the metrics that are learned from."""
    told: list[Event] = []
    ref = await OrchestratorNotifications.listen("all", told.append)
    result = await WorkflowComposer.compose_from_goal("build auth", rule_based_decomposer, STEPS)
    graph = result.graph
    assert graph is not None
    assert list(graph["tasks"]) == ["schema", "login"]
    assert (graph["root_tasks"], graph["max_depth"]) == (["schema"], 1)
    assert graph["created_at"]
    assert (result.status, result.output) == ("completed", {"login": "tables, and a door"})
    assert result.flow_slug is not None
    assert [each.slug for each in await FlowBuilder.list_flows()] == [], "the flow of a goal is the product's own"
    kinds = [event.kind for event in result.events or ()]
    assert [kind for kind in kinds if kind.startswith("decomposition")] == [
        "decomposition_started",
        "decomposition_completed",
    ]
    assert {"execution_started", "execution_completed", "task_started", "task_completed"} <= set(kinds)
    await OrchestratorNotifications.unlisten(ref)
    seconds = await rows_of("SELECT count(*) FROM runstep WHERE completed_date >= start_date")
    assert seconds == [(4,)], "two steps of the goal, and two tasks"


async def test_a_goal_of_an_unknown_type_fails_with_the_reason_and_says_so(database: None) -> None:
    result = await WorkflowComposer.compose_from_goal("paint it", rule_based_decomposer, STEPS)
    assert (result.status, result.graph) == ("failed", None)
    assert "unknown_goal_type" in (result.error or "")
    failed = await OrchestratorNotifications.get_recent_events(kind="decomposition_failed")
    assert [event.run_id for event in failed] == [result.run_id]
    assert len(KINDS) == 9


async def test_a_task_graph_is_composed_and_several_goals_go_side_by_side(database: None) -> None:
    graph = await Orchestrator.decompose_goal("build auth", rule_based_decomposer)
    composed = await WorkflowComposer.compose_from_task_graph(graph, STEPS, optimization_level="advanced")
    assert composed.output == {"login": "tables, and a door"}
    meet = asyncio.Barrier(2)

    async def charge() -> int:
        await asyncio.wait_for(meet.wait(), 60)
        return 5

    goals = ["payment in Paris", "payment in Prague"]
    both = await WorkflowComposer.compose_multiple_workflows(goals, rule_based_decomposer, {"charge": charge})
    assert [(each.goal, each.output) for each in both] == [(goal, {"charge": 5}) for goal in goals]
    in_turn = await WorkflowComposer.compose_multiple_workflows(goals, rule_based_decomposer, STEPS, parallel=False)
    assert [each.status for each in in_turn] == ["completed", "completed"]
    with pytest.raises(GoalError, match="goals: is 'payment'; give a list"):
        await WorkflowComposer.compose_multiple_workflows("payment", rule_based_decomposer, STEPS)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"max_parallel": 0}, "max_parallel: is 0"),
        ({"timeout": 0}, "timeout: is 0; give more"),
        ({"goal": None}, "goal: is None; give a text"),
    ],
)
async def test_a_goal_that_is_refused_is_not_started(database: None, wrong: dict[str, Any], problem: str) -> None:
    given: dict[str, Any] = {"goal": "payment", "decomposer": rule_based_decomposer, "steps": STEPS} | wrong
    with pytest.raises(GoalError, match=problem):
        await WorkflowComposer.compose_from_goal(**given)
    assert await rows_of("SELECT id FROM workflow_runs") == []


async def test_tasks_nested_to_the_deepest_level_are_executed(database: None) -> None:
    def nested(goal: str) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = [{"id": "leaf", "kind": "count", "description": goal}]
        for depth in range(9):
            tasks = [{"id": f"t{depth}", "description": "inside", "subtasks": tasks}]
        return tasks

    result = await WorkflowComposer.compose_from_goal("dig", nested, {"count": lambda: 7})
    assert result.graph is not None
    assert (result.status, result.graph["max_depth"]) == ("completed", 10)
    assert json.dumps(result.output).count("t") >= 8
    assert "7" in json.dumps(result.output)


# LLM-based decomposition


async def test_a_model_decomposes_and_prose_is_refused_after_one_repair(model: ChatServer) -> None:
    model.answers += [json.dumps({"tasks": [{"id": "a", "description": "first"}]})]
    graph = await Orchestrator.decompose_goal("break it down", LlmDecomposer())
    assert list(graph["tasks"]) == ["a"]
    assert "break it down" in json.dumps(model.asked[0])
    model.answers += ["Sure! First, you should breathe.", "As I said: breathe."]
    with pytest.raises(GoalError, match="answered with no list of tasks"):
        await Orchestrator.decompose_goal("break it down", LlmDecomposer())
    circle = [
        {"id": "a", "description": "a", "depends_on": ["b"]},
        {"id": "b", "description": "b", "depends_on": ["a"]},
    ]
    for tasks, problem in ((circle, "circle"), ([], "is empty")):
        model.answers += [json.dumps({"tasks": tasks})]
        with pytest.raises(GoalError, match=problem):
            await Orchestrator.decompose_goal("break it down", LlmDecomposer())


# Hybrid decomposition


async def test_what_a_model_made_of_a_goal_is_known_to_all_and_asked_once(database: None, model: ChatServer) -> None:
    made = [{"id": "look", "kind": "search", "description": "look", "params": {"text": "lamps"}}]
    model.answers += [json.dumps({"tasks": made}), json.dumps({"tasks": []})]
    first = await Orchestrator.decompose_goal("Whatever  about lamps", by_rules_and_llm)
    other = HybridDecomposer(LlmDecomposer(kinds=SHIPPED_SAYINGS))
    again = await Orchestrator.decompose_goal("whatever about lamps", other)
    assert first["tasks"] == again["tasks"]
    assert len(model.asked) == 1
    assert list((await Orchestrator.decompose_goal("search for lamps", by_rules_and_llm))["tasks"]) == ["search"]
    assert len(model.asked) == 1, "the rules understand that"
    for _ in range(2):
        with pytest.raises(GoalError, match="is empty"):
            await Orchestrator.decompose_goal("nothing", by_rules_and_llm)
        model.answers += [json.dumps({"tasks": []})]
    assert len(model.asked) == 3, "an answer that is no graph is not kept"


# Integration: each layer can be used alone


async def test_the_workflow_of_a_goal_is_an_ordinary_one(database: None) -> None:
    graph = await Orchestrator.decompose_goal("build auth", rule_based_decomposer)
    steps: Any = {"schema": "tests.support.optimizing:number", "login": "tests.support.optimizing:number"}
    run_id = await Executor.start_workflow(Orchestrator.create_workflow(graph, steps), {"n": 4})
    own: Any = {"schema": lambda n: n * 10, "login": lambda schema: schema + 1}
    of_this_process = await Executor.start_workflow(Orchestrator.create_workflow(graph, own), {"n": 4})
    await Executor.execute_pending_tasks()
    assert (await Executor.status(run_id)).output == {"login": 4}
    assert (await Executor.status(of_this_process)).output == {"login": 41}


# Configuration


async def test_the_settings_of_goals_are_read(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_NOTIFICATIONS_REAL_TIME", "false")
    monkeypatch.setenv("ORCHESTRATOR_MAX_DEPTH", "1")
    get_settings.cache_clear()
    with pytest.raises(ConfigurationError, match="ORCHESTRATOR_NOTIFICATIONS_REAL_TIME: is off"):
        await OrchestratorNotifications.listen("all", print)
    assert await OrchestratorNotifications.get_recent_events() == []
    nested = [{"id": "a", "description": "a", "subtasks": [{"id": "b", "description": "b"}]}]
    with pytest.raises(GoalError, match="nested more than 1 deep"):
        await Orchestrator.decompose_goal("dig", lambda goal: nested)
    monkeypatch.setenv("ORCHESTRATOR_NOTIFICATIONS_ENABLED", "false")
    get_settings.cache_clear()
    with pytest.raises(ConfigurationError, match="ORCHESTRATOR_NOTIFICATIONS_ENABLED: is off"):
        await OrchestratorNotifications.get_recent_events()
    silent = await WorkflowComposer.compose_from_goal("payment", rule_based_decomposer, STEPS)
    assert (silent.status, silent.events) == ("completed", None)
