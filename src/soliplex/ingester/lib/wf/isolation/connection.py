"""The worker's end of the connection to a handler's process."""

from __future__ import annotations

import asyncio
from typing import cast, override

from soliplex.ingester.lib.wf.isolation.wire import Frame, header_of, unpack

type Answer = asyncio.Future[Frame | None]


class Connection(asyncio.Protocol):
    """Asks one question at a time. An answer of None means that the process is gone."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._answer: Answer | None = None
        self._has_ended = False

    @property
    def is_idle(self) -> bool:
        return self._answer is None and not self._has_ended

    def ask(self, frame: Frame) -> Answer:
        answer: Answer = asyncio.get_running_loop().create_future()
        if self._has_ended:
            answer.set_result(None)
        else:
            self._answer = answer
            self.send(frame)
        return answer

    def send(self, frame: Frame) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines((header_of(frame), frame.body))

    def close(self) -> None:
        # Not close(): arguments that a stuck process does not read would keep the connection open.
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an isinstance: uvloop's transports are not derived from asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        frame = unpack(self._received)
        if frame is not None:
            self._received = bytearray()
            self._settle(frame)

    @override
    def eof_received(self) -> None:
        self._has_ended = True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        self._settle(None)
        if not self.lost.done():
            self.lost.set_result(None)

    def _settle(self, frame: Frame | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(frame)
