"""The names of flows and goals, with the parameters and defaults that users were told: none may change unnoticed."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import soliplex.ingester as api

NEEDED = inspect.Parameter.empty
SIGNATURES: dict[str, dict[str, Any]] = {
    "Flow": {"slug": NEEDED, "max_attempts": 3, "timeout": 30.0},
    "Flow.map_step": {"over": None},
    "Flow.start": {"input": None, "key": None},
    "Flow.call": {"input": None},
    "WorkflowDefinition.parse": {"data": NEEDED},
    "Workflow.definition": {},
    "Workflow.execute_command": {"run_id": NEEDED, "command": NEEDED, "input": NEEDED, "context": NEEDED},
    "Workflow.on_complete": {"run_id": NEEDED, "output": NEEDED, "context": NEEDED},
    "Workflow.on_failure": {"run_id": NEEDED, "error": NEEDED, "context": NEEDED},
    "FlowBuilder.create_flow": {"slug": NEEDED, "max_attempts": 3, "timeout": 30.0},
    "FlowBuilder.add_step": {
        "slug": NEEDED,
        "step": NEEDED,
        "depends_on": (),
        "step_type": "single",
        "initial_tasks": None,
        "max_attempts": None,
        "timeout": None,
        "command": None,
    },
    "FlowBuilder.get_flow": {"slug": NEEDED},
    "FlowBuilder.list_flows": {},
    "FlowBuilder.delete_flow": {"slug": NEEDED},
    "Executor.start_workflow": {
        "workflow": NEEDED,
        "input": None,
        "key": None,
        "priority": 0,
        "start_at": None,
        "deadline": None,
    },
    "Executor.execute_pending_tasks": {},
    "Executor.status": {"run_id": NEEDED},
    "Executor.wait": {"run_id": NEEDED, "timeout": None},
    "Executor.cancel": {"run_id": NEEDED},
    "Executor.retry": {"run_id": NEEDED},
    "Executor.signal": {"key": NEEDED, "payload": None},
    "Executor.execute_dynamic": {"slug": NEEDED, "input": None, "step_functions": None, "timeout": 300.0},
    "Again": {"state": None, "delay": 0.0},
    "Wait": {"key": NEEDED, "timeout": None},
    "Subflow": {"slug": NEEDED, "input": None},
    "schedule": {"slug": NEEDED, "cron": NEEDED, "input": None},
    "unschedule": {"name": NEEDED},
    "list_schedules": {},
    "WorkflowComposer.compose_from_goal": {
        "goal": NEEDED,
        "decomposer": NEEDED,
        "steps": None,
        "optimization_level": "basic",
        "monitoring": True,
        "real_time_notifications": False,
        "preserve_structure": True,
        "max_parallel": 10,
        "timeout": 300,
    },
    "WorkflowComposer.compose_from_task_graph": {"graph": NEEDED, "steps": None},
    "WorkflowComposer.compose_multiple_workflows": {
        "goals": NEEDED,
        "decomposer": NEEDED,
        "steps": None,
        "parallel": True,
    },
    "OrchestratorOptimizer.optimize_workflow": {"workflow": NEEDED, "level": None},
    "OrchestratorOptimizer.get_recommendations": {"workflow": NEEDED},
    "Orchestrator.decompose_goal": {"goal": NEEDED, "decomposer": NEEDED},
    "Orchestrator.create_workflow": {"graph": NEEDED, "steps": None},
    "Orchestrator.execute_goal": {"goal": NEEDED, "decomposer": NEEDED, "steps": None},
    "OrchestratorNotifications.listen": {"name": NEEDED, "callback": NEEDED},
    "OrchestratorNotifications.unlisten": {"ref": NEEDED},
    "OrchestratorNotifications.get_recent_events": {"kind": None, "limit": 100},
}
OTHERS = (
    "Database",
    "HybridDecomposer",
    "Ingester",
    "LlmDecomposer",
    "PermanentError",
    "RuleDecomposer",
    "Run",
    "Worker",
)
OF_A_RUN = {
    "id", "workflow_slug", "status", "input", "output", "error", "remaining_steps", "created_at", "started_at",
    "completed_at", "failed_at", "steps",
}  # fmt: skip


def found(name: str) -> Any:
    first, *rest = name.split(".")
    value = getattr(api, first)
    for part in rest:
        value = inspect.getattr_static(value, part)
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_name_takes_what_users_were_told(name: str) -> None:
    parameters = dict(inspect.signature(found(name)).parameters)
    parameters.pop("self", None)
    told = SIGNATURES[name]
    assert list(parameters)[: len(told)] == list(told), "in this order; what is more comes after"
    assert {each: parameters[each].default for each in told} == told
    added = [each for each in list(parameters.values())[len(told) :] if each.default is NEEDED]
    assert [each for each in added if each.kind is not inspect.Parameter.VAR_KEYWORD] == []


@pytest.mark.parametrize("name", [name for name in SIGNATURES if "." in name])
def test_what_a_name_takes_and_gives_has_types(name: str) -> None:
    function = found(name)
    named = {each for each in inspect.signature(function).parameters if each != "self"}
    assert named | {"return"} == set(function.__annotations__) - {"self"}


def test_the_other_names_are_there_and_a_run_tells_what_it_should() -> None:
    assert all(getattr(api, name) for name in OTHERS)
    assert is_dataclass(api.Run)
    assert {field.name for field in fields(api.Run)} == OF_A_RUN
