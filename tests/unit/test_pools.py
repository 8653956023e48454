"""What a slot of a pool takes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.definitions import workflow_from_mapping
from soliplex.ingester.lib.wf.duties import Duties
from soliplex.ingester.lib.wf.finisher import Finisher
from soliplex.ingester.lib.wf.links import Doubts
from soliplex.ingester.lib.wf.metrics import MemoryMetrics
from soliplex.ingester.lib.wf.operations.claim import Pool
from soliplex.ingester.lib.wf.pools import ConsumerPool, PoolServices, calls_by_weight
from soliplex.ingester.lib.wf.work import ClaimedStep
from tests.support.engine import registry_in_use

HANDLERS = "tests.support.handlers."
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Executor:
    """Notes the steps of each call, until it has seen as many as it waits for."""

    def __init__(self, steps: int) -> None:
        self.calls: list[list[int]] = []
        self.is_done = asyncio.Event()
        self._steps = steps

    async def execute(self, steps: list[ClaimedStep]) -> list[Any]:
        self.calls.append([step.id for step in steps])
        if sum(map(len, self.calls)) == self._steps:
            self.is_done.set()
        return []


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        steps = {"many": {"method": HANDLERS + "in_batches"}, "one": {"method": HANDLERS + "nothing"}}
        get_registry().register(workflow_from_mapping({"id": "flow", "item_steps": steps}))
        yield


def claimed(number: int, name: str, resource_key: str | None = None) -> ClaimedStep:
    row: Any = {"priority": 0}
    run: Any = {"cancel_requested_at": None, "definition_id": None}
    return ClaimedStep(
        number, number, name, name, f"lease-{number}", resource_key, None, None, "flow", 1, "me", NOON, row, run
    )


async def calls_for(*steps: ClaimedStep) -> list[list[int]]:
    """The calls of a pool of one slot, to which the steps came one by one."""
    executor, metrics = Executor(len(steps)), MemoryMetrics()
    finisher = Finisher(
        metrics=metrics,
        probe=None,
        clock=lambda: NOON,
        on_finished=lambda _: None,
        following=lambda: None,
        expects_more=lambda: False,
        doubts=Doubts(),
    )
    services = PoolServices(
        worker_id="me",
        executor=cast("Any", executor),
        finisher=finisher,
        doubts=Doubts(),
        metrics=metrics,
        probe=None,
        clock=lambda: NOON,
        on_claimed=lambda _: None,
        batch_size=100,
        poll_interval=1,
        lock_ttl=timedelta(minutes=1),
    )
    pool = ConsumerPool("*", 1, Pool(), services)
    for step in steps:
        pool.follow([step])
    slot = Duties("me").start(pool.slot_duty())
    await executor.is_done.wait()
    await pool.stop_claiming()
    await slot
    return executor.calls


async def test_steps_that_came_one_by_one_are_executed_in_one_call_if_their_handler_takes_many() -> None:
    assert await calls_for(*(claimed(number, "many") for number in range(1, 4))) == [[1, 2, 3]]


async def test_no_call_takes_more_than_its_handler_does() -> None:
    assert [len(call) for call in await calls_for(*(claimed(number, "many") for number in range(12)))] == [10, 2]


async def test_steps_of_another_kind_keep_their_place() -> None:
    steps = [claimed(1, "many"), claimed(2, "one"), claimed(3, "many"), claimed(4, "one")]
    assert await calls_for(*steps) == [[1, 3], [2], [4]]


@pytest.mark.parametrize(
    ("weights", "calls"),
    [
        ({"a": 1, "b": 1}, [["a", "b"]]),
        ({"giant": 11, "a": 1, "b": 9}, [["a", "b"], ["giant"]]),
        ({"a": 10, "b": 1}, [["b"], ["a"]]),
        ({"giant": 50, "greater": 60}, [["giant"], ["greater"]]),
        ({"a": 0, "b": 0, "c": 0, "d": 0}, [["a", "b", "c"], ["d"]]),
    ],
)
def test_calls_are_no_heavier_than_they_may_be_and_the_lightest_go_first(
    weights: dict[str, int], calls: list[list[str]]
) -> None:
    assert calls_by_weight(list(weights), list(weights.values()), most=10, size=3) == calls
