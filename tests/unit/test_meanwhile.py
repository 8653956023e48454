"""Work that goes on beside a block."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.meanwhile import meanwhile


class Work:
    """Says when it has begun, and when it has ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.has_ended = False

    async def __call__(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.has_ended = True


async def test_the_work_goes_on_during_the_block_and_has_ended_after_it() -> None:
    work = Work()
    async with meanwhile(work()):
        await work.begun.wait()
        assert not work.has_ended
    assert work.has_ended


async def test_the_work_ends_with_a_block_that_fails() -> None:
    work = Work()

    async def block() -> None:
        async with meanwhile(work()):
            await work.begun.wait()
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block"):
        await block()
    assert work.has_ended


async def test_an_error_of_the_work_is_none_of_the_blocks() -> None:
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise ValueError("of the work")

    async with meanwhile(fail()):
        await failed.wait()
