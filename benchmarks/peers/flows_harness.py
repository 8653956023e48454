"""What the peers of the benchmark of flows share. Runs in the peer's environment: the standard library only.

    python -m benchmarks.peers.flows_NAME --url URL --dags N --dag-steps N --tasks N --calls N

prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any, Protocol

from benchmarks.peers.graphs import expected_outputs, random_graph

type Graph = dict[str, list[str]]


class FlowPeer(Protocol):
    """An engine that executes graphs, set up on a database."""

    async def start(self) -> None:
        """Make its tables, and begin to work."""
        ...

    async def run_graphs(self, graphs: Sequence[Graph]) -> list[dict[str, int]]:
        """Execute the graphs, beside one another; gives the outputs of the steps of each."""
        ...

    async def run_map(self, count: int) -> list[int]:
        """Square so many numbers, each in a step of its own."""
        ...

    async def hello(self, name: str) -> str:
        """Execute a flow of one step."""
        ...

    async def stop(self) -> None: ...


def main(make: Callable[[str], FlowPeer]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    for size in ("dags", "dag-steps", "tasks", "calls"):
        parser.add_argument(f"--{size}", type=int, default=10)
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(_measure(make(asked.url.replace("+asyncpg", "").replace("+aiosqlite", "")), asked))))


async def _measure(peer: FlowPeer, asked: argparse.Namespace) -> dict[str, Any]:
    await peer.start()
    measures: dict[str, Callable[[], Awaitable[float]]] = {
        "dag_steps_per_second": lambda: _dag_rate(peer, asked.dags, asked.dag_steps),
        "map_tasks_per_second": lambda: _map_rate(peer, asked.tasks),
        "hello_latency_ms": lambda: _latency(peer, asked.calls),
    }
    result: dict[str, Any] = {"failed": {}, "sizes": vars(asked) | {"url": None}}
    for name, measure in measures.items():
        try:
            result[name] = await measure()
        except Exception as exc:  # noqa: BLE001  a peer may raise anything; what else it does is still measured
            result["failed"][name] = f"{type(exc).__name__}: {exc}"
    await peer.stop()
    return result


async def _dag_rate(peer: FlowPeer, dags: int, steps: int) -> float:
    await peer.run_graphs([random_graph(steps, 0)])  # warm
    graphs = [random_graph(steps, seed + 1) for seed in range(dags)]
    began = time.perf_counter()
    outputs = await peer.run_graphs(graphs)
    seconds = time.perf_counter() - began
    assert outputs == [expected_outputs(graph) for graph in graphs]
    return dags * steps / seconds


async def _map_rate(peer: FlowPeer, tasks: int) -> float:
    began = time.perf_counter()
    squares = await peer.run_map(tasks)
    seconds = time.perf_counter() - began
    assert squares == [number * number for number in range(tasks)]
    return tasks / seconds


async def _latency(peer: FlowPeer, calls: int) -> float:
    taken: list[float] = []
    for number in range(calls + 3):
        began = time.perf_counter()
        assert await peer.hello(str(number)) == f"hello {number}"
        taken.append((time.perf_counter() - began) * 1e3)
    return median(taken[3:])
