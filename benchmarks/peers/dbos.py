"""DBOS: durable workflows whose steps are checkpointed, on queues."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportUntypedFunctionDecorator=false
# It is installed in an environment of its own, and the checker takes this module for it.

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

with suppress(ImportError):
    # Its statements need SQLite 3.42; the interpreter's own may be older.
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

import sqlalchemy as sa
from dbos import DBOS

from benchmarks.peers.harness import STEPS, main, report_start, say_started

QUEUE = "benchmark"
DONE = "SELECT count(*) FROM {}workflow_status WHERE status = 'SUCCESS'"


@DBOS.step()
async def one_step() -> dict[str, int]:
    return {"done": 1}


@DBOS.workflow()
async def five_steps() -> None:
    for _ in range(STEPS):
        await one_step()


@DBOS.workflow()
async def do_nothing() -> None:
    pass


@DBOS.workflow()
async def report() -> None:
    report_start()


class Peer:
    longest_pause = 1.0

    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql:", "postgresql+psycopg:")
        self._launched = False

    async def install(self) -> None:
        self._launch(listen=False)
        await DBOS.register_queue_async(QUEUE)

    async def work_off_workflows(self, count: int) -> float:
        return await self._work_off(five_steps, count)

    async def work_off_tasks(self, count: int) -> float:
        return await self._work_off(do_nothing, count)

    async def work(self) -> None:
        self._launch(listen=True)
        say_started()
        await asyncio.Event().wait()

    async def enqueue_report(self) -> None:
        await DBOS.enqueue_workflow_async(QUEUE, report)

    async def _work_off(self, workflow: Any, count: int) -> float:
        engine = sa.create_engine(self._url)
        wanted = self._done(engine) + count
        for _ in range(count):
            await DBOS.enqueue_workflow_async(QUEUE, workflow)
        began = time.perf_counter()
        self._launch(listen=True)
        while await asyncio.to_thread(self._done, engine) < wanted:  # noqa: ASYNC110  only its table says so
            await asyncio.sleep(0.05)
        seconds = time.perf_counter() - began
        self._launch(listen=False)
        engine.dispose()
        return seconds

    def _done(self, engine: sa.Engine) -> int:
        schema = "" if self._url.startswith("sqlite") else "dbos."
        with engine.connect() as connection:
            return connection.execute(sa.text(DONE.format(schema))).scalar_one()

    def _launch(self, *, listen: bool) -> None:
        """Start it anew, executing what is enqueued or merely enqueuing."""
        if self._launched:
            DBOS.destroy()
            # It had put a pool of its own in place, which is shut down now.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        DBOS(config={"name": "benchmark", "system_database_url": self._url, "log_level": "ERROR"})
        DBOS.listen_queues([QUEUE] if listen else ["nothing"])
        DBOS.launch()
        self._launched = True


if __name__ == "__main__":
    main(Peer)
