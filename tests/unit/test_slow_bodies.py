from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.server.bodies import Allowance
from soliplex.ingester.server.slots import FAST, PATIENCE, Slots


def test_a_slow_and_steady_body_may_come_for_ever() -> None:
    allowance = Allowance(30, 1000)
    for _ in range(3600):
        allowance.count(1.0, 10_000)
    assert allowance.seconds == 30


def test_a_body_below_the_lowest_rate_uses_its_time_up() -> None:
    allowance = Allowance(30, 1000)
    for _ in range(34):
        allowance.count(1.0, 100)
    assert 0 < allowance.seconds < 1
    allowance.count(1.0, 100)
    assert allowance.seconds == pytest.approx(0.1)  # pyright: ignore[reportUnknownMemberType]


def test_a_burst_earns_no_longer_pause_than_the_window() -> None:
    allowance = Allowance(30, 1000)
    allowance.count(0.0, 1 << 30)
    assert allowance.seconds == 30


async def test_a_slot_goes_to_another_while_its_holder_is_kept_waiting() -> None:
    slots, coming = Slots(1), asyncio.Event()
    async with slots.taken() as slow:
        waiting = asyncio.create_task(slow.while_waiting(coming.wait()))
        async with slots.taken():
            assert not slow.is_held
            coming.set()
        assert await waiting
        assert slow.is_held


async def test_bytes_that_are_there_already_are_taken_without_giving_the_slot_away() -> None:
    slots = Slots(1)
    there = asyncio.Event()
    there.set()
    async with slots.taken() as slot:
        other = asyncio.create_task(_take(slots))
        await slot.while_waiting(asyncio.sleep(PATIENCE / 10))
        for _ in range(100):
            await slot.while_waiting(there.wait())
            slot.count(FAST)
        assert not other.done()
    await other


async def _take(slots: Slots) -> None:
    async with slots.taken():
        pass
