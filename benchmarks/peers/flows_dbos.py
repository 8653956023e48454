"""DBOS, executing graphs: a workflow whose steps are begun as soon as what they depend on is there."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportUntypedFunctionDecorator=false
# It is installed in an environment of its own, and the checker takes this module for it.

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress

with suppress(ImportError):
    # Its statements need SQLite 3.42; the interpreter's own may be older.
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

from dbos import DBOS

from benchmarks.peers.flows_harness import Graph, main


@DBOS.step()
async def add_up(values: list[int]) -> int:
    return 1 + sum(values)


@DBOS.step()
async def square(number: int) -> int:
    return number * number


@DBOS.step()
async def say_hello(name: str) -> str:
    return f"hello {name}"


@DBOS.workflow()
async def graph_flow(graph: Graph) -> dict[str, int]:
    outputs: dict[str, int] = {}
    left = dict(graph)
    while left:  # its steps must begin in the same order whenever the workflow is executed: level by level
        level = [step for step, before in left.items() if all(name in outputs for name in before)]
        found = await asyncio.gather(*(add_up([outputs[name] for name in graph[step]]) for step in level))
        outputs |= dict(zip(level, found, strict=True))
        left = {step: before for step, before in left.items() if step not in outputs}
    return {step: outputs[step] for step in graph}


@DBOS.workflow()
async def map_flow(count: int) -> list[int]:
    return list(await asyncio.gather(*(square(number) for number in range(count))))


@DBOS.workflow()
async def hello_flow(name: str) -> str:
    return await say_hello(name)


class Peer:
    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql:", "postgresql+psycopg:")

    async def start(self) -> None:
        DBOS(config={"name": "flows", "system_database_url": self._url, "log_level": "ERROR"})
        DBOS.launch()

    async def run_graphs(self, graphs: Sequence[Graph]) -> list[dict[str, int]]:
        handles = [await DBOS.start_workflow_async(graph_flow, graph) for graph in graphs]
        return [await handle.get_result() for handle in handles]

    async def run_map(self, count: int) -> list[int]:
        return await (await DBOS.start_workflow_async(map_flow, count)).get_result()

    async def hello(self, name: str) -> str:
        return await (await DBOS.start_workflow_async(hello_flow, name)).get_result()

    async def stop(self) -> None:
        DBOS.destroy()


if __name__ == "__main__":
    main(Peer)
