"""Inputs of steps: the run's input and what the steps before gave, read once for all that was claimed together."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import Rows
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.handlers import inputs_of
from soliplex.ingester.lib.wf.work import ClaimedStep, Company
from tests.support.engine import Driver, expanded, linear, workflow


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that are read, as they are."""
    names: list[str] = []
    read = Database.read

    async def noted(call: Call) -> Rows:
        names.append(call.statement.name)
        return await read(call)

    monkeypatch.setattr(Database, "read", noted)
    return names


async def claim_second_steps(driver: Driver, runs: int) -> list[ClaimedStep]:
    await driver.start(linear("a", "b"), runs)
    for step in await driver.claim(types=["a"]):
        await driver.complete(step, output={"gave": step.run_input["n"]})
    return await driver.claim(types=["b"])


async def test_what_was_claimed_together_is_read_at_once_though_each_asks_for_itself(
    driver: Driver, reads: list[str]
) -> None:
    steps = await claim_second_steps(driver, 10)
    Company(steps)
    reads.clear()
    found = await asyncio.gather(*(inputs_of([step]) for step in steps))
    assert [each[0] for each in found] == [{"n": number, "a": {"gave": number}} for number in range(10)]
    assert reads == ["outputs_of_dependencies"]


async def test_a_step_that_was_claimed_alone_reads_its_own(driver: Driver, reads: list[str]) -> None:
    (step,) = await claim_second_steps(driver, 1)
    reads.clear()
    assert await inputs_of([step]) == [{"n": 0, "a": {"gave": 0}}]
    assert await inputs_of([step]) == [{"n": 0, "a": {"gave": 0}}]
    assert reads == ["outputs_of_dependencies"]


async def test_tasks_of_a_map_have_their_item_beside_what_all_of_them_get(driver: Driver, reads: list[str]) -> None:
    flow = workflow({"a": {}, "m": {"map": "items"}})
    await driver.start(flow, [ops.NewRun(input={"n": 1})])
    await driver.complete(await driver.claim_one(), output={"items": [5, 6]})
    step = await driver.claim_one()
    await driver.finish(expanded(step, [5, 6]))
    tasks = await driver.claim()
    Company(tasks)
    reads.clear()
    shared = {"n": 1, "a": {"items": [5, 6]}}
    assert [(await inputs_of([task]))[0] for task in tasks] == [{**shared, "item": 5}, {**shared, "item": 6}]
    assert reads == ["outputs_of_dependencies"]


async def test_nothing_asked_for_is_nothing_read(driver: Driver, reads: list[str]) -> None:
    assert await inputs_of([]) == []
    assert reads == []
