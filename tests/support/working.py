"""A real worker for a test, and what becomes of the runs that it executes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from soliplex.ingester.lib.models import Database, WorkflowRun
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from tests.support.engine import workflow

HANDLERS = "tests.support.handlers."


@asynccontextmanager
async def working(**config: Any) -> AsyncGenerator[Worker]:
    chosen: dict[str, Any] = {"consumers": {"*": 5}, "liveness_interval": 0.05, **config}
    worker = Worker(WorkerConfig(**chosen))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(5)


async def start(handler: str, count: int = 1, **facts: Any) -> list[int]:
    flow = workflow({"step": {"method": HANDLERS + handler, **facts}}, workflow_id=handler)
    return (await ops.create_run_group(flow, None, [ops.NewRun(input={}) for _ in range(count)])).run_ids


async def run_of(run_id: int) -> WorkflowRun:
    async with Database.session(read_only=True) as session:
        return await session.get_one(WorkflowRun, run_id)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(300):
        while not await condition():  # noqa: ASYNC110  the database is asked, which tells nobody of its changes
            await asyncio.sleep(0.005)


async def ended(run_id: int) -> WorkflowRun:
    async def is_final() -> bool:
        return (await run_of(run_id)).status.is_final

    await until(is_final)
    return await run_of(run_id)
