"""A transaction is committed, and its answer is lost: whoever asked does not know that it happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.links import SteadyLink
from tests.support.engine import rows_of
from tests.support.faults import Fleet


@pytest.mark.parametrize("every", [3, 5])
async def test_nothing_is_lost_or_done_twice(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    await fleet.create("load", 4)
    await fleet.create("line", 2, resource_keys={"first": "shelf"})
    async with fleet.helper(liveness_interval=0.05):
        with monkeypatch.context() as patch:
            _lose_answers(patch, every)
            await fleet.nothing_is_left()
        await fleet.everything_ends()
    assert set(fleet.journal.executions().values()) == {1}
    assert await rows_of("SELECT id FROM runstep WHERE status <> 'COMPLETED' OR retry > 0") == []


def _lose_answers(patch: pytest.MonkeyPatch, every: int) -> None:
    """Let one of so many transactions of each task fail after its commit.

    Each task counts for itself: were all counted together, one that tries again and again might always be the one.
    """
    numbers: Counter[asyncio.Task[Any] | None] = Counter()

    def lossy(transact: Callable[..., Any]) -> Callable[..., Any]:
        async def transact_and_lose(*arguments: Any) -> Any:
            result = await transact(*arguments)
            task = asyncio.current_task()
            numbers[task] += 1
            if numbers[task] % every == 0:
                raise ConnectionResetError("the answer was lost")
            return result

        return transact_and_lose

    patch.setattr(SteadyLink, "transact", lossy(SteadyLink.transact))
    patch.setattr(Database, "transact", lossy(Database.transact))
