"""A handler's process, from inside: take a call, answer it, take the next, until the worker closes the connection.

Modules stay imported and models stay loaded between calls. The process does not outlive its worker, and leaves it to
the worker when to end: it ignores Ctrl-C, and SIGTERM too unless the worker asked it to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import importlib
import inspect
import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import cache
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.lib.log_facts import process_works_on
from soliplex.ingester.lib.printed import log_in_process
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.isolation import pickles
from soliplex.ingester.lib.wf.isolation.stopping import listen_for_stop, stop_requested
from soliplex.ingester.lib.wf.isolation.wire import Frame, Kind, Setup, receive, send
from soliplex.ingester.lib.wf.tracing import within_carried_span
from soliplex.ingester.lib.wiring import unpack_settings

_PR_SET_PDEATHSIG: Final = 1
# Allocators reserve memory that they never touch, more than a gigabyte with lancedb, docling and OCR at work, and
# RLIMIT_DATA counts it. A library that does not get its reserve seldom raises MemoryError: it aborts, or fails in odd
# ways.
_RESERVED_BY_ALLOCATORS_MIB: Final = 2048
# Halfway between the default and the highest score: when memory runs out, the kernel ends this process before the
# worker.
_OOM_SCORE: Final = b"500"


def main(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as connection, asyncio.Runner() as runner:
        connection.set_inheritable(False)
        listen_for_stop(connection)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _on_sigterm)
        # A broken connection means that the worker is gone.
        with contextlib.suppress(ConnectionError):
            _serve(connection, runner)
        # From here on nothing is left to clean up, and a thread that a handler left behind must not delay the end.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _serve(connection: socket.socket, runner: asyncio.Runner) -> None:
    while (frame := receive(connection)) is not None:
        match frame.kind:
            case Kind.SETUP:
                _set_up(pickles.loads(frame.body))
                send(connection, Frame(Kind.DONE))
            case Kind.CALL:
                send(connection, _answer(frame.body, connection, runner))
            case _:
                pass  # a STOP that crossed with the answer


def _answer(body: memoryview | bytes, connection: socket.socket, runner: asyncio.Runner) -> Frame:
    try:
        method, arguments, carried = pickles.load_call(body)
        with process_works_on(carried.facts), within_carried_span(carried.span):
            context = copy_context()  # what a handler sets in its context is not seen by the next handler
            result = context.run(_function(method), **arguments)
            if inspect.isawaitable(result):
                result = runner.run(_until_stop(result, connection), context=context)
            return Frame(Kind.DONE, pickles.dump_result(method, result))
    except MemoryError:
        return Frame(Kind.OUT_OF_MEMORY)
    except SystemExit:
        raise
    except BaseException as exc:  # noqa: BLE001  whatever a handler raises is the worker's to judge
        return Frame(Kind.FAILED, pickles.dump_failure(exc))


@cache
def _function(method: str) -> Callable[..., Any]:
    module, _, name = method.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise PermanentError(f"handler {method!r} cannot be imported: {exc}") from exc
    if not callable(function):
        raise PermanentError(f"handler {method!r} is not a function")
    return function


async def _until_stop[T](result: Awaitable[T], connection: socket.socket) -> T:
    """Await an async handler, and cancel it as soon as a stop is requested."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        loop.remove_reader(connection)
        task.cancel()

    loop.add_reader(connection, cancel)
    try:
        return await result
    finally:
        loop.remove_reader(connection)


def _on_sigterm(signum: int, _frame: object) -> None:
    # A service manager signals every process of the service, but it is the worker that decides which calls may finish.
    if stop_requested():
        raise SystemExit(128 + signum)


def _set_up(setup: Setup) -> None:
    _die_with(setup.parent_pid)
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    log_in_process(setup.log_level)
    unpack_settings(setup.settings)
    if setup.memory_limit_mib is not None:
        _limit_memory(setup.memory_limit_mib)


def _die_with(parent_pid: int) -> None:
    if sys.platform == "linux":
        # Sent when the thread ends that started this process: the one with the worker's loop.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the worker died before the kernel was asked
        sys.exit()


def _limit_memory(limit_mib: int) -> None:
    """Make allocations far beyond the limit fail. The limit itself is the worker's to keep, by what is resident."""
    # Not RLIMIT_AS: it counts all address space, mapped files too, which is five times what is resident.
    wanted = (limit_mib + _RESERVED_BY_ALLOCATORS_MIB) * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(_OOM_SCORE)
