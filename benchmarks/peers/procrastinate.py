"""Procrastinate: a queue, without workflows."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportUntypedFunctionDecorator=false
# It is installed in an environment of its own, and the checker takes this module for it.

from __future__ import annotations

import time

from procrastinate import App, PsycopgConnector

from benchmarks.peers.harness import main, report_start, say_started

CONCURRENCY = 20
"""Its default of 1 is slower."""


class Peer:
    longest_pause = 0.06

    def __init__(self, url: str) -> None:
        self._app = App(connector=PsycopgConnector(conninfo=url, max_size=CONCURRENCY + 2))
        self._task = self._app.task(_do_nothing, name="task")
        self._report = self._app.task(_report, name="report")

    async def install(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def work_off_workflows(self, count: int) -> None:
        del count

    async def work_off_tasks(self, count: int) -> float:
        await self._task.batch_defer_async(*({} for _ in range(count)))
        began = time.perf_counter()
        await self._app.run_worker_async(wait=False, concurrency=CONCURRENCY, install_signal_handlers=False)
        return time.perf_counter() - began

    async def work(self) -> None:
        async with self._app.open_async():
            say_started()
            await self._app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)

    async def enqueue_report(self) -> None:
        await self._report.defer_async()


async def _do_nothing() -> None:
    pass


async def _report() -> None:
    report_start()


if __name__ == "__main__":
    main(Peer)
