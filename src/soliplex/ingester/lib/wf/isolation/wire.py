"""The frames between a worker and a handler's process: a length, a kind, a body.

    worker                          process
    SETUP  limits, settings    ->
                               <-   DONE
    CALL   method, arguments,
           what is worked on   ->
    STOP   (if it must end)    ->
                               <-   DONE result | FAILED exception | OUT_OF_MEMORY

One call at a time. A STOP belongs to the call before it; when it crosses with the answer, the process skips it. While
a call runs nothing but a STOP can arrive, so the process need not read it: that there is something to read says all.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct("!QB")


class Kind(IntEnum):
    """What a frame is."""

    SETUP = auto()
    CALL = auto()
    STOP = auto()
    DONE = auto()
    FAILED = auto()
    OUT_OF_MEMORY = auto()


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    body: memoryview | bytes = b""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a process must know before its first call."""

    parent_pid: int
    memory_limit_mib: int | None
    log_level: int
    settings: bytes
    """The settings of the process's wiring, pickled: few handlers need them, and they take long to load."""


def header_of(frame: Frame) -> bytes:
    return _HEADER.pack(len(frame.body), frame.kind)


def unpack(received: bytearray) -> Frame | None:
    """Give the frame that was received, or None while a part of it is missing."""
    if len(received) < _HEADER.size:
        return None
    length, kind = _HEADER.unpack_from(received)
    if len(received) < _HEADER.size + length:
        return None
    return Frame(Kind(kind), memoryview(received)[_HEADER.size :])


def send(connection: socket.socket, frame: Frame) -> None:
    connection.sendall(header_of(frame))
    if frame.body:
        connection.sendall(frame.body)


def receive(connection: socket.socket) -> Frame | None:
    """Wait for a frame; None when the other end is gone. Reads not a byte beyond the frame."""
    header = _read(connection, _HEADER.size)
    if header is None:
        return None
    length, kind = _HEADER.unpack(header)
    body = _read(connection, length)
    return None if body is None else Frame(Kind(kind), body)


def _read(connection: socket.socket, length: int) -> memoryview | None:
    view = memoryview(bytearray(length))
    position = 0
    while position < length:
        count = connection.recv_into(view[position:])
        if count == 0:
            return None
        position += count
    return view
