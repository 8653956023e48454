"""Flows: graphs of functions, maps, and how long one call takes from its start to its output.

    python -m benchmarks.flows --database sqlite|postgres [--json] [--quick]

One worker of this process executes; each sample is on a fresh database.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from benchmarks import flow_functions, optimizing
from benchmarks.databases import Server, open_fresh
from benchmarks.driving import work_off
from benchmarks.measuring import Measure, run_benchmark
from benchmarks.report import Line, Result, Target, parse_options, show
from soliplex.ingester import Executor, Worker, WorkerConfig

LINES: Final = (
    Line(
        "steps/s, {dags} random flows of {dag_steps} functions, outputs passed along",
        "dag_steps_per_second",
        Target(8_000),
    ),
    Line("tasks/s, a map of {tasks:,}", "map_tasks_per_second", Target(15_000)),
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
    calls: int = 200
    optimizer_runs: int = 100


FULL: Final = Sizes()
QUICK: Final = Sizes(samples=2, dags=40, tasks=4_000, calls=50)


async def dag_steps_per_second(server: Server, sizes: Sizes) -> Result:
    """Random graphs of functions, each of which gets the outputs of those it depends on."""
    rates: list[float] = []
    for sample in range(sizes.samples):
        async with open_fresh(server):
            seeds = range(sample * sizes.dags, (sample + 1) * sizes.dags)
            runs = [await flow_functions.random_flow(sizes.dag_steps, seed).start({"n": 1}) for seed in seeds]
            rates.append((await work_off(sizes.dags * sizes.dag_steps)).rate)
            assert [(await Executor.wait(run_id, 30)).status for run_id in runs] == ["completed"] * sizes.dags
    return {"dag_steps_per_second": median(rates), "dag_steps_per_second_samples": rates}


async def map_tasks_per_second(server: Server, sizes: Sizes) -> Result:
    """One map over a list of numbers."""
    rates: list[float] = []
    for _ in range(sizes.samples):
        async with open_fresh(server):
            run_id = await flow_functions.squares.start({"numbers": list(range(sizes.tasks))})
            rates.append((await work_off(sizes.tasks)).rate)
            output = (await Executor.wait(run_id, 30)).output["square"]
            assert output == [number * number for number in range(sizes.tasks)]
    return {"map_tasks_per_second": median(rates), "map_tasks_per_second_samples": rates}


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
    "hello_latency_ms": hello_latency_ms,
    "optimizer": lambda server, sizes: optimizing.optimizer(server, sizes.optimizer_runs),
}


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    result = run_benchmark("flows", options, QUICK if options.quick else FULL, MEASURES)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
