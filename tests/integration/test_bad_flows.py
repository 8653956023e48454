"""Flows that are wrong, or very large: a precise error, and the run ends or waits visibly; what is large just works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from soliplex.ingester import Database, Executor, Flow, PermanentError, WorkflowDefinition
from soliplex.ingester.lib.wf.flows import functions
from soliplex.ingester.lib.wf.handlers import resolve
from tests.support import flow_functions
from tests.support.engine import assert_consistent, registry_in_use, rows_of
from tests.support.faults import resident_mib
from tests.support.flow_functions import PRIME, mixed
from tests.support.random_flows import MAP, expected_outputs, random_flow
from tests.support.working import until, working

HERE = "tests.support.flow_functions."


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


def flow_of(*steps: dict[str, Any]) -> WorkflowDefinition:
    return WorkflowDefinition.parse({"id": "bad", "title": "Bad", "steps": list(steps)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"numbers": 3}, "step 'one' maps over the run's input, key 'numbers', which is not a list but int"),
        ({"other": [3]}, "step 'one' maps over the run's input, key 'numbers', which is not a list but NoneType"),
        ("text", "step 'one' maps over the run's input, key 'numbers', which is not a list but NoneType"),
    ],
)
async def test_a_map_over_something_that_is_no_list_fails_its_run_with_what_it_is(
    database: None, given: Any, words: str
) -> None:
    flow = Flow("maps")

    @flow.map_step(over="numbers", optional=True)
    async def one(item: int) -> int:
        return item

    @flow.map_step(over="one")
    async def two(item: int) -> int:
        return item

    run_id = await flow.start(given)
    await Executor.execute_pending_tasks()
    run = await Executor.status(run_id)
    assert run.status == "failed"
    assert [step.error for step in run.steps] == [
        words,
        "step 'two' maps over the output of step 'one', which is not a list but NoneType",
    ]
    assert (
        run.error
        == "step 'two' failed: step 'two' maps over the output of step 'one', which is not a list but NoneType"
    )
    with pytest.raises(
        PermanentError, match=r"maps over the (run's input, key 'numbers'|output of step 'one'), which is"
    ):
        await flow.call(given)


async def test_a_map_of_a_hundred_thousand_items_just_works(database: type[Database]) -> None:
    flow = flow_of({"name": "s1", "type": "map", "command": MAP})
    run_id = await Executor.start_workflow(flow, list(range(100_000)))
    before = resident_mib()
    assert await Executor.execute_pending_tasks() == 100_001
    run = await Executor.status(run_id)
    assert (run.status, [step.name for step in run.steps]) == ("completed", ["s1"])
    assert run.output["s1"] == [mixed(1, item) for item in range(100_000)]
    assert resident_mib() - before < 200, "neither tasks nor their results are held all at once"


async def test_a_graph_of_five_thousand_steps_just_works(database: None) -> None:
    flow = random_flow(seed=17, steps=5_000)
    run_id = await Executor.start_workflow(flow, {"seed": 1})
    await Executor.execute_pending_tasks()
    run = await Executor.status(run_id)
    expected = expected_outputs(flow)
    assert (run.status, len(run.steps), run.remaining_steps) == ("completed", 5_000, 0)
    assert run.output == {step.key: expected[step.key] for step in flow.leaf_steps}
    assert all(number < PRIME for number in expected.values() if isinstance(number, int))


def forget_imports() -> None:
    """As in a process that has just begun."""
    resolve.cache_clear()
    functions.imported.cache_clear()


async def test_a_function_that_a_deploy_has_lost_is_waited_for_and_then_missed_by_name(
    database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a flow of functions and of one as JSON; once it is back, a retry goes on."""
    made = Flow("doubles")
    made.step(flow_functions.doubled)
    told = flow_of({"name": "doubled", "type": "task", "command": HERE + "doubled"})
    runs = [await Executor.start_workflow(each, {"number": 4}) for each in (made, told)]
    both_wait = "SELECT 1 WHERE (SELECT count(*) FROM runstep WHERE status_message LIKE 'waits%') = 2"
    with monkeypatch.context() as lost:
        lost.delattr(flow_functions, "doubled")
        forget_imports()
        async with working(step_patience=3600):
            await until(lambda: rows_of(both_wait))
        for run_id in runs:
            (step,) = (await Executor.status(run_id)).steps
            assert (step.status, step.attempt, step.error) == ("pending", 0, None)
            assert step.message is not None
            assert step.message.startswith("waits for a worker that can execute it: ")
        await rows_of("UPDATE runstep SET available_at = NULL RETURNING id")
        async with working(step_patience=0):
            errors = [str((await Executor.wait(run_id, 60)).error) for run_id in runs]
    forget_imports()
    for error in errors:
        assert "doubled" in error
        assert "cannot be imported: " in error
        assert "has no attribute 'doubled'" in error
        assert error.endswith("put it in place, then retry the run")
    for run_id in runs:
        await Executor.retry(run_id)
    await Executor.execute_pending_tasks()
    assert [(await Executor.status(run_id)).output for run_id in runs] == [{"doubled": 8}] * 2
    await assert_consistent()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({1, 2}, "Object of type set is not JSON serializable"),
        (float("nan"), "Out of range float values are not JSON compliant"),
        ({"a": "\x00"}, "must not hold NUL"),
        ("\ud83d", "must not hold unpaired surrogates"),
        ({"a": object}, "Object of type type is not JSON serializable"),
        ({":payload": 1}, "has the key ':payload', which is kept for references; rename it"),
    ],
)
async def test_an_output_that_is_no_json_fails_its_run_at_once_with_why(
    database: None, output: Any, words: str
) -> None:
    flow = Flow("outputs", max_attempts=5)

    @flow.step
    async def odd() -> Any:
        return output

    run_id = await flow.start()
    assert await Executor.execute_pending_tasks() == 1
    run = await Executor.status(run_id)
    assert (run.status, run.steps[0].attempt) == ("failed", 1)
    assert run.error is not None
    assert run.error.startswith("step 'odd' failed: the handler's result ")
    assert words in run.error
