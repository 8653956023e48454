"""Absurd: durable tasks with checkpoints as steps."""
# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from benchmarks.peers.harness import STEPS, main, report_start, say_started

CONCURRENCY = 20
"""Its default of 1 is slower."""
UNDONE = "SELECT count(*) FROM absurd.t_default WHERE state <> 'completed'"


class Peer:
    longest_pause = 0.25

    def __init__(self, url: str) -> None:
        self._url = url
        self._app = self._new_app()

    async def install(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await connection.execute(BUNDLED_SCHEMA_SQL)
        await self._app.create_queue("default")

    async def work_off_workflows(self, count: int) -> float:
        return await self._work_off("workflow", count)

    async def work_off_tasks(self, count: int) -> float:
        return await self._work_off("task", count)

    async def work(self) -> None:
        say_started()
        await self._app.start_worker(concurrency=CONCURRENCY)

    async def enqueue_report(self) -> None:
        await self._app.spawn("report", {})

    async def _work_off(self, task: str, count: int) -> float:
        for _ in range(count):
            await self._app.spawn(task, {})
        app = self._new_app()
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            began = time.perf_counter()
            working = asyncio.create_task(app.start_worker(concurrency=CONCURRENCY))
            while await self._is_undone(connection):  # noqa: ASYNC110  only its table says so
                await asyncio.sleep(0.05)
            seconds = time.perf_counter() - began
        app.stop_worker()
        await working
        await app.close()
        return seconds

    async def _is_undone(self, connection: Any) -> bool:
        return (await (await connection.execute(UNDONE)).fetchone())[0] > 0

    def _new_app(self) -> Any:
        app = AsyncAbsurd(self._url)
        app.register_task(name="workflow")(_five_steps)
        app.register_task(name="task")(_do_nothing)
        app.register_task(name="report")(_report)
        return app


async def _five_steps(_params: Any, context: Any) -> None:
    for number in range(STEPS):
        await context.step(f"step-{number}", _one_step)


async def _one_step() -> dict[str, int]:
    return {"done": 1}


async def _do_nothing(_params: Any, _context: Any) -> None:
    pass


async def _report(_params: Any, _context: Any) -> None:
    report_start()


if __name__ == "__main__":
    main(Peer)
