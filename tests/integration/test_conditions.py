"""Steps with conditions and loops, with a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from soliplex.ingester.lib.models import Database, RunStatus, RunStep
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.views import steps_of_runs
from tests.integration.test_waiting_steps import ended, working
from tests.support import handlers
from tests.support.engine import assert_consistent, registry_in_use, workflow

HANDLERS = "tests.support.handlers."


@pytest.fixture(autouse=True)
def fresh_handlers() -> Iterator[None]:
    handlers.reset()
    with registry_in_use():
        yield
    handlers.reset()


async def run(steps: dict[str, dict[str, Any]], given: Any = None, **options: Any) -> tuple[Any, dict[str, RunStep]]:
    """Run a workflow to its end; gives the run, and its steps by name."""
    facts = {key: {"method": HANDLERS + "echo", **each} for key, each in steps.items()}
    started = await ops.start_run(workflow(facts), run=ops.NewRun(input=given, **options))
    async with working():
        ended_run = await ended(started.run_id)
    steps_of = (await steps_of_runs([started.run_id]))[started.run_id]
    await assert_consistent()
    return ended_run, {step.workflow_step_name: step for step in steps_of if step.parent_step_id is None}


async def test_a_step_whose_condition_does_not_hold_is_skipped_and_says_so(database: type[Database]) -> None:
    done, steps = await run(
        {
            "words": {"depends_on": []},
            "long": {"depends_on": ["words"], "when": "size(words.text) > 100"},
            "short": {"depends_on": ["words"], "when": "size(words.text) <= 100"},
            "join": {"depends_on": ["long", "short"]},
        },
        {"text": "to be or not"},
    )
    assert done.status == RunStatus.COMPLETED
    skipped = steps["long"]
    assert (skipped.status, skipped.output) == (RunStatus.COMPLETED, None)
    assert skipped.status_message == "skipped: size(words.text) > 100 is false"
    assert skipped.status_meta["skipped"] == "size(words.text) > 100"
    assert steps["short"].output is not None
    assert steps["join"].output["long"] is None
    assert "skipped" not in steps["short"].status_meta


async def test_a_condition_may_ask_for_input_and_parameters(database: type[Database]) -> None:
    done, steps = await run(
        {
            "a": {"depends_on": [], "when": 'input.kind == "pdf" && kind == "pdf" && params.level > 2'},
            "b": {"depends_on": [], "when": "params.level > 3"},
        },
        {"kind": "pdf"},
        params={"level": 3},
    )
    assert done.status == RunStatus.COMPLETED
    assert (steps["a"].output is None, steps["b"].output is None) == (False, True)


async def test_a_condition_that_names_what_is_not_there_fails_its_step_with_the_names_there_are(
    database: type[Database],
) -> None:
    done, steps = await run({"a": {"when": "colour == 'red'"}}, {"size": 3})
    assert done.status == RunStatus.FAILED
    message = steps["a"].status_message or ""
    assert "the condition \"colour == 'red'\" cannot be evaluated" in message
    assert "'colour'" in message
    assert "known are: input, params, size" in message
    assert steps["a"].retry == 1


async def test_a_condition_that_gives_no_truth_value_fails_its_step(database: type[Database]) -> None:
    done, steps = await run({"a": {"when": "size"}}, {"size": 3})
    assert done.status == RunStatus.FAILED
    assert "gives 3; it must give true or false" in (steps["a"].status_message or "")


async def test_a_map_step_may_be_skipped_as_a_whole(database: type[Database]) -> None:
    done, steps = await run({"m": {"map": "items", "when": "size(items) > 5"}}, {"items": [1, 2]})
    assert (done.status, steps["m"].output) == (RunStatus.COMPLETED, None)


async def test_a_handler_is_called_until_its_condition_holds_with_what_it_gave_last(database: type[Database]) -> None:
    repeat = {"until": "output.calls >= want", "max": 10}
    done, steps = await run({"a": {"method": HANDLERS + "calls", "repeat": repeat}}, {"want": 4})
    assert (done.status, done.output) == (RunStatus.COMPLETED, {"a": {"calls": 4}})
    assert steps["a"].repeats == 3


async def test_a_loop_that_does_not_end_fails_at_its_bound(database: type[Database]) -> None:
    repeat = {"until": "output.calls > 100", "max": 3}
    done, _ = await run({"a": {"method": HANDLERS + "calls", "repeat": repeat}})
    assert done.status == RunStatus.FAILED
    assert "after 3 calls, `until: output.calls > 100` does not hold" in (done.status_message or "")


async def test_a_retry_of_a_loop_that_came_to_its_bound_goes_on_with_as_many_calls(database: type[Database]) -> None:
    repeat = {"until": "output.calls >= 4", "max": 3}
    done, _ = await run({"a": {"method": HANDLERS + "calls", "repeat": repeat, "when": "true"}})
    assert done.status == RunStatus.FAILED
    await ops.retry_run(done.id)
    async with working():
        again = await ended(done.id)
    assert (again.status, again.output) == (RunStatus.COMPLETED, {"a": {"calls": 4}}), "two calls more, not one"


async def test_tasks_of_a_map_loop_each_for_itself(database: type[Database]) -> None:
    repeat = {"until": "output.calls >= item", "max": 5}
    done, _ = await run({"m": {"method": HANDLERS + "calls", "map": "items", "repeat": repeat}}, {"items": [1, 3, 2]})
    assert done.output == {"m": [{"calls": 1}, {"calls": 3}, {"calls": 2}]}
