"""The workflow engine: how much it does in a second, how soon it begins, and what slows it down.

    python -m benchmarks.engine --database sqlite|postgres [--json] [--quick] [--peers] [--only MEASURE ...]

Handlers do nothing, so the engine alone is measured. Each measure has a database to itself; a rate is the median of
its samples.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final

import asyncpg
from sqlmodel import select

from benchmarks import peers, workflows
from benchmarks.databases import Server, open_fresh, opened
from benchmarks.driving import (
    Progress,
    expect_completed,
    fill_backlog,
    fill_history,
    fill_parked,
    start_group,
    status_of,
    work_off,
)
from benchmarks.measuring import Measure, percentiles, run_benchmark
from benchmarks.report import Line, Options, Result, Target, parse_options, show
from benchmarks.worker_process import PATIENCE, WorkerProcess
from soliplex.ingester.lib.models import Database, RunStatus, RunStep
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.operations.finish import finish_script
from soliplex.ingester.lib.wf.presence import connection_arguments
from soliplex.ingester.lib.wf.work import ClaimedStep, Completed

CLAIM: Final = 400
"""Steps in a claim where the benchmark itself claims: as many as a worker takes by default."""
RAW_CLAIM: Final = 100

LINES: Final = (
    Line("steps/s, {runs:,} five-step workflows", "steps_per_second", Target(10_000)),
    Line("tasks/s, {tasks:,} one-step workflows", "tasks_per_second", Target(15_000, databases=("postgres",))),
    Line("tasks/s of one map of {items:,}", "map_tasks_per_second", Target(10_000)),
    Line("rate with {backlog:,} ready / with {small_backlog:,}", "backlog_ratio", Target(0.9)),
    Line("rate with {parked:,} parked steps / without", "parked_ratio", Target(0.95)),
    Line("signal → handler called again, p50, ms", "signal_latency_ms.p50", Target(10, at_most=True)),
    Line("… p95, ms", "signal_latency_ms.p95"),
    Line(
        "steps/s, {dags} random DAGs of {dag_steps} steps, outputs passed along", "dag_steps_per_second", Target(8_000)
    ),
    Line("rate with {history:,} finished steps / with {small_backlog:,}", "history_ratio", Target(0.95)),
    Line("rate with an old snapshot open / without", "held_snapshot_ratio", Target(0.4, databases=("postgres",))),
    Line("… of the last third of {held_steps:,} claims", "held_snapshot_ratio_at_end"),
    Line("enqueue → start in another process, p50, ms", "start_latency_ms.p50", Target(3, at_most=True)),
    Line("… p95, ms", "start_latency_ms.p95", Target(6, at_most=True)),
    Line("runs/s started, {documents:,} of five steps in a call", "create_runs_per_second", Target(5_000)),
    Line("SIGKILL → all finished elsewhere, p50, s", "recovery_seconds.p50", Target(3, at_most=True)),
    Line("… p95, s", "recovery_seconds.p95", Target(3, at_most=True)),
    Line("steps of a group of {big_group:,} before a later group of {small_group}", "fairness"),
    Line("steps/s of the statements alone, in batches of 100", "raw_limit"),
    Line("processor time of the worker's process, µs a step", "python_us_per_step"),
    Line("… µs a one-step task", "python_us_per_task"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    samples: int = 5
    """How often a rate is measured."""
    runs: int = 1_000
    tasks: int = 20_000
    backlog: int = 1_000_000
    small_backlog: int = 5_000
    backlog_steps: int = 10_000
    """Steps done in front of the backlog, in each sample."""
    starts: int = 100
    documents: int = 5_000
    recoveries: int = 5
    in_flight: int = 10
    items: int = 5_000
    big_group: int = 100_000
    small_group: int = 10
    held_steps: int = 60_000
    parked: int = 1_000_000
    signals: int = 100
    dags: int = 100
    dag_steps: int = 50
    history: int = 5_000_000


FULL: Final = Sizes()
QUICK: Final = Sizes(
    samples=3,
    tasks=4_000,
    backlog=100_000,
    backlog_steps=4_000,
    starts=40,
    documents=2_000,
    recoveries=2,
    items=2_000,
    big_group=20_000,
    held_steps=15_000,
    parked=100_000,
    signals=40,
    dags=40,
    history=200_000,
)


async def steps_per_second(server: Server, sizes: Sizes) -> Result:
    """Five-step workflows, by one worker from its start to the end of the group."""
    async with _warm(server):
        samples = [await _work_off_group(workflows.FIVE_STEPS, sizes.runs) for _ in range(sizes.samples)]
    used = median(sample.python_us_per_step for sample in samples)
    return _rates("steps_per_second", samples) | {"python_us_per_step": used}


async def tasks_per_second(server: Server, sizes: Sizes) -> Result:
    """One-step workflows, from a backlog."""
    async with _warm(server):
        samples = [await _work_off_group(workflows.ONE_STEP, sizes.tasks) for _ in range(sizes.samples)]
    used = median(sample.python_us_per_step for sample in samples)
    return _rates("tasks_per_second", samples) | {"python_us_per_task": used}


async def map_tasks_per_second(server: Server, sizes: Sizes) -> Result:
    """The tasks of one map step: expanding it, executing them, gathering their results."""
    samples: list[Progress] = []
    async with _warm(server):
        for _ in range(sizes.samples):
            run = operations.NewRun(input=list(range(sizes.items)))
            created = await operations.create_run_group(workflows.MAP, None, [run])
            samples.append(await work_off(sizes.items + 1))
            await expect_completed(created.group_id)
    return _rates("map_tasks_per_second", samples)


@asynccontextmanager
async def _warm(server: Server) -> AsyncGenerator[None]:
    """A fresh database, with everything used once: what is loaded or prepared at first use is no part of a rate."""
    async with open_fresh(server):
        await _work_off_group(workflows.FIVE_STEPS, 20)
        yield


async def _work_off_group(workflow: WorkflowDefinition, runs: int) -> Progress:
    group_id = await start_group(workflow, runs)
    progress = await work_off(runs * len(workflow.steps))
    await expect_completed(group_id)
    return progress


def _rates(name: str, samples: Sequence[Progress]) -> Result:
    rates = [sample.rate for sample in samples]
    return {name: median(rates), f"{name}_samples": rates}


async def backlog_ratio(server: Server, sizes: Sizes) -> Result:
    """What a large backlog behind the steps that are done costs."""
    done = sizes.samples * sizes.backlog_steps
    small, large = await _rates_by_turns(
        server,
        sizes,
        lambda: fill_backlog(sizes.small_backlog + done),
        lambda: fill_backlog(sizes.backlog + done),
    )
    samples = {"small": small, "large": large}
    return {"backlog_ratio": _ratio(large, small), "backlog_ratio_samples": samples}


async def parked_ratio(server: Server, sizes: Sizes) -> Result:
    """What steps that wait for a signal cost those that do not."""
    without, with_parked = await _rates_by_turns(
        server,
        sizes,
        lambda: _fill_beside(sizes),
        lambda: _fill_beside(sizes, parked=sizes.parked),
    )
    samples = {"without": without, "with": with_parked}
    return {"parked_ratio": _ratio(with_parked, without), "parked_ratio_samples": samples}


async def history_ratio(server: Server, sizes: Sizes) -> Result:
    """What a long history costs."""
    short, long = await _rates_by_turns(
        server,
        sizes,
        lambda: _fill_beside(sizes, finished=sizes.small_backlog),
        lambda: _fill_beside(sizes, finished=sizes.history),
    )
    return {"history_ratio": _ratio(long, short), "history_ratio_samples": {"short": short, "long": long}}


async def _fill_beside(sizes: Sizes, *, parked: int = 0, finished: int = 0) -> None:
    if parked:
        await fill_parked(parked)
    if finished:
        await fill_history(finished)
    # A worker that is told to stop has done more than was asked for.
    await fill_backlog(2 * sizes.samples * sizes.backlog_steps)


async def _rates_by_turns(
    server: Server, sizes: Sizes, *fillings: Callable[[], Awaitable[object]]
) -> tuple[list[float], ...]:
    """The rates in databases that are filled so, measured by turns: a machine that others share changes its speed."""
    rates: tuple[list[float], ...] = tuple([] for _ in fillings)
    async with AsyncExitStack() as open_databases:
        urls = [await open_databases.enter_async_context(server.database()) for _ in fillings]
        for url, fill in zip(urls, fillings, strict=True):
            async with opened(url):
                await _work_off_group(workflows.FIVE_STEPS, 20)
                await fill()
        for number in range(sizes.samples):
            turns = list(zip(urls, rates, strict=True))
            for url, samples in turns if number % 2 else reversed(turns):
                async with opened(url):
                    samples.append((await work_off(sizes.backlog_steps)).rate)
    return rates


def _ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    """What is typical of the turns: within one, the machine is about as fast for both."""
    return median(rate / other for rate, other in zip(rates, others, strict=True))


async def signal_latency_ms(server: Server, sizes: Sizes) -> Result:
    """From the call that sends a signal to the next call of the handler that waits for it, in another process."""
    delays: list[float] = []
    async with open_fresh(server) as url, WorkerProcess.load(url) as worker:
        await worker.start()
        for number in range(sizes.signals):
            key = f"key-{number}"
            await operations.create_run_group(workflows.WAITING, None, [operations.NewRun(input={"key": key})])
            await _until_parked(key)
            await asyncio.sleep(random.uniform(0.02, 0.06))
            asked = time.monotonic_ns()
            await operations.send_signal(key)
            delays.append((await worker.next_start() - asked) / 1e6)
    return {"signal_latency_ms": percentiles(delays)}


async def _until_parked(key: str) -> None:
    waiting = select(RunStep.id).where(RunStep.awaits == key)
    async with asyncio.timeout(PATIENCE):
        while True:
            async with Database.session(read_only=True) as session:
                if (await session.exec(waiting)).first() is not None:
                    return
            await asyncio.sleep(0.005)


async def dag_steps_per_second(server: Server, sizes: Sizes) -> Result:
    """Random graphs, each step of which gets the outputs of those it depends on."""
    samples: list[Progress] = []
    async with _warm(server):
        for seed in range(sizes.samples):
            flows = [workflows.random_dag(sizes.dag_steps, seed * sizes.dags + number) for number in range(sizes.dags)]
            groups = [
                (await operations.create_run_group(flow, None, [operations.NewRun(input={"n": 1})])).group_id
                for flow in flows
            ]
            samples.append(await work_off(sizes.dags * sizes.dag_steps))
            for group_id in groups:
                await expect_completed(group_id)
    return _rates("dag_steps_per_second", samples)


async def held_snapshot_ratio(server: Server, sizes: Sizes) -> Result:
    """What it costs that a transaction stays open which may still look at everything that was: a long report."""
    if not server.version.startswith("PostgreSQL"):
        return {"held_snapshot_ratio": None, "held_snapshot_ratio_at_end": None}
    without = await _work_off_fresh(server, sizes.held_steps, hold=False)
    held = await _work_off_fresh(server, sizes.held_steps, hold=True)
    late = sizes.held_steps * 2 // 3
    return {
        "held_snapshot_ratio": held.rate / without.rate,
        "held_snapshot_ratio_at_end": held.rate_after(late) / without.rate_after(late),
    }


async def _work_off_fresh(server: Server, steps: int, *, hold: bool) -> Progress:
    async with _warm(server):
        await fill_backlog(steps + CLAIM)
        if not hold:
            return await work_off(steps)
        reader = await asyncpg.connect(**connection_arguments(Database.url()))
        try:
            async with reader.transaction(isolation="repeatable_read", readonly=True):
                await reader.fetchval("SELECT count(*) FROM runstep")
                return await work_off(steps)
        finally:
            await reader.close()


async def start_latency_ms(server: Server, sizes: Sizes) -> Result:
    """From the call that starts a run to the call of its handler by an idle worker in another process."""
    delays: list[float] = []
    async with open_fresh(server) as url, WorkerProcess.load(url) as worker:
        await worker.start()
        for _ in range(sizes.starts):
            await asyncio.sleep(random.uniform(0.02, 0.06))
            asked = time.monotonic_ns()
            await operations.create_run_group(workflows.REPORTING, None, [operations.NewRun()])
            delays.append((await worker.next_start() - asked) / 1e6)
    return {"start_latency_ms": percentiles(delays)}


async def create_runs_per_second(server: Server, sizes: Sizes) -> Result:
    """Documents for which a five-step workflow is started, in one call."""
    rates: list[float] = []
    async with _warm(server):
        for _ in range(sizes.samples):
            began = time.perf_counter()
            await start_group(workflows.FIVE_STEPS, sizes.documents)
            rates.append(sizes.documents / (time.perf_counter() - began))
    return {"create_runs_per_second": median(rates), "create_runs_per_second_samples": rates}


async def recovery_seconds(server: Server, sizes: Sizes) -> Result:
    """From the SIGKILL of a worker to the end of what it was executing, by a worker that had nothing to do."""
    seconds = [await _recover(server, sizes.in_flight) for _ in range(sizes.recoveries)]
    return {"recovery_seconds": percentiles(seconds), "recovery_seconds_samples": seconds}


async def _recover(server: Server, in_flight: int) -> float:
    async with (
        open_fresh(server) as url,
        WorkerProcess.load(url, slots=in_flight, block=True) as victim,
        WorkerProcess.load(url, slots=in_flight) as heir,
    ):
        await victim.start()
        group_id = await start_group(workflows.REPORTING, in_flight)
        for _ in range(in_flight):
            await victim.next_start()
        await heir.start()
        await asyncio.sleep(random.uniform(0.5, 1.0))  # at no particular moment of the heir's rounds
        victim.kill()
        return await _seconds_until_completed(group_id)


async def _seconds_until_completed(group_id: int) -> float:
    began = time.perf_counter()
    async with asyncio.timeout(PATIENCE):
        while await status_of(group_id) is not RunStatus.COMPLETED:  # noqa: ASYNC110  it happens in another process
            await asyncio.sleep(0.01)
    return time.perf_counter() - began


async def fairness(server: Server, sizes: Sizes) -> Result:
    """How many steps of a large group are claimed before all of a small one that starts later."""
    async with open_fresh(server):
        await fill_backlog(sizes.big_group)
        pool = operations.Pool()
        for _ in range(10):
            await _finish(await _claim(pool))
        under_way = await _claim(pool)
        small = await start_group(workflows.ONE_STEP, sizes.small_group)
        await _finish(under_way)
        claimed: list[int] = []
        while claimed.count(small) < sizes.small_group:
            steps = await _claim(pool)
            claimed += [step.group_id for step in steps]
            await _finish(steps)
    last = len(claimed) - claimed[::-1].index(small)
    return {"fairness": last - sizes.small_group}


async def _claim(pool: operations.Pool) -> list[ClaimedStep]:
    steps = (await operations.claim_steps("benchmark", pool, CLAIM)).steps
    if not steps:
        raise RuntimeError("nothing is left to be claimed")
    return steps


async def _finish(steps: Sequence[ClaimedStep]) -> None:
    await operations.finish_steps(_completed(steps))


def _completed(steps: Sequence[ClaimedStep]) -> list[Completed]:
    return [Completed(step_id=step.id, run_id=step.run_id, lease=step.lease) for step in steps]


async def raw_limit(server: Server, sizes: Sizes) -> Result:
    """The claiming and finishing statements on one connection, with no worker and no handlers around them."""
    rates: list[float] = []
    async with _warm(server):
        for _ in range(sizes.samples):
            group_id = await start_group(workflows.FIVE_STEPS, sizes.runs)
            rates.append(await _drive_scripts(sizes.runs * len(workflows.FIVE_STEPS.steps)))
            await expect_completed(group_id)
    return {"raw_limit": median(rates), "raw_limit_samples": rates}


async def _drive_scripts(steps: int) -> float:
    pool, done = operations.Pool(), 0
    async with Database.link() as link:
        began = time.perf_counter()
        while done < steps:
            claim = await operations.claim_steps("benchmark", pool, RAW_CLAIM, link=link)
            finished = await link.transact(finish_script(_completed(claim.steps), now=utcnow()))
            done += len(finished.completed)
        return done / (time.perf_counter() - began)


MEASURES: Final[dict[str, Measure[Sizes]]] = {
    "steps_per_second": steps_per_second,
    "tasks_per_second": tasks_per_second,
    "map_tasks_per_second": map_tasks_per_second,
    "backlog_ratio": backlog_ratio,
    "parked_ratio": parked_ratio,
    "signal_latency_ms": signal_latency_ms,
    "dag_steps_per_second": dag_steps_per_second,
    "history_ratio": history_ratio,
    "held_snapshot_ratio": held_snapshot_ratio,
    "start_latency_ms": start_latency_ms,
    "create_runs_per_second": create_runs_per_second,
    "recovery_seconds": recovery_seconds,
    "fairness": fairness,
    "raw_limit": raw_limit,
}


def measure(options: Options) -> Result:
    """All that is asked for, as one JSON object."""
    workflows.register()

    def measure_peers(server: Server) -> Result:
        return asyncio.run(peers.measure_all(options.database, server.database, quick=options.quick))

    sizes = QUICK if options.quick else FULL
    return run_benchmark("engine", options, sizes, MEASURES, peers=measure_peers if options.peers else None)


def main() -> int:
    options = parse_options(__doc__ or "", MEASURES)
    result = measure(options)
    show(result, LINES, as_json=options.as_json)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
