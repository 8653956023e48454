"""The random graphs of the benchmark of flows: the same for us and for peers. The standard library only."""

from __future__ import annotations

import random


def random_graph(steps: int, seed: int) -> dict[str, list[str]]:
    """Each step, with up to three of those before it that it depends on, and whose outputs it gets."""
    dice = random.Random(seed)
    graph: dict[str, list[str]] = {}
    for number in range(steps):
        graph[f"s{number}"] = (
            sorted({f"s{dice.randrange(number)}" for _ in range(dice.randint(1, 3))}) if number else []
        )
    return graph


def expected_outputs(graph: dict[str, list[str]]) -> dict[str, int]:
    """What each step gives: what those before it gave, and one more."""
    outputs: dict[str, int] = {}
    for step, before in graph.items():
        outputs[step] = 1 + sum(outputs[name] for name in before)
    return outputs
