"""What is larger than 64 KiB: handlers see values, and rows hold references. With a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import RunStatus, WorkflowRun
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.operations.payloads import value_of
from tests.support.engine import assert_consistent, registry_in_use, rows_of, scalar, workflow
from tests.support.handlers import much
from tests.support.working import HANDLERS, ended, working


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


def by(handler: str, **facts: Any) -> dict[str, Any]:
    return {"method": HANDLERS + handler, **facts}


async def execute(steps: dict[str, dict[str, Any]], given: Any = None) -> WorkflowRun:
    flow = workflow(steps)
    created = await ops.create_run_group(flow, None, [ops.NewRun(input={} if given is None else given)])
    async with working():
        run = await ended(created.run_ids[0])
    await assert_consistent()
    assert run.status is RunStatus.COMPLETED, run.status_message
    return run


async def longest_row() -> int:
    columns = ("input", "output", "state", "answer")
    lengths = ", ".join(f"coalesce(max(length(CAST({name} AS text))), 0)" for name in columns)
    rows = await rows_of(f"SELECT {lengths} FROM runstep")
    of_runs = await rows_of(
        "SELECT max(length(CAST(input AS text))), max(length(CAST(output AS text))) FROM workflowrun"
    )
    return max(each or 0 for each in (*rows[0], *of_runs[0]))


async def test_the_next_step_is_given_the_value_of_a_large_output(database: None) -> None:
    run = await execute({"first": by("gives_much"), "second": by("measures")})
    assert run.output == {"second": {"first": 100_000}}
    assert await longest_row() < 1_000


async def test_a_reference_keeps_what_views_read_of_the_value(database: None) -> None:
    run = await execute({"only": by("gives_much")})
    assert run.output["only"]["pages"] == 12
    assert run.output["only"]["bytes"] > 200_000
    assert await value_of(to_json(run.output)) == {"only": much()}


async def test_a_large_input_of_a_run_reaches_its_steps(database: None) -> None:
    run = await execute({"only": by("measures")}, {"given": much()})
    assert run.output == {"only": {"given": 100_000}}
    assert await longest_row() < 1_000


async def test_large_items_reach_the_tasks_of_a_map_and_their_outputs_the_step_after(database: None) -> None:
    run = await execute(
        {"list": by("gives_large_items"), "m": by("gives_back_item", map=True), "after": by("measures_list")}
    )
    assert run.output == {"after": [100_000, 1, 100_000]}
    assert await longest_row() < 1_000


async def test_a_large_list_that_a_map_gathers_stands_in_no_row(database: None) -> None:
    run = await execute(
        {"m": by("gives_back_item", map="items"), "after": by("measures_list")},
        {"items": [much(1_000) for _ in range(100)]},
    )
    assert run.output == {"after": [1_000] * 100}
    assert await longest_row() < 10_000


async def test_a_loop_keeps_no_states_but_the_last_two(database: None) -> None:
    run = await execute({"only": by("grows")})
    assert run.output == {"only": 500_000}
    assert await scalar("SELECT count(*) FROM payload WHERE is_state") == 2


async def test_a_large_input_and_output_pass_through_a_subflow(database: None) -> None:
    workflow({"only": by("gives_back")}, workflow_id="gives_back")
    run = await execute({"outer": by("asks_another")})
    assert run.output == {"outer": 100_000}
    assert await longest_row() < 1_000


async def test_large_values_go_with_their_run(database: None) -> None:
    run = await execute({"first": by("gives_much"), "second": by("measures")}, {"given": much()})
    assert await scalar("SELECT count(*) FROM payload") == 2
    await ops.delete_run_group(run.run_group_id)
    assert await scalar("SELECT count(*) FROM payload") == 0


async def test_nobody_makes_a_reference_to_what_is_not_theirs(database: None) -> None:
    flow = workflow({"only": by("forges")})
    created = await ops.create_run_group(flow, None, [ops.NewRun(input={})])
    async with working():
        run = await ended(created.run_ids[0])
    assert run.status is RunStatus.FAILED
    assert "':payload', which is kept for references" in (run.status_message or "")
    with pytest.raises(InvalidInputError, match="input: has an object with the key"):
        await ops.create_run_group(flow, None, [ops.NewRun(input={"a": {":payload": 1}})])
    with pytest.raises(InvalidInputError, match="payload: has an object with the key"):
        await ops.send_signal("key", {":payload": 1})


async def test_a_text_that_only_looks_like_a_reference_is_a_text(database: None) -> None:
    given = {"text": '":payload":', "list": [":payload", '{":payload": 1}']}
    run = await execute({"only": by("gives_back")}, given)
    assert run.output == {"only": given}
