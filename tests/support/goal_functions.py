"""A decomposer and steps of goals that any process can import."""

from __future__ import annotations

from typing import Any


def decompose(goal: str) -> list[dict[str, Any]]:
    return [
        {"id": "words", "description": f"cut {goal}"},
        {
            "id": "count",
            "description": "count them",
            "depends_on": ["words"],
            "subtasks": [
                {"id": "few", "kind": "length", "description": "how many"},
                {"id": "all", "kind": "length", "description": "once more"},
            ],
        },
        {"id": "told", "description": "tell", "depends_on": ["count"]},
    ]


def words(goal: str) -> list[str]:
    return goal.split()


def length(words: list[str]) -> int:
    return len(words)


def told(count: dict[str, int]) -> dict[str, int]:
    return count


STEPS: Any = {"words": words, "length": length, "told": told}
