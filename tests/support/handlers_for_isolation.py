"""Handlers for the tests of isolation: well-behaved ones, and those that loop, crash, hoard and ignore signals."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import importlib
import itertools
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.isolation import stop_requested

MIB = 2**20
NOT_A_FUNCTION = "text"

_counter = itertools.count(1)
_hoard: list[bytearray] = []
_variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def echo(value: Any) -> Any:
    return value


def loop_forever_noting_its_process(path: str) -> None:
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    while True:
        pass


def pid() -> int:
    return os.getpid()


def pid_when_released(started: Path, release: Path) -> int:
    announce(started)
    while not release.exists():
        time.sleep(0.002)
    return os.getpid()


def announce(started: Path) -> None:
    """Say that the handler runs, and where; whole or not at all."""
    draft = started.with_suffix(f".{os.getpid()}")
    draft.write_text(str(os.getpid()))
    draft.rename(started)


def count() -> int:
    return next(_counter)


async def loop_identity() -> int:
    return id(asyncio.get_running_loop())


def set_variable() -> str:
    before = _variable.get()
    _variable.set("set")
    return before


async def set_variable_async() -> str:
    return set_variable()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def talk(text: str) -> None:
    print(text)  # noqa: T201  the point
    logging.getLogger("handler").warning("%s, logged", text)


def import_modules(names: list[str]) -> list[str]:
    return [importlib.import_module(name).__name__ for name in names]


# What comes back


class Unpicklable(Exception):  # noqa: N818  short
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class UnpicklableAndPermanent(PermanentError):  # noqa: N818  as Unpicklable
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def raise_value_error(message: str) -> None:
    raise ValueError(message)


async def raise_value_error_async(message: str) -> None:
    raise ValueError(message)


def raise_configuration_error() -> None:
    raise ConfigurationError("COLOUR", "is green", "make it blue")


def raise_unpicklable(message: str) -> None:
    raise Unpicklable(message)


def raise_unpicklable_permanent(message: str) -> None:
    raise UnpicklableAndPermanent(message)


def raise_timeout_error() -> None:
    raise TimeoutError("a server did not answer")


def raise_cancelled() -> None:
    raise asyncio.CancelledError


def results_with_an_exception() -> list[Any]:
    return [1, ConfigurationError("COLOUR", "is green", "make it blue")]


def unpicklable_result() -> Any:
    return threading.Lock()


# What does not end


def loop_in_python(started: Path) -> None:
    announce(started)
    while True:
        pass


def sleep_long(started: Path) -> None:
    announce(started)
    time.sleep(1000)


def ignore_sigterm(started: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    announce(started)
    while True:
        time.sleep(1000)


def loop_in_c(started: Path) -> None:
    """Hold the interpreter in C, where no signal handler of Python's gets a turn."""
    announce(started)
    re.match(r"(a|a)*b", "a" * 60)


def swallow_everything(started: Path) -> None:
    announce(started)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1000)


def loop_until_stop(started: Path) -> None:
    announce(started)
    while not stop_requested():
        time.sleep(0.002)


async def sleep_async(started: Path, finished: Path) -> None:
    announce(started)
    try:
        await asyncio.sleep(1000)
    finally:
        announce(finished)


def sleep_with_finally(started: Path, finished: Path) -> None:
    announce(started)
    try:
        time.sleep(1000)
    finally:
        announce(finished)


def start_another_process(started: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    started.with_suffix(".other").write_text(str(other.pid))
    announce(started)
    other.wait()


def fork_and_crash() -> None:
    """Leave a process behind that holds everything this one had open."""
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(3)


def take(seconds: float) -> None:
    time.sleep(seconds)


# What crashes


def segfault() -> None:
    ctypes.string_at(0)


def exit_with(code: int) -> None:
    os._exit(code)


def raise_system_exit(code: int) -> None:
    sys.exit(code)


def signal_itself(signum: int) -> str:
    os.kill(os.getpid(), signum)
    return "still here"


# What uses memory


def allocate(mib: int) -> int:
    """Allocate in pieces, as a parser does that reads more and more."""
    return len([_touched(16) for _ in range(0, mib, 16)])


def allocate_and_keep(mib: int) -> None:
    pieces = [_touched(16) for _ in range(0, mib, 16)]
    while pieces:
        time.sleep(1000)


def reserve(mib: int) -> int:
    """Ask for memory without touching it, as a parser does that believes the size in a broken file."""
    return len(bytes(mib * MIB))


def hoard(mib: int) -> int:
    _hoard.append(_touched(mib))
    return os.getpid()


def _touched(mib: int) -> bytearray:
    return bytearray(b"x") * (mib * MIB)
