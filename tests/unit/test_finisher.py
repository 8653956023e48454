"""When results are recorded, and which of them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from soliplex.ingester.lib.wf import finisher as module
from soliplex.ingester.lib.wf.duties import Duties
from soliplex.ingester.lib.wf.finisher import COMPANY, Finisher
from soliplex.ingester.lib.wf.links import Doubts
from soliplex.ingester.lib.wf.metrics import MemoryMetrics
from soliplex.ingester.lib.wf.operations.finish import Finished
from soliplex.ingester.lib.wf.work import Completed, Errored, Result


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The steps of each transaction."""
    batches: list[list[int]] = []

    async def finish_steps(results: Sequence[Result], **_options: Any) -> Finished:
        batches.append([result.step_id for result in results])
        return Finished()

    monkeypatch.setattr(module, "finish_steps", finish_steps)
    return batches


@asynccontextmanager
async def running(*, others_run: bool) -> AsyncGenerator[Finisher]:
    finisher = Finisher(
        metrics=MemoryMetrics(),
        probe=None,
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        on_finished=lambda _: None,
        following=lambda: None,
        expects_more=lambda: others_run,
        doubts=Doubts(),
    )
    duties = Duties("me")
    task = duties.start(finisher.duty())
    yield finisher
    await finisher.drain()
    await duties.end([task])


async def submit(finisher: Finisher, *step_ids: int) -> None:
    finisher.submit([Completed(step_id=step_id, run_id=1, lease="x") for step_id in step_ids])
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_result_is_recorded_at_once_where_no_other_can_come(recorded: list[list[int]]) -> None:
    async with running(others_run=False) as finisher:
        await submit(finisher, 1)
        await submit(finisher, 2)
    assert recorded == [[1], [2]]


async def test_a_result_waits_a_moment_for_those_of_steps_under_way(recorded: list[list[int]]) -> None:
    async with running(others_run=True) as finisher:
        await submit(finisher, 1)
        await submit(finisher, 2)
        assert recorded == []
    assert recorded == [[1, 2]]


async def test_many_results_wait_for_nobody(recorded: list[list[int]]) -> None:
    async with running(others_run=True) as finisher:
        await submit(finisher, *range(COMPANY))
        assert recorded == [list(range(COMPANY))]


async def test_what_is_too_large_for_the_database_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Result] = []

    async def refuse_the_second(results: Sequence[Result], **_options: Any) -> Finished:
        if any(result.step_id == 2 and isinstance(result, Completed) for result in results):
            raise asyncpg.ProgramLimitExceededError("total size of jsonb array elements exceeds the maximum")
        ended.extend(results)
        return Finished()

    monkeypatch.setattr(module, "finish_steps", refuse_the_second)
    async with running(others_run=True) as finisher:
        await submit(finisher, 1, 2, 3)
    assert {result.step_id: type(result) for result in ended} == {1: Completed, 2: Errored, 3: Completed}
