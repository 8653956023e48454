"""Slots for work that waits for somebody else's bytes: whoever is kept waiting lets another go first.

A slot is held while bytes come quickly and while they are worked on. Who waits for longer than its patience gives the
slot back and takes one again when the bytes are there. Patience comes back with bytes, so a client that sends one now
and then holds a slot for moments only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request
from starlette.types import Message, Receive

PATIENCE: Final = 0.25
"""Seconds that a client may let a slot wait."""
FAST: Final = 256 << 10
"""Bytes that give a second of patience back."""
BEGUN_FOR_EACH_SLOT: Final = 50
"""Requests that may have begun for each slot: each holds some memory and a file, also while it waits."""
KEY: Final = "soliplex.slot"
"""The name under which the scope of a request holds its slot."""


class Slots:
    """A number of slots. Who finds none free waits for its turn, in order."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._begun = asyncio.Semaphore(count * BEGUN_FOR_EACH_SLOT)

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[Slot]:
        async with self._begun:
            slot = Slot(self._free)
            await slot.take()
            try:
                yield slot
            finally:
                slot.let_go()


class Slot:
    """A slot that a request holds, except while the request is kept waiting."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free = free
        self.is_held = False
        self._patience = PATIENCE

    async def take(self) -> None:
        if not self.is_held:
            await self._free.acquire()
            self.is_held = True

    def let_go(self) -> None:
        if self.is_held:
            self.is_held = False
            self._free.release()

    async def while_waiting[T](self, bytes_to_come: Awaitable[T]) -> T:
        """Await bytes of a client. The slot is held again when they are there."""
        started = time.monotonic()
        # Called on the next turn of the loop, if there is no patience left: not at all, if the bytes are there already.
        letting_go = asyncio.get_running_loop().call_later(self._patience, self.let_go)
        try:
            came = await bytes_to_come
        finally:
            letting_go.cancel()
        self._patience = max(0.0, self._patience - (time.monotonic() - started))
        await self.take()
        return came

    def count(self, size: int) -> None:
        """Give patience back for bytes that have come."""
        self._patience = min(PATIENCE, self._patience + size / FAST)

    def receiving(self, receive: Receive) -> Receive:
        """Messages of a request, as the server gives them."""

        async def received() -> Message:
            message = await self.while_waiting(receive())
            self.count(len(message.get("body", b"")))
            return message

        return received


async def fetched_in_turn(request: Request, blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Blocks that another server sends; while it is slow, another request may have the slot of this one."""
    slot: Slot | None = request.scope.get(KEY)
    if slot is None:
        async for block in blocks:
            yield block
        return
    while (block := await slot.while_waiting(anext(blocks, None))) is not None:
        slot.count(len(block))
        yield block
