"""The workflows that are measured, known to the benchmark's process and to its workers' processes alike."""

from __future__ import annotations

import random
from typing import Final

from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition, workflow_from_mapping
from soliplex.ingester.lib.wf.registry import Registry

_EXAMPLE: Final = "soliplex.ingester.example."
_HANDLERS: Final = "benchmarks.handlers."

FIVE_STEPS: Final = workflow_from_mapping(
    {
        "id": "five_steps",
        "item_steps": {
            name: {"method": _EXAMPLE + name, "retries": 3} for name in ("validate", "parse", "chunk", "embed", "store")
        },
    }
)
ONE_STEP: Final = workflow_from_mapping(
    {"id": "one_step", "item_steps": {"task": {"method": _EXAMPLE + "validate", "retries": 3}}}
)
MAP: Final = workflow_from_mapping(
    {"id": "map", "item_steps": {"each": {"method": _EXAMPLE + "validate", "retries": 3, "map": True}}}
)
REPORTING: Final = workflow_from_mapping(
    {"id": "reporting", "item_steps": {"report": {"method": _HANDLERS + "report_start", "retries": 3}}}
)
WAITING: Final = workflow_from_mapping(
    {"id": "waiting", "item_steps": {"wait": {"method": _HANDLERS + "wait_for_signal"}}}
)
ALL: Final[tuple[WorkflowDefinition, ...]] = (FIVE_STEPS, ONE_STEP, MAP, REPORTING, WAITING)


def random_dag(steps: int, seed: int) -> WorkflowDefinition:
    """A graph in which each step depends on up to three of those before it."""
    dice = random.Random(seed)
    facts = {
        f"s{number}": {
            "method": _HANDLERS + "add_up",
            "type": "dag",
            "depends_on": sorted({f"s{dice.randrange(number)}" for _ in range(dice.randint(1, 3))}) if number else [],
        }
        for number in range(steps)
    }
    return workflow_from_mapping({"id": f"dag_{seed}", "item_steps": facts})


def register() -> None:
    """Put a registry with these workflows, and no others, in place."""
    registry = Registry(None, None)
    for workflow in ALL:
        registry.register(workflow)
    use_registry(registry)
