"""`python -m soliplex.ingester.example`: start `test_wf` a thousand times, work it off, and show how it goes.

It needs no service and leaves its rows in the database of the settings, to be looked at.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from soliplex.ingester.lib.models import Database, RunGroup, RunStatus
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.runner import Worker

RUNS = 1_000


async def main(console: Console) -> int:
    await Database.initialize(migrate=True)
    registry = get_registry()
    workflow, params = registry.workflow("test_wf"), registry.parameter_set("test_base")
    worker = Worker()
    await worker.start()
    try:
        runs = [operations.NewRun(doc_id=f"sha256-example-{number}") for number in range(RUNS)]
        started = time.perf_counter()
        created = await operations.create_run_group(workflow, params, runs, name="example")
        group = await watch(created.group_id, console)
        seconds = time.perf_counter() - started
    finally:
        await worker.stop()
        await Database.close()
    steps = RUNS * len(workflow.steps)
    console.print(
        f"run group {group.id}: {group.status}, {RUNS} runs of {len(workflow.steps)} steps in {seconds:.2f} s"
        f" ({steps / seconds:,.0f} durable steps a second)",
        soft_wrap=True,
    )
    return 0 if group.status is RunStatus.COMPLETED else 1


async def watch(group_id: int, console: Console) -> RunGroup:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        shown = progress.add_task("runs", total=RUNS)
        while True:
            async with Database.session(read_only=True) as session:
                group = await session.get_one(RunGroup, group_id)
            progress.update(shown, completed=group.total_runs - group.remaining_runs)
            if group.status.is_final:
                return group
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Console())))
