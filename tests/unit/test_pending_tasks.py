"""Whether something is left to execute, while what is left moves on between the questions."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any, cast

import pytest

from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.flows import executor
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.wf.sql import SQL

WAYS = (["event", "ready"], ["event", "signal", "ready"], ["signal", "ready"], ["ready"])


class MovingWork:
    """Work that is at the next place of its way from a certain question on, and then stays there."""

    def __init__(self, way: list[str], moves_before: int) -> None:
        self._way, self._moves_before, self._asked = way, moves_before, 0

    def _is_at(self, place: str) -> bool:
        at = self._way[min(int(self._asked >= self._moves_before), len(self._way) - 1)]
        self._asked += 1
        return at == place

    async def next_event_due(self) -> datetime | None:
        return utcnow() if self._is_at("event") else None

    async def read(self, question: Call) -> list[dict[str, Any]]:
        if question == SQL.any_new_signal():
            return [{"is_there": 1}] if self._is_at("signal") else []
        assert question == SQL.look_for_work()
        ready = {"kind": "plain", "step_type": "work", "priority": 0, "queue_key": 1}
        return [*([ready] if self._is_at("ready") else []), {"kind": "due", "due": None}]


class TakesAll:
    def accepts(self, step_type: str) -> bool:
        return True


@pytest.mark.parametrize(("way", "moves_before"), list(itertools.product(WAYS, range(4))))
async def test_work_that_moves_on_between_two_questions_is_seen(
    monkeypatch: pytest.MonkeyPatch, way: list[str], moves_before: int
) -> None:
    work = MovingWork(way, moves_before)
    monkeypatch.setattr(executor, "Database", work)
    monkeypatch.setattr(operations, "next_event_due", work.next_event_due)
    assert await executor.can_do_something(cast("Worker", TakesAll()))
