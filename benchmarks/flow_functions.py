"""Functions of the flows that are measured; a worker imports them by their names."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.graphs import random_graph
from soliplex.ingester import Flow

greeting = Flow("bench_hello")
queued = Flow("bench_queued", timeout=None)
squares = Flow("bench_squares")


@greeting.step
async def hello(name: str) -> str:
    return f"hello {name}"


@squares.map_step(over="numbers")
async def square(item: int) -> int:
    return item * item


@queued.map_step(over="numbers", queue="bench")
async def elsewhere(item: int) -> int:
    """On PostgreSQL, done by workers that know SQL."""
    return item * item


async def add_up(input: dict[str, Any]) -> int:  # noqa: A002  as flows name it
    """What the steps before gave, and one more."""
    return 1 + sum(value for name, value in input.items() if name != "n" and isinstance(value, int))


def random_flow(steps: int, seed: int) -> Flow:
    """A graph in which each step depends on up to three of those before it, and gets their outputs."""
    flow = Flow(f"bench_dag_{seed}")
    for name, before in random_graph(steps, seed).items():
        flow.step(name=name, depends_on=before)(add_up)
    return flow
