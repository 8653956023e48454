"""Many at once, in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from soliplex.ingester.lib.gathering import LARGEST_GROUP, ROUNDS, Gathering


class Handler:
    """Doubles numbers, refuses negative ones; each group waits until it is let go."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_go = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, numbers: Sequence[int]) -> Sequence[int | Exception]:
        self.groups.append(list(numbers))
        self.begun.set()
        await self.may_go.wait()
        if 0 in numbers:
            raise ZeroDivisionError
        return [number * 2 if number > 0 else ValueError(number) for number in numbers]


async def submit_all(gathering: Gathering[int, int], numbers: Sequence[int]) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(gathering.submit(number)) for number in numbers]
    await asyncio.sleep(0)
    return tasks


async def test_what_comes_while_a_group_is_under_way_makes_the_next() -> None:
    handler = Handler()
    gathering = Gathering(handler)
    first = await submit_all(gathering, [1])
    await handler.begun.wait()
    later = await submit_all(gathering, [2, 3, 4])
    handler.may_go.set()
    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8]
    assert handler.groups == [[1], [2, 3, 4]]


async def test_as_many_groups_are_under_way_as_was_said() -> None:
    handler = Handler()
    gathering = Gathering(handler, at_once=2)
    tasks: list[asyncio.Task[int]] = []
    for numbers in ([1], [2, 3], [4], [5]):
        tasks += await submit_all(gathering, numbers)
        for _ in range(2 * ROUNDS):
            await asyncio.sleep(0)
    assert handler.groups == [[1], [2, 3]]
    handler.may_go.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8, 10]
    assert handler.groups == [[1], [2, 3], [4, 5]]


async def test_those_for_whom_a_group_has_no_room_begin_the_next_at_once() -> None:
    handler = Handler()
    gathering = Gathering(handler, at_once=2)
    tasks = await submit_all(gathering, range(1, LARGEST_GROUP + 2))
    for _ in range(4 * ROUNDS):
        await asyncio.sleep(0)
    assert [len(group) for group in handler.groups] == [LARGEST_GROUP, 1]
    handler.may_go.set()
    await asyncio.gather(*tasks)


async def test_a_group_is_never_too_large() -> None:
    handler = Handler()
    handler.may_go.set()
    gathering = Gathering(handler)
    tasks = await submit_all(gathering, range(1, 2 * LARGEST_GROUP + 2))
    await asyncio.gather(*tasks)
    assert [len(group) for group in handler.groups] == [LARGEST_GROUP, LARGEST_GROUP, 1]


async def test_an_error_of_one_is_not_that_of_the_others() -> None:
    handler = Handler()
    handler.may_go.set()
    tasks = await submit_all(Gathering(handler), [1, -1, 2])
    one, two, three = await asyncio.gather(*tasks, return_exceptions=True)
    assert (one, three) == (2, 4)
    assert isinstance(two, ValueError)


async def test_a_group_that_fails_fails_for_all_and_the_next_goes_on() -> None:
    handler = Handler()
    handler.may_go.set()
    gathering = Gathering(handler)
    tasks = await submit_all(gathering, [0, 1])
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 2
    assert await gathering.submit(3) == 6


async def test_who_cancels_before_the_group_begins_takes_the_item_back() -> None:
    handler = Handler()
    gathering = Gathering(handler)
    first = await submit_all(gathering, [1])
    await handler.begun.wait()
    two, three = await submit_all(gathering, [2, 3])
    two.cancel()
    with pytest.raises(asyncio.CancelledError):
        await two
    handler.may_go.set()
    assert await asyncio.gather(*first, three) == [2, 6]
    assert handler.groups == [[1], [3]]


async def test_who_cancels_while_the_group_is_under_way_waits_for_its_end() -> None:
    handler = Handler()
    gathering = Gathering(handler)
    one, two = await submit_all(gathering, [1, 2])
    await handler.begun.wait()
    one.cancel()
    done, _ = await asyncio.wait([one], timeout=0)
    assert not done
    handler.may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await one
    assert await two == 4


def test_another_event_loop_begins_anew() -> None:
    async def double(numbers: Sequence[int]) -> Sequence[int]:
        return [number * 2 for number in numbers]

    gathering = Gathering[int, int](double)

    async def leave() -> None:
        asyncio.create_task(gathering.submit(1))  # noqa: RUF006  it is left, on purpose
        await asyncio.sleep(0)

    asyncio.run(leave())
    assert asyncio.run(gathering.submit(2)) == 4
