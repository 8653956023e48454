"""Functions of the flows that are measured; a worker imports them by their names."""

from __future__ import annotations

import random
from typing import Any

from soliplex.ingester import Flow

greeting = Flow("bench_hello")
squares = Flow("bench_squares")


@greeting.step
async def hello(name: str) -> str:
    return f"hello {name}"


@squares.map_step(over="numbers")
async def square(item: int) -> int:
    return item * item


async def add_up(input: dict[str, Any]) -> int:  # noqa: A002  as flows name it
    """What the steps before gave, and one more."""
    return 1 + sum(value for name, value in input.items() if name != "n" and isinstance(value, int))


def random_flow(steps: int, seed: int) -> Flow:
    """A graph in which each step depends on up to three of those before it, and gets their outputs."""
    dice = random.Random(seed)
    flow = Flow(f"bench_dag_{seed}")
    for number in range(steps):
        before = sorted({f"s{dice.randrange(number)}" for _ in range(dice.randint(1, 3))}) if number else []
        flow.step(name=f"s{number}", depends_on=before)(add_up)
    return flow
