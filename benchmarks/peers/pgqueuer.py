"""PgQueuer: a queue, without workflows."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportUntypedFunctionDecorator=false
# It is installed in an environment of its own, and the checker takes this module for it.

from __future__ import annotations

import time
from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.peers.harness import main, report_start, say_started

BATCH = 200
"""As many as our worker takes; its own default of 10 is slower."""


class Peer:
    longest_pause = 0.06

    def __init__(self, url: str) -> None:
        self._url = url
        self._queries: Any = None

    async def install(self) -> None:
        self._queries = Queries(AsyncpgDriver(await asyncpg.connect(self._url)))
        await self._queries.install()

    async def work_off_workflows(self, count: int) -> None:
        del count

    async def work_off_tasks(self, count: int) -> float:
        await self._queries.enqueue(["task"] * count, [None] * count, [0] * count)
        queuer = await self._queuer()
        began = time.perf_counter()
        await queuer.qm.run(mode=QueueExecutionMode.drain, batch_size=BATCH)
        return time.perf_counter() - began

    async def work(self) -> None:
        queuer = await self._queuer()
        say_started()
        await queuer.qm.run(batch_size=BATCH)

    async def enqueue_report(self) -> None:
        await self._queries.enqueue("report", None)

    async def _queuer(self) -> Any:
        queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(self._url)))

        @queuer.entrypoint("task")
        async def task(_job: Any) -> None:  # pyright: ignore[reportUnusedFunction]  registered by name
            pass

        @queuer.entrypoint("report")
        async def report(_job: Any) -> None:  # pyright: ignore[reportUnusedFunction]
            report_start()

        return queuer


if __name__ == "__main__":
    main(Peer)
