"""How a handler learns that nobody waits for it: its time is up, its run was cancelled, or the worker is gone."""

from __future__ import annotations

import select
import socket
import threading
from contextvars import ContextVar
from typing import Final

# Set for a plain handler that runs in a thread of the worker. It is a variable of the handler's context, since many
# handlers share the process.
thread_flag: Final[ContextVar[threading.Event | None]] = ContextVar("thread_flag", default=None)
_connections: Final[list[socket.socket]] = []


def stop_requested() -> bool:
    """Whether the handler should end early: a long loop that looks at this is never killed in the middle of it."""
    flag = thread_flag.get()
    if flag is not None:
        return flag.is_set()
    return any(map(_has_something_to_read, _connections))


def listen_for_stop(connection: socket.socket) -> None:
    """In a handler's process: the worker asks for a stop by writing to this connection, or by closing it."""
    _connections[:] = [connection]


def _has_something_to_read(connection: socket.socket) -> bool:
    # During a call the worker sends nothing else, so whatever lies there means stop.
    poll = select.poll()  # not select(), which fails for a descriptor above 1023
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
