"""Graphs of many steps, as chance has it, whose outputs say what each step was given."""

from __future__ import annotations

import random
from typing import Any

from soliplex.ingester import WorkflowDefinition
from tests.support.flow_functions import mixed

_HERE = "tests.support.flow_functions"
NUMBER, LIST, MAP = f"{_HERE}.mix", f"{_HERE}.spread", f"{_HERE}.mix_item"


def random_flow(seed: int, steps: int = 1000) -> WorkflowDefinition:
    """Each step depends on up to three of those before it, near or far; one in twenty is a map over a list."""
    dice = random.Random(seed)
    made: list[dict[str, Any]] = []
    for number in range(steps):
        lists = [each["name"] for each in made if each["command"] == LIST]
        step: dict[str, Any] = {
            "name": f"s{number}",
            "type": "task",
            "command": dice.choices((NUMBER, LIST), (9, 1))[0],
        }
        if lists and dice.random() < 0.05:
            step |= {"type": "map", "command": MAP, "dependencies": [dice.choice(lists)]}
        elif number:
            near = range(max(0, number - dice.choice((5, 100, steps))), number)
            step["dependencies"] = [
                f"s{each}" for each in sorted({dice.choice(near) for _ in range(dice.randint(0, 3))})
            ]
        made.append(step)
    dice.shuffle(made)
    return WorkflowDefinition.parse({"id": f"random_{seed}", "title": "Random", "steps": made})


def expected_outputs(flow: WorkflowDefinition) -> dict[str, Any]:
    """What each step gives if each is given what the steps before it gave."""
    outputs: dict[str, Any] = {}
    for step in flow.steps:
        number, given = int(step.key.removeprefix("s")), [outputs[name] for name in step.depends_on]
        first = mixed(number, given)
        outputs[step.key] = {
            NUMBER: first,
            LIST: [first, first + 1, first + 2],
            MAP: [mixed(number, item) for each in given[:1] for item in (each if isinstance(each, list) else [])],
        }[step.method]
    return outputs
