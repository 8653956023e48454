"""Prefect, executing graphs: a flow that submits its tasks with the futures of those they depend on."""
# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportFunctionMemberAccess=false
# It is installed in an environment of its own.

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence

from benchmarks.peers.flows_harness import Graph, main

# Read when it is imported: its server, in this process, on a folder of its own, and silent.
os.environ |= {
    "PREFECT_HOME": tempfile.mkdtemp(prefix="prefect-"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    "DO_NOT_TRACK": "1",
}


class Peer:
    def __init__(self, url: str) -> None:
        self._url = url
        driver = url.replace("postgresql:", "postgresql+asyncpg:").replace("sqlite:", "sqlite+aiosqlite:")
        os.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = driver

    async def start(self) -> None:
        from prefect import flow, task

        @task
        def add_up(values: list[int]) -> int:
            return 1 + sum(values)

        @task
        def square(number: int) -> int:
            return number * number

        @task
        def say_hello(name: str) -> str:
            return f"hello {name}"

        @flow
        def graph_flow(graph: dict[str, list[str]]) -> dict[str, int]:
            futures = {}
            for step, before in graph.items():
                futures[step] = add_up.submit([futures[name] for name in before])
            return {step: future.result() for step, future in futures.items()}

        @flow
        def map_flow(count: int) -> list[int]:
            return square.map(list(range(count))).result()

        @flow
        def hello_flow(name: str) -> str:
            return say_hello(name)

        self._graph_flow, self._map_flow, self._hello_flow = graph_flow, map_flow, hello_flow

    async def run_graphs(self, graphs: Sequence[Graph]) -> list[dict[str, int]]:
        return list(await asyncio.gather(*(asyncio.to_thread(self._graph_flow, graph) for graph in graphs)))

    async def run_map(self, count: int) -> list[int]:
        return await asyncio.to_thread(self._map_flow, count)

    async def hello(self, name: str) -> str:
        return await asyncio.to_thread(self._hello_flow, name)

    async def stop(self) -> None:
        """Its server ends with the process."""


if __name__ == "__main__":
    main(Peer)
