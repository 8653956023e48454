"""What is made of goals: by rules, and of what decomposers give."""

from __future__ import annotations

from typing import Any

import pytest

from soliplex.ingester import GoalError, Orchestrator, RuleDecomposer
from soliplex.ingester.goals.task_graph import task_graph


def test_a_sentence_becomes_tasks_that_wait_for_what_they_work_on() -> None:
    tasks = RuleDecomposer()("ingest ./docs, segment the PDFs, then tell https://example.org/hook")
    assert [(task["id"], task["depends_on"], task["params"]) for task in tasks] == [
        ("ingest", [], {"path": "./docs"}),
        ("segment", ["ingest"], {"include": "*.pdf", "path": "./docs"}),
        ("webhook", ["segment"], {"url": "https://example.org/hook"}),
    ]


def test_what_no_rule_understands_is_named_with_what_can_be_said() -> None:
    with pytest.raises(GoalError, match=r"'make coffee' is not understood.*ingest ./docs.*search for WORDS"):
        RuleDecomposer()("ingest ./docs and make coffee")


def _nested(depth: int) -> list[dict[str, Any]]:
    return [{"id": "a", "description": "a", "subtasks": _nested(depth - 1) if depth else []}]


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ([], "is empty"),
        ("Sure! First you should", "give a list of tasks"),
        ([{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}], "a → b → a"),
        ([{"id": "a", "depends_on": ["c"]}], "'c'"),
        ([{"id": "a"}, {"id": "a"}], "twice"),
        ([{"id": "1 a"}], "begin with a letter"),
        (_nested(11), "nested more than 10 deep"),
    ],
)
def test_what_is_no_graph_of_tasks_is_refused_with_its_reason(tasks: object, problem: str) -> None:
    with pytest.raises(GoalError, match=problem):
        task_graph("goal", tasks, max_depth=10)


async def test_a_decomposer_that_does_not_end_is_given_up() -> None:
    async def loops(goal: str) -> None:
        import asyncio

        await asyncio.Event().wait()

    with pytest.raises(GoalError, match="it may loop"):
        await Orchestrator.decompose_goal("anything", loops, timeout=0.01)
