"""The doorbell: who is woken, and who is let sleep."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.wf.wakeup import Doorbell, work_is_ready


@pytest.mark.parametrize(
    ("types", "is_woken"),
    [(None, True), (["parse"], True), (["store", "parse"], True), (["store"], False), ([], False)],
)
def test_only_those_who_could_take_the_work_are_woken(types: list[str] | None, is_woken: bool) -> None:
    doorbell = Doorbell({"parse"}.__contains__)
    doorbell.ring(types)
    assert (doorbell.rings == 1) is is_woken


async def test_a_ring_that_came_before_the_wait_is_not_missed() -> None:
    doorbell = Doorbell()
    seen = doorbell.rings
    work_is_ready()
    assert await doorbell.wait(seen, timeout=60) == seen + 1


def test_the_types_that_were_told_are_given_once() -> None:
    doorbell = Doorbell({"parse", "chunk"}.__contains__)
    doorbell.ring(["parse"])
    doorbell.ring(["store"])
    doorbell.ring(["chunk"])
    assert doorbell.take_told() == {"parse", "chunk"}
    assert doorbell.take_told() == set()


def test_a_ring_without_types_leaves_unknown_what_is_ready() -> None:
    doorbell = Doorbell()
    doorbell.ring(["parse"])
    doorbell.ring()
    doorbell.ring(["chunk"])
    assert doorbell.take_told() == set()
    doorbell.ring(["chunk"])
    assert doorbell.take_told() == {"chunk"}
