"""The optimizer on a recorded workload: how much faster it says that runs become, and how much faster they become.

A flow of short steps, which stand first, beside a chain of long ones, of which one has hiccups: recorded, optimized to
the level `aggressive`, and recorded again. Its runs go one after the other, on as many slots as a worker has.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from benchmarks import optimizing_functions
from benchmarks.databases import Server, open_fresh
from benchmarks.report import Line, Result
from soliplex.ingester import Executor, Worker, WorkerConfig, at_work
from soliplex.ingester.goals.optimizer.optimizer import OrchestratorOptimizer
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import StepDefinition, WorkflowDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wiring import current_wiring

LINES: Final = (
    Line("times as fast after {optimizer_runs} runs, as the optimizer predicts", "optimizer_predicted_speedup"),
    Line("… as it is measured", "optimizer_measured_speedup"),
)
SLUG: Final = "recorded"
SHORTS: Final = 24


def workload() -> WorkflowDefinition:
    shorts = [f"short_{place}" for place in range(SHORTS)]
    steps = [
        _step("begin", "begin"),
        *(_step(name, "short", "begin") for name in shorts),
        _step("long", "long", "begin"),
        _step("longer", "longer", "long", "begin"),
        _step("longest", "longest", "longer", "long"),
        _step("packed", "packed", "longest"),
        _step("sent", "sent", "packed"),
    ]
    return workflow_from_steps(SLUG, steps)


def _step(name: str, function: str, *needs: str) -> StepDefinition:
    address = f"{optimizing_functions.__name__}:{function}"
    return StepDefinition(
        key=name,
        method=calling.CALL,
        type="flow",
        depends_on=needs,
        parameters={calling.FUNCTION: address},
        retries=3,
        timeout=timedelta(seconds=30),
        backoff=Backoff(timedelta(seconds=0.1), timedelta(seconds=5)),
    )


async def optimizer(server: Server, runs: int) -> Result:
    async with open_fresh(server):
        await operations.save_workflow(workload())
        slots = current_wiring().settings.worker_task_count  # with which the optimizer reckons, too
        async with at_work(Worker(WorkerConfig(consumers={"*": slots}))):
            await _record(runs)
            tried = await OrchestratorOptimizer.apply_optimization(SLUG, "aggressive", preserve_structure=False)
            await _record(runs)
        told = await OrchestratorOptimizer.get_recommendations(SLUG, "aggressive", preserve_structure=False)
        (found,) = [each for each in told.tried if each.id == tried.id]
        return {
            "optimizer_predicted_speedup": found.predicted_speedup,
            "optimizer_measured_speedup": found.measured_speedup,
            "optimizer": {"predicted_speedup": found.predicted_speedup, "measured_speedup": found.measured_speedup},
            "optimizer_standing": found.standing.value,
        }


async def _record(runs: int) -> None:
    for number in range(runs):
        run_id = await Executor.start_workflow(SLUG, {"number": number})
        assert (await Executor.wait(run_id, 60)).status == "completed"
