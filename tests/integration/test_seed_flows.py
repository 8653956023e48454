"""What the guide of another engine shows, in its order, with our names: users of that engine find what they know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, override

import pytest

from soliplex.ingester import Executor, Flow, FlowBuilder, PermanentError, Wait, Workflow, WorkflowDefinition
from soliplex.ingester.lib.wf.errors import CycleError
from tests.support.engine import assert_consistent, registry_in_use, rows_of
from tests.support.working import working

DEFINITION = {
    "version": "1.0",
    "title": "My Workflow",
    "steps": [
        {"name": "step1", "type": "task", "command": "cmd1"},
        {"name": "step2", "type": "task", "command": "cmd2", "dependencies": ["step1"]},
    ],
}
told: list[tuple[Any, ...]] = []
payments: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    told.clear()
    payments.clear()
    with registry_in_use():
        yield


class MyWorkflow(Workflow):
    """All four callbacks."""

    @override
    def definition(self) -> dict[str, Any]:
        return DEFINITION

    @override
    def execute_command(self, run_id: int, command: str, input: dict[str, Any], context: dict[str, Any]) -> Any:
        match command:
            case "cmd1" if input["input"] == "bad":
                raise PermanentError("bad input")
            case "cmd1":
                return {"of": input["input"], "step": context["step_name"]}
            case _:
                return {"after": input["step1"]}

    @override
    async def on_complete(self, run_id: int, output: dict[str, Any], context: dict[str, Any]) -> None:
        told.append(("complete", run_id, output))

    @override
    async def on_failure(self, run_id: int, error: dict[str, Any], context: dict[str, Any]) -> None:
        told.append(("failure", run_id, error["message"]))


def test_parse_and_validate_a_workflow() -> None:
    workflow = WorkflowDefinition.parse(DEFINITION)
    assert (workflow.id, workflow.meta["version"], workflow.dependencies) == (
        "my_workflow",
        "1.0",
        {"step1": (), "step2": ("step1",)},
    )


def test_cycle_detection() -> None:
    first, second = DEFINITION["steps"]
    steps = [{**first, "dependencies": ["step2"]}, second]  # pyright: ignore[reportGeneralTypeIssues]  a mapping
    with pytest.raises(CycleError, match="step1 -> step2 -> step1"):
        WorkflowDefinition.parse({**DEFINITION, "steps": steps})


async def test_start_and_execute_a_workflow(database: None) -> None:
    run_id = await Executor.start_workflow(MyWorkflow, {"input": "data"})
    executed = await Executor.execute_pending_tasks()
    run = await Executor.status(run_id)
    output = {"step2": {"after": {"of": "data", "step": "step1"}}}
    assert (executed, run.status, run.output, run.remaining_steps) == (2, "completed", output, 0)
    assert told == [("complete", run_id, output)]


async def test_when_any_step_fails(database: None) -> None:
    run_id = await Executor.start_workflow(MyWorkflow, {"input": "bad"})
    await Executor.execute_pending_tasks()
    run = await Executor.status(run_id)
    assert (run.status, run.failed_at is not None, run.completed_at) == ("failed", True, None)
    assert told == [("failure", run_id, "step 'step1' failed: bad input")]


async def test_counters_track_completion(database: None) -> None:
    """Task A completes: the run has one step less to go, and step B, which waits for somebody, one dependency less."""
    flow = Flow("counters")

    @flow.step
    async def a() -> int:
        return 1

    @flow.step
    async def b(a: int, answer: int | None) -> Any:
        return Wait("b") if answer is None else a + answer

    @flow.step
    async def c(b: int) -> int:
        return b + 1

    counters = "SELECT step_slug, remaining_deps FROM step_states ORDER BY id"
    run_id = await flow.start()
    assert (await Executor.status(run_id)).remaining_steps == 3
    assert await rows_of(counters) == [("a", 0), ("b", 1), ("c", 1)]
    await Executor.execute_pending_tasks()
    assert (await Executor.status(run_id)).remaining_steps == 2
    assert await rows_of(counters) == [("a", 0), ("b", 0), ("c", 1)]
    await Executor.signal("b", 40)
    async with working():
        assert (await Executor.wait(run_id, 60)).output == {"c": 42}


async def test_dynamic_workflows(database: None) -> None:
    await FlowBuilder.create_flow("dynamic")
    await FlowBuilder.add_step("dynamic", "fetch")
    await FlowBuilder.add_step("dynamic", "analyze", depends_on=["fetch"], step_type="map")
    await FlowBuilder.add_step("dynamic", "save", depends_on=["analyze"])
    functions = {
        "fetch": lambda pages: list(range(pages)),
        "analyze": lambda item: item * item,
        "save": lambda analyze: {"saved": sum(analyze)},
    }
    assert await Executor.execute_dynamic("dynamic", {"pages": 4}, functions, timeout=60) == {"save": {"saved": 14}}


async def test_step_functions_are_idempotent_by_a_deterministic_id(database: None) -> None:
    """A task that is tried again finds what it has done before."""
    flow = Flow("payments", max_attempts=2)

    @flow.map_step(over="amounts")
    def process_payment(item: int, context: dict[str, Any]) -> str:
        payment_id = f"{context['run_id']}-{context['item_index']}"
        payments[payment_id] += 1
        if context["attempt"] == 1 and item > 10:
            raise ConnectionError("the answer was lost")
        return payment_id

    run_id = await flow.start({"amounts": [5, 50]})
    async with working():
        run = await Executor.wait(run_id, 60)
    assert run.output == {"process_payment": [f"{run_id}-0", f"{run_id}-1"]}
    assert payments == {f"{run_id}-0": 1, f"{run_id}-1": 2}


async def test_a_task_that_fails_too_many_times_fails_the_run(database: None) -> None:
    flow = Flow("hopeless", max_attempts=2)
    flow.step(name="only")(hopeless)
    run_id = await flow.start()
    async with working():
        run = await Executor.wait(run_id, 60)
    assert (run.status, run.error, run.steps[0].attempt) == ("failed", "step 'only' failed: OSError: no use", 2)


async def hopeless() -> None:
    raise OSError("no use")


async def test_debugging_a_run(database: None) -> None:
    """The run, all its step states, its dependencies."""
    run_id = await Executor.start_workflow(MyWorkflow, {"input": "data"})
    await Executor.execute_pending_tasks()
    states = await rows_of("SELECT step_slug, status FROM step_states WHERE run_id = :run ORDER BY id", run=run_id)
    assert states == [("step1", "completed"), ("step2", "completed")]
    edges = await rows_of("SELECT step_slug, depends_on_step FROM step_dependencies WHERE run_id = :run", run=run_id)
    assert edges == [("step2", "step1")]
    await assert_consistent()
