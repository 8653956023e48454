"""Flows that can be learned from, functions that any process can import, and runs of them that are over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from soliplex.ingester import Executor
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import StepDefinition, WorkflowDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.waiting import Again
from tests.support.engine import rows_of

HERE = __name__
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def number(n: int) -> int:
    return n


def once(number: int) -> int:
    return number + 1


def twice(once: int) -> int:
    return once * 2


def sums(number: int, twice: int) -> int:
    """Reads what two steps gave, one of which waits for the other."""
    return number + twice


def stepwise(number: int, state: Any) -> Any:
    """Asks to be called again twice."""
    rounds = 0 if state is None else state
    return Again(rounds + 1) if rounds < 2 else number + rounds


def step(name: str, function: str | None = None, *needs: str, **facts: Any) -> StepDefinition:
    usual: dict[str, Any] = {"retries": 3, "timeout": timedelta(seconds=300)}
    parameters = {calling.FUNCTION: f"{HERE}:{function or name}"}
    return StepDefinition(
        key=name, method=calling.CALL, type="flow", depends_on=needs, parameters=parameters, **(usual | facts)
    )


def chain(slug: str = "chain") -> WorkflowDefinition:
    """A chain of short steps, with an edge that follows from others and carries no data, and one that carries some."""
    return workflow_from_steps(
        slug,
        [
            step("number"),
            step("once", None, "number"),
            step("twice", None, "once", "number"),
            step("sums", None, "number", "twice"),
        ],
    )


async def record(slug: str, count: int, *, n: int = 3) -> list[int]:
    """Execute runs of a flow in this process."""
    ids = [await Executor.start_workflow(slug, {"n": n}) for _ in range(count)]
    await Executor.execute_pending_tasks()
    return ids


async def retime(run_ids: Sequence[int], seconds: float) -> None:
    """Let runs have taken so long, each a little longer: samples that are all the same say nothing of chance.

    And each step five milliseconds, one after the other, however busy the machine was.
    """
    for place, run_id in enumerate(run_ids):
        begins = BEGAN + timedelta(hours=place)
        ends = begins + timedelta(seconds=seconds * (1 + place / 1000))
        await rows_of(
            "UPDATE workflowrun SET start_date = :begins, completed_date = :ends WHERE id = :id RETURNING id",
            begins=begins,
            ends=ends,
            id=run_id,
        )
        for order, (step_id,) in enumerate(
            await rows_of("SELECT id FROM runstep WHERE workflow_run_id = :id ORDER BY id", id=run_id)
        ):
            start = begins + timedelta(milliseconds=10 * order)
            await rows_of(
                "UPDATE runstep SET start_date = :start, completed_date = :ends WHERE id = :id RETURNING id",
                start=start,
                ends=start + timedelta(milliseconds=5),
                id=step_id,
            )


async def save(flow: WorkflowDefinition) -> None:
    await operations.save_workflow(flow)


async def recorded_before(slug: str, step_name: str, runs: int) -> None:
    """So many runs of the flow were pruned."""
    await rows_of(
        "INSERT INTO stepprofile (workflow_id, step_name, step_type, day, status, bucket, steps, attempts, seconds) "
        "VALUES (:slug, :step, 'flow', '2030-01-01', 'COMPLETED', 1, :runs, 0, 0.1) RETURNING steps",
        slug=slug,
        step=step_name,
        runs=runs,
    )
