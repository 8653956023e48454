"""Flows: graphs of functions, maps, and how long one call takes from its start to its output.

    python -m benchmarks.flows --database sqlite|postgres [--json] [--quick] [--peers]

One worker of this process executes; each sample is on a fresh database. The first is not counted: it pays for imports.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Final

from benchmarks import flow_functions, optimizing, peers
from benchmarks.databases import Server, open_fresh
from benchmarks.driving import work_off
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.report import Line, Result, Target, parse_options, show
from soliplex.ingester import Database, Executor, Worker, WorkerConfig
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.operations.task_queues import open_queue
from soliplex.ingester.lib.wf.task_queues import install_pgmq

LINES: Final = (
    Line(
        "steps/s, {dags} random flows of {dag_steps} functions, outputs passed along",
        "dag_steps_per_second",
        Target(8_000),
    ),
    Line("tasks/s, a map of {tasks:,}", "map_tasks_per_second", Target(15_000)),
    Line("steps/s, a map of {queued:,} in a queue of pgmq, workers in SQL", "pgmq_steps_per_second"),
    Line("ms from the start of a flow of one function to its output, p50", "hello_latency_ms"),
    Line("… p95", "hello_latency_ms_p95"),
    *optimizing.LINES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    samples: int = 5
    dags: int = 100
    dag_steps: int = 50
    tasks: int = 10_000
    queued: int = 10_000
    calls: int = 200
    optimizer_runs: int = 100


FULL: Final = Sizes()
QUICK: Final = Sizes(samples=2, dags=40, tasks=4_000, queued=2_000, calls=50)
SQL_WORKERS: Final = 2
"""Connections that do nothing but read tasks of the queue and complete them, a hundred at a time."""


async def dag_steps_per_second(server: Server, sizes: Sizes) -> Result:
    """Random graphs of functions, each of which gets the outputs of those it depends on."""
    rates: list[float] = []
    for sample in range(sizes.samples + 1):
        async with open_fresh(server):
            seeds = range(sample * sizes.dags, (sample + 1) * sizes.dags)
            runs = [await flow_functions.random_flow(sizes.dag_steps, seed).start({"n": 1}) for seed in seeds]
            rates.append((await work_off(sizes.dags * sizes.dag_steps)).rate)
            assert [(await Executor.wait(run_id, 30)).status for run_id in runs] == ["completed"] * sizes.dags
    return _rate("dag_steps_per_second", rates)


def _rate(name: str, rates: list[float]) -> Result:
    """All but the first."""
    return {name: median(rates[1:]), f"{name}_samples": rates[1:]}


async def map_tasks_per_second(server: Server, sizes: Sizes) -> Result:
    """One map over a list of numbers."""
    rates: list[float] = []
    for _ in range(sizes.samples + 1):
        async with open_fresh(server):
            run_id = await flow_functions.squares.start({"numbers": list(range(sizes.tasks))})
            rates.append((await work_off(sizes.tasks)).rate)
            output = (await Executor.wait(run_id, 30)).output["square"]
            assert output == [number * number for number in range(sizes.tasks)]
    return _rate("map_tasks_per_second", rates)


async def pgmq_steps_per_second(server: Server, sizes: Sizes) -> Result:
    """A map whose tasks go through a queue of pgmq to workers that know nothing but SQL; null on SQLite."""
    rates: list[float] = []
    for _ in range(sizes.samples + 1):
        async with open_fresh(server):
            if not Database.is_postgres():
                return {"pgmq_steps_per_second": None}
            async with _sql_workers():
                run_id = await flow_functions.queued.start({"numbers": list(range(sizes.queued))})
                rates.append((await work_off(sizes.queued)).rate)
            output = (await Executor.wait(run_id, 30)).output["elsewhere"]
            assert output == [number * number for number in range(sizes.queued)]
    return _rate("pgmq_steps_per_second", rates)


@asynccontextmanager
async def _sql_workers() -> AsyncGenerator[None]:
    """Workers of the queue, for the time of the block."""
    await install_pgmq()
    await Database.transact(open_queue("bench", utcnow()))
    workers = [asyncio.create_task(_work_in_sql()) for _ in range(SQL_WORKERS)]
    try:
        yield
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _work_in_sql() -> None:
    async with Database.engine().connect() as connection:
        raw: Any = (await connection.get_raw_connection()).driver_connection
        while True:
            if not await raw.fetchval(IN_SQL):
                await asyncio.sleep(0.01)


async def hello_latency_ms(server: Server, sizes: Sizes) -> Result:
    """From the start of a flow of one function to its output, one after the other, with an idle worker."""
    taken: list[float] = []
    async with open_fresh(server):
        worker = Worker(WorkerConfig(consumers={"*": 5}))
        await worker.start()
        try:
            for number in range(sizes.calls + 10):
                began = time.perf_counter()
                run = await Executor.wait(await flow_functions.greeting.start({"name": str(number)}), 30)
                taken.append((time.perf_counter() - began) * 1e3)
                assert run.output == {"hello": f"hello {number}"}
        finally:
            await worker.stop()
    warm = taken[10:]
    return {"hello_latency_ms": median(warm), "hello_latency_ms_p95": quantiles(warm, n=20)[-1]}


MEASURES: Final[dict[str, Measure[Sizes]]] = {
    "dag_steps_per_second": dag_steps_per_second,
    "map_tasks_per_second": map_tasks_per_second,
    "pgmq_steps_per_second": pgmq_steps_per_second,
    "hello_latency_ms": hello_latency_ms,
    "optimizer": lambda server, sizes: optimizing.optimizer(server, sizes.optimizer_runs),
}
IN_SQL: Final = """
WITH done AS MATERIALIZED (
    SELECT complete_task(CAST(message ->> 'step_state_id' AS bigint), CAST(message ->> 'step_task_id' AS bigint),
                         to_jsonb(number * number))
      FROM pgmq.read('bench', 60, 100) CROSS JOIN LATERAL (
               SELECT CAST(input AS text)::int AS number FROM runstep
                WHERE id = CAST(message ->> 'step_task_id' AS bigint)) AS given
)
SELECT count(*) FROM done
"""


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)

    def measure_peers(server: Server) -> Result:
        return asyncio.run(peers.measure_flows(options.database, server.database, quick=options.quick))

    sizes = QUICK if options.quick else FULL
    result = run_benchmark("flows", options, sizes, MEASURES, peers=measure_peers if options.peers else None)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
